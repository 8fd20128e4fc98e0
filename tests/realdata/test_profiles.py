"""Every figure that a profile quotes, computed again from the real traces.

First by the command that made the profiles, then by other means: plain loops over the
raw lines, a textbook LRU, and figures that others have published.
"""

import gzip
import importlib.util
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from blockmgr.catalogue import TRACES
from blockmgr.download import is_intact
from blockmgr.profile import load_profile, profile_names
from blockmgr.simulate import simulate
from blockmgr.workloads import read_mooncake

pytestmark = pytest.mark.realdata
Find = Callable[[str], Path]

MOONCAKE = ("mooncake_conversation", "mooncake_synthetic")


@pytest.fixture(scope="session")
def maker() -> ModuleType:
    """`tools/profiles.py`, which is a command and not part of a package."""
    path = Path(__file__).parents[2] / "tools" / "profiles.py"
    spec = importlib.util.spec_from_file_location("profiles_command", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def raw(path: Path) -> list[list[int]]:
    """(prompt, output) of every line, without our readers."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    if '"requests"' in lines[0]:
        return [[r["in"], r["out"]] for r in agent_requests(lines)]
    if '"question"' in lines[0]:
        problems = map(json.loads, lines)
        return [
            [2 + len(p["question"].split()), len(p["answer"].split())] for p in problems
        ]  # 2 words: "Question:" and "Answer:"
    if lines[0].startswith("{"):
        rows = map(json.loads, lines)
        return [[row["input_length"], row["output_length"]] for row in rows]
    return [list(map(int, line.split(",")[-2:])) for line in lines[1:]]


def agent_requests(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Every request with all its ids, each with the name of its session."""
    rows = []
    for line in lines:
        session, ids = json.loads(line), []
        for row in session["requests"]:
            ids = ids[: row["keep"]] + row["new"]
            named = [(session["trace"], block) for block in ids]
            rows.append(row | {"hash_ids": named})
    return rows


def shots(test_questions: Path) -> str:
    """The 8 worked examples as text; their file lies beside the questions."""
    path = test_questions.with_name(TRACES["gsm8k_shots8"].file)
    rows = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    return "".join(
        f"Question: {r['question']}\nAnswer: {r['answer']}\n\n" for r in rows
    )


@pytest.mark.parametrize("name", TRACES)
def test_the_traces_are_those_we_know(name: str, trace_file: Find) -> None:
    assert is_intact(TRACES[name], trace_file(name))


@pytest.mark.parametrize("name", profile_names())
def test_the_command_makes_exactly_the_profiles_that_ship(
    name: str, trace_file: Find, maker: ModuleType
) -> None:
    trace_file(load_profile(name).trace)
    shipped = maker.FOLDER / f"{name}.json"
    assert maker.as_text(maker.compute(name)) == shipped.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", profile_names())
def test_lengths_by_plain_loops(name: str, trace_file: Find) -> None:
    profile = load_profile(name)
    path = trace_file(profile.trace)
    rows = raw(path)
    if name == "sharegpt_first_turns":
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()[1:]
        keep = [line.split(",")[1] == "0" for line in lines]
        rows = [row for row, first in zip(rows, keep, strict=True) if first]
    assert profile.figures["requests"] == len(rows)
    for column, values in zip(
        ("prompt", "output"), zip(*rows, strict=True), strict=True
    ):
        figures = profile.figures[f"{column}_tokens"]
        assert figures["total"] == sum(values)
        assert figures["largest"] == max(values)
        for quarter, value in enumerate(figures["quartiles"], 1):
            below = sum(v < value for v in values) / len(values)
            up_to = sum(v <= value for v in values) / len(values)
            assert below <= quarter / 4 + 1e-3 and up_to >= quarter / 4 - 1e-3
    cells = Counter((leading(prompt), leading(output)) for prompt, output in rows)
    assert sorted((*cell, n) for cell, n in cells.items()) == list(profile.lengths)


def leading(number: int) -> int:
    """The three leading binary digits, then zeros: by text, not by arithmetic."""
    digits = f"{number:b}"
    return int(digits[:3].ljust(len(digits), "0"), 2)


def test_turns_of_sharegpt_by_plain_loops(trace_file: Find) -> None:
    lines = gzip.decompress(trace_file("sharegpt_turns").read_bytes()).decode()
    last_turn: dict[str, int] = {}
    for line in lines.splitlines()[1:]:
        conversation, turn, *_ = line.split(",")
        assert int(turn) == last_turn.get(conversation, -1) + 1
        last_turn[conversation] = int(turn)
    figures = load_profile("sharegpt_turns").figures
    assert figures["conversations"] == len(last_turn) == 5_678
    turns = Counter(last + 1 for last in last_turn.values())
    assert [tuple(pair) for pair in figures["turns_of_conversations"]] == sorted(
        turns.items()
    )


@pytest.mark.parametrize("name", ["azure2023_code", "azure2023_conv"])
def test_azure_covers_an_hour(name: str, trace_file: Find) -> None:
    lines = gzip.decompress(trace_file(name).read_bytes()).decode().split()
    first, last = lines[2].split(",")[0], lines[-1].split(",")[0]

    def seconds(clock: str) -> float:
        hours, minutes, rest = clock.split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(rest)

    figures = load_profile(name).figures
    assert figures["seconds"] == pytest.approx(seconds(last) - seconds(first), abs=1e-6)


# --- Mooncake: shared starts and hits -------------------------------------------------


@pytest.mark.parametrize("name", MOONCAKE)
def test_mooncake_lengths_are_the_published_ones(name: str, trace_file: Find) -> None:
    """Qin et al., FAST 2025, table 2: requests, mean input and output lengths."""
    published = {
        "mooncake_conversation": (12_031, 12_035, 343),
        "mooncake_synthetic": (3_993, 15_325, 149),
    }
    rows = raw(trace_file(name))
    means = (sum(column) / len(rows) for column in zip(*rows, strict=True))
    assert (len(rows), *map(round, means)) == published[name]


@pytest.mark.parametrize("name", MOONCAKE)
def test_mooncake_blocks_form_chains(name: str, trace_file: Find) -> None:
    """Equal ids have equal starts: only so may an id stand for a block hash."""
    parent: dict[int, int | None] = {}
    for line in gzip.decompress(trace_file(name).read_bytes()).splitlines():
        before: int | None = None
        for block in json.loads(line)["hash_ids"]:
            assert parent.setdefault(block, before) == before
            before = block
    assert load_profile(name).figures["distinct_blocks"] == len(parent)


@pytest.mark.parametrize("name", MOONCAKE)
def test_mooncake_shared_starts_and_lru_by_the_textbook(
    name: str, trace_file: Find
) -> None:
    lines = gzip.decompress(trace_file(name).read_bytes()).splitlines()
    rows = [json.loads(line) for line in lines]
    figures = load_profile(name).figures
    shared, _ = textbook_lru(rows, figures["blocks"])
    counts = sorted(Counter(shared).items())
    assert [tuple(pair) for pair in figures["shared_prefix_blocks"]] == counts
    assert figures["blocks"] == sum(len(row["hash_ids"]) for row in rows)
    for run in figures["lru"]:
        hits, evictions = textbook_lru(rows, run["num_blocks"])
        tokens = [
            min(n * 512, row["input_length"]) for n, row in zip(hits, rows, strict=True)
        ]
        assert run == {
            "num_blocks": run["num_blocks"],
            "too_long": sum(len(r["hash_ids"]) > run["num_blocks"] for r in rows),
            "hit_blocks": sum(hits),
            "hit_tokens": sum(tokens),
            "evictions": evictions,
        }


def textbook_lru(rows: Iterable[dict[str, Any]], size: int) -> tuple[list[int], int]:
    """(leading blocks found by each request, evictions): one dict, oldest first."""
    held: OrderedDict[int, None] = OrderedDict()
    found, taken = [], 0
    for row in rows:
        ids = row["hash_ids"]
        found.append(next((i for i, b in enumerate(ids) if b not in held), len(ids)))
        for block in reversed(ids[:size]):
            taken += block not in held
            held[block] = None
            held.move_to_end(block)
        while len(held) > size:  # only now: a request's own blocks are in use
            held.popitem(last=False)
    return found, taken - len(held)


# Hits of an earlier, separate simulator of ours, whose LRU column was also compared
# with exact stack distances: blocks found and tokens found at the starts of prompts,
# when a request's blocks are touched back to front (as a table is freed tail first).
WHOLE_TRACE = {
    100: (12_071, 6_180_229),
    1_000: (12_847, 6_575_459),
    3_000: (18_850, 9_644_880),
    5_859: (39_258, 20_087_299),
    10_000: (61_046, 31_238_981),
    30_000: (93_978, 48_093_740),
    50_000: (102_290, 52_347_371),
    100_000: (104_924, 53_695_979),
    288_500: (105_710, 54_098_411),  # every block of the trace has room
}
FIRST_1000_REQUESTS = {
    10: (999, 511_488),
    100: (999, 511_488),
    300: (999, 511_488),
    1_000: (1_038, 531_456),
    3_000: (1_640, 838_744),
    10_000: (4_723, 2_415_960),
    10**9: (5_791, 2_962_776),
}


def test_the_pool_finds_exactly_what_the_reference_found(trace_file: Find) -> None:
    requests = read_mooncake(trace_file("mooncake_conversation"))
    for size, found in FIRST_1000_REQUESTS.items():
        run = simulate(requests[:1_000], size)
        assert (run.hit_blocks, run.hit_tokens) == found
        assert (run.blocks, run.tokens) == (27_305, 13_732_944)
    run = simulate(requests, 10_000)
    assert (run.hit_blocks, run.hit_tokens) == WHOLE_TRACE[10_000]
    assert (run.blocks, run.tokens) == (288_500, 144_793_823)


def test_the_profile_quotes_the_reference() -> None:
    """The other sizes are simulated once, where the profile is made again above."""
    runs = load_profile("mooncake_conversation").figures["lru"]
    quoted = {r["num_blocks"]: (r["hit_blocks"], r["hit_tokens"]) for r in runs}
    assert quoted.items() >= WHOLE_TRACE.items()


@pytest.mark.parametrize("name", MOONCAKE)
def test_no_mooncake_block_is_partly_filled_once_and_full_another_time(
    name: str, trace_file: Find
) -> None:
    """So a block that is found gives all its tokens, and no hit is counted too high."""
    filled: dict[int, int] = {}
    lines = gzip.decompress(trace_file(name).read_bytes()).splitlines()
    for row in map(json.loads, lines):
        for place, block in enumerate(row["hash_ids"]):
            tokens = min(row["input_length"] - 512 * place, 512)
            assert filled.setdefault(block, tokens) == tokens
    assert min(filled.values()) < 512


# --- lesson 07: agent sessions and GSM8K ----------------------------------------------


def test_agent_sessions_by_the_textbook(trace_file: Find) -> None:
    path = trace_file("claude_code_traces")
    rows = agent_requests(gzip.decompress(path.read_bytes()).decode().splitlines())
    distinct = {block for row in rows for block in row["hash_ids"]}
    figures = load_profile("agent_sessions").figures
    assert figures["sessions"] == len({block[0] for block in distinct}) == 40
    assert figures["blocks"] == sum(len(row["hash_ids"]) for row in rows)
    assert figures["distinct_blocks"] == len(distinct)
    together = sorted(rows, key=started)
    for name, ordered, size in [  # the other sizes are made by the command above
        ("one_after_another", rows, 4_000),
        ("all_at_once", together, 4_000),
        ("all_at_once", together, len(distinct)),  # of `rows` in the command
    ]:
        (run,) = (run for run in figures[name] if run["num_blocks"] == size)
        hits, evictions = textbook_lru(ordered, size)
        assert (run["hit_blocks"], run["evictions"]) == (sum(hits), evictions)
        assert run["hit_tokens"] == 64 * sum(hits)
    assert figures["one_after_another"][-1] == figures["all_at_once"][-1]


def started(row: dict[str, Any]) -> float:
    return float(row["t"])


def test_gsm8k_hits_by_arithmetic(trace_file: Find) -> None:
    """In a large pool, a prompt finds the longest start that an earlier one had: whole
    blocks, and never its last token."""
    path = trace_file("gsm8k_test")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    start = shots(path)
    texts = [f"{start}Question: {json.loads(p)['question']}\nAnswer:" for p in lines]
    figures = load_profile("gsm8k_8shot").figures
    assert figures["start_words"] == len(start.split())
    assert figures["start_bytes"] == len(start.encode())
    ways: dict[str, list[Any]] = {
        "words": [tuple(text.split()) for text in texts],
        "bytes": [text.encode() for text in texts],
    }
    for way, prompts in ways.items():
        for run in figures[way]:
            size = run["block_size"]
            assert run["tokens"] == sum(map(len, prompts))
            assert run["large"]["hit_tokens"] == found_in_all(prompts, size)
            shared = figures[f"start_{way}"] // size * size * (len(prompts) - 1)
            assert shared <= run["smallest"]["hit_tokens"] <= run["large"]["hit_tokens"]


def found_in_all(prompts: Iterable[Any], size: int) -> int:
    seen: set[Any] = set()
    found = 0
    for prompt in prompts:
        starts = [prompt[:end] for end in range(size, len(prompt) + 1, size)]
        hits = 0
        while hits < (len(prompt) - 1) // size and starts[hits] in seen:
            hits += 1
        found += hits * size
        seen.update(starts)
    return found
