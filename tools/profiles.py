"""Make the profiles of `blockmgr/profiles/` from the real traces.

    python tools/profiles.py                 make all of them
    python tools/profiles.py azure2023_conv  make one
    python tools/profiles.py --check         only say which differ from the traces

The traces are found as everywhere in this project: see `blockmgr/workloads.py`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blockmgr.catalogue import TRACES
from blockmgr.errors import BlockManagerError
from blockmgr.profile import bucket
from blockmgr.simulate import simulate
from blockmgr.workloads import (
    MOONCAKE_BLOCK_SIZE,
    Lengths,
    MooncakeRequest,
    Turn,
    find_trace,
    read_alpaca,
    read_azure,
    read_mooncake,
    read_sharegpt,
)

FOLDER = Path(__file__).resolve().parent.parent / "blockmgr" / "profiles"
CAPACITIES = (100, 1_000, 3_000, 5_859, 10_000, 20_000, 30_000, 50_000, 100_000)
Figures = dict[str, Any]


# --- figures that every trace has -----------------------------------------------------


def length_figures(lengths: Sequence[Lengths]) -> Figures:
    """Exact sums and quartiles of prompt and output lengths, in tokens."""
    columns = {
        "prompt_tokens": [row.prompt_tokens for row in lengths],
        "output_tokens": [row.output_tokens for row in lengths],
    }
    return {"requests": len(lengths)} | {
        name: {
            "total": sum(values),
            "quartiles": statistics.quantiles(values, n=4),
            "largest": max(values),
        }
        for name, values in columns.items()
    }


def joint_histogram(lengths: Iterable[Lengths]) -> list[list[int]]:
    """[prompt's bucket, output's bucket, requests], sorted (see `profile.bucket`)."""
    cells = Counter(
        (bucket(row.prompt_tokens), bucket(row.output_tokens)) for row in lengths
    )
    return [[*cell, count] for cell, count in sorted(cells.items())]


def counted(values: Iterable[int]) -> list[list[int]]:
    """[value, how often], sorted by value."""
    return [[value, count] for value, count in sorted(Counter(values).items())]


# --- one function per kind of trace ---------------------------------------------------


def azure(path: Path) -> tuple[Figures, list[Lengths]]:
    """Lengths, and how long the recording lasted."""
    rows = read_azure(path)
    lengths = [Lengths(row.prompt_tokens, row.output_tokens) for row in rows]
    return {"seconds": rows[-1].seconds}, lengths


def alpaca(path: Path) -> tuple[Figures, list[Lengths]]:
    """Lengths only."""
    return {}, read_alpaca(path)


def sharegpt(path: Path) -> tuple[Figures, list[Lengths]]:
    """Turns per conversation, and the lengths of every turn with its history."""
    rows = read_sharegpt(path)
    turns = counted(turns_of_conversations(rows))
    figures = {
        "conversations": sum(count for _, count in turns),
        "turns_of_conversations": turns,
    }
    return figures, [Lengths(row.prompt_tokens, row.output_tokens) for row in rows]


def sharegpt_first(path: Path) -> tuple[Figures, list[Lengths]]:
    """Only the first turn of each conversation: a request without a history."""
    rows = (row for row in read_sharegpt(path) if row.turn == 0)
    return {}, [Lengths(row.prompt_tokens, row.output_tokens) for row in rows]


def turns_of_conversations(rows: Iterable[Turn]) -> Iterable[int]:
    """The number of turns of each conversation."""
    return Counter(row.conversation for row in rows).values()


def mooncake(path: Path) -> tuple[Figures, list[Lengths]]:
    """Shared starts of prompts, and what pools of many sizes find again (LRU)."""
    rows = read_mooncake(path)
    ids = [block for row in rows for block in row.hash_ids]
    runs = [simulate(rows, num_blocks) for num_blocks in (*CAPACITIES, len(ids))]
    figures = {
        "block_size": MOONCAKE_BLOCK_SIZE,
        "blocks": len(ids),
        "distinct_blocks": len(set(ids)),
        "shared_prefix_blocks": counted(shared_prefixes(rows)),
        "lru": [
            {key: value for key, value in asdict(run).items() if key in LRU_FIGURES}
            for run in runs
        ],
    }
    return figures, [Lengths(row.input_length, row.output_length) for row in rows]


LRU_FIGURES = ("num_blocks", "too_long", "hit_blocks", "hit_tokens", "evictions")


def shared_prefixes(rows: Iterable[MooncakeRequest]) -> list[int]:
    """For each request, how many leading blocks an earlier request had as well."""
    seen: set[int] = set()
    lengths = []
    for row in rows:
        first_new = (i for i, block in enumerate(row.hash_ids) if block not in seen)
        lengths.append(next(first_new, len(row.hash_ids)))
        seen.update(row.hash_ids)
    return lengths


# --- making and checking --------------------------------------------------------------

Maker = Callable[[Path], tuple[Figures, list[Lengths]]]

MAKERS: dict[str, tuple[str, Maker]] = {  # profile: the trace, and what measures it
    "alpaca_lengths": ("alpaca_lengths", alpaca),
    "azure2023_code": ("azure2023_code", azure),
    "azure2023_conv": ("azure2023_conv", azure),
    "mooncake_conversation": ("mooncake_conversation", mooncake),
    "mooncake_synthetic": ("mooncake_synthetic", mooncake),
    "sharegpt_first_turns": ("sharegpt_turns", sharegpt_first),
    "sharegpt_turns": ("sharegpt_turns", sharegpt),
}


def compute(name: str) -> Figures:
    """The whole profile of one trace, as it stands in the JSON file."""
    trace_name, measure = MAKERS[name]
    figures, lengths = measure(find_trace(trace_name))
    trace = TRACES[trace_name]
    return {
        "name": name,
        "trace": trace_name,
        "source": {
            "what": trace.what,
            "origin": trace.origin,
            "licence": trace.licence,
            "sha256": trace.sha256,
        },
        "command": f"python tools/profiles.py {name}",
        "figures": length_figures(lengths) | figures,
        "lengths": joint_histogram(lengths),
    }


def as_text(profile: Figures) -> str:
    """The JSON text: one line per figure, so that a change can be read in a diff."""
    figures = ",\n".join(
        f"  {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}"
        for key, value in profile["figures"].items()
    )
    rest = [
        f" {json.dumps(key)}: {json.dumps(profile[key], separators=(',', ':'))}"
        for key in ("name", "trace", "source", "command", "lengths")
    ]
    rest.insert(4, f' "figures": {{\n{figures}\n }}')
    return "{\n" + ",\n".join(rest) + "\n}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if a checked profile differs, 2 if a trace is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(MAKERS)
    if unknown:
        parser.error(f"no such profile: {', '.join(unknown)}; choose from {[*MAKERS]}")
    differ = 0
    for name in options.names or MAKERS:
        try:
            text = as_text(compute(name))
        except BlockManagerError as error:
            print(error, file=sys.stderr)
            return 2
        file = FOLDER / f"{name}.json"
        same = file.exists() and file.read_text(encoding="utf-8") == text
        if options.check:
            differ += not same
        else:
            file.write_text(text, encoding="utf-8")
        print("same   " if same else "differs" if options.check else "written", name)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
