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

from blockmgr import BlockManager
from blockmgr.catalogue import TRACES
from blockmgr.errors import BlockManagerError
from blockmgr.profile import bucket
from blockmgr.simulate import simulate
from blockmgr.workloads import (
    AGENT_BLOCK_SIZE,
    MOONCAKE_BLOCK_SIZE,
    AgentRequest,
    Lengths,
    MathProblem,
    MooncakeRequest,
    Turn,
    find_trace,
    read_agents,
    read_alpaca,
    read_azure,
    read_gsm8k,
    read_mooncake,
    read_sharegpt,
)

FOLDER = Path(__file__).resolve().parent.parent / "blockmgr" / "profiles"
CAPACITIES = (100, 1_000, 3_000, 5_859, 10_000, 20_000, 30_000, 50_000, 100_000)
ONE_AGENT, ALL_AGENTS = (4_000, 16_000), (4_000, 16_000, 32_000, 64_000)
MATH_BLOCK_SIZES = (16, 64, 256)
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


def agents(path: Path) -> tuple[Figures, list[Lengths]]:
    """What pools of many sizes find again when the sessions run one after another, and
    when all of them start at the same moment (LRU). In a pool for all that ever comes
    the order makes no difference, for no two sessions share a block: one run is both.
    """
    rows = read_agents(path)
    together = sorted(rows, key=lambda row: (row.seconds, row.session))
    distinct = {block for row in rows for block in row.hash_ids}
    all_fits = lru_of_agents(rows, (len(distinct),))
    figures = {
        "sessions": rows[-1].session + 1,
        "block_size": AGENT_BLOCK_SIZE,
        "blocks": sum(len(row.hash_ids) for row in rows),
        "distinct_blocks": len(distinct),
        "one_after_another": lru_of_agents(rows, ONE_AGENT) + all_fits,
        "all_at_once": lru_of_agents(together, ALL_AGENTS) + all_fits,
    }
    return figures, [Lengths(row.input_length, row.output_length) for row in rows]


def lru_of_agents(rows: Sequence[AgentRequest], sizes: Iterable[int]) -> list[Figures]:
    """The figures of one run for each size of the pool."""
    runs = [simulate(rows, size, block_size=AGENT_BLOCK_SIZE) for size in sizes]
    return [
        {key: value for key, value in asdict(run).items() if key in LRU_FIGURES}
        for run in runs
    ]


def gsm8k(path: Path) -> tuple[Figures, list[Lengths]]:
    """Hits of all test questions behind the same 8 worked examples, one at a time.

    Counted twice, because no model's tokenizer is at hand: a token is a word (between
    white space), and a token is a byte. A model's own tokens are mostly shorter than
    words and never shorter than a byte. The lengths are those of the question alone, in
    words; `start_words` come before each.
    """
    shots = read_gsm8k(find_trace("gsm8k_shots8"))
    problems = read_gsm8k(path)
    start = "".join(f"{asked(shot)} {shot.answer}\n\n" for shot in shots)
    figures: Figures = {
        "shots": len(shots),
        "shots_sha256": TRACES["gsm8k_shots8"].sha256,
        "start_words": len(start.split()),
        "start_bytes": len(start.encode()),
    }
    prompts = [start + asked(problem) for problem in problems]
    words: dict[str, int] = {}
    in_words = [[words.setdefault(w, len(words)) for w in p.split()] for p in prompts]
    figures["words"] = [hits_of(in_words, size) for size in MATH_BLOCK_SIZES]
    in_bytes = [list(prompt.encode()) for prompt in prompts]
    figures["bytes"] = [hits_of(in_bytes, size) for size in MATH_BLOCK_SIZES]
    return figures, [
        Lengths(len(asked(problem).split()), len(problem.answer.split()))
        for problem in problems
    ]


def asked(problem: MathProblem) -> str:
    """A problem as it stands in a prompt."""
    return f"Question: {problem.question}\nAnswer:"


def hits_of(prompts: Sequence[Sequence[int]], block_size: int) -> Figures:
    """Serve prompts one by one with the real manager: in a pool in which nothing is
    evicted, and in the smallest pool in which each of them fits."""
    rooms = [-(-len(prompt) // block_size) for prompt in prompts]
    figures: Figures = {"block_size": block_size}
    for name, blocks in (("large", sum(rooms)), ("smallest", max(rooms))):
        manager = BlockManager(blocks + 1, block_size)
        for number, prompt in enumerate(prompts):
            manager.allocate(str(number), prompt)
            manager.free(str(number))
        stats = manager.stats()
        figures["tokens"] = stats.queried_tokens
        figures[name] = {
            "num_blocks": blocks,
            "hit_tokens": stats.hit_tokens,
            "evictions": stats.evictions,
        }
    return figures


# --- making and checking --------------------------------------------------------------

Maker = Callable[[Path], tuple[Figures, list[Lengths]]]

MAKERS: dict[str, tuple[str, Maker]] = {  # profile: the trace, and what measures it
    "agent_sessions": ("claude_code_traces", agents),
    "alpaca_lengths": ("alpaca_lengths", alpaca),
    "azure2023_code": ("azure2023_code", azure),
    "azure2023_conv": ("azure2023_conv", azure),
    "gsm8k_8shot": ("gsm8k_test", gsm8k),
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
