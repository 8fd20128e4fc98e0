"""Hit rates of prefix caching: by workload, and against the size of the pool.

All figures come from the profiles, where each was computed from a real trace with the
real pool (`tools/profiles.py`): one request at a time, the least recently used block
evicted first, nothing kept of what was generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from matplotlib.axes import Axes

from blockmgr.profile import load_profile
from figures.charts.chart import COLOUR, Chart, make_chart

Hits = tuple[str, int, int, int]
"""A workload, the tokens in a block, tokens found, tokens of all prompts."""

Point = tuple[str, int, int, int]
"""A workload, slots in the pool (tokens), tokens found, tokens of all prompts."""

MATH, ONE, ALL = "GSM8K, 8 examples", "agents, one by one", "40 agents at once"
CHAT, MIX = "Mooncake, chat", "Mooncake, mixed"

SOURCES = (
    "GSM8K (openai/grade-school-math): 1,319 questions behind the same 8 examples, a "
    "token counted as a word (691 of them in the examples) or as a byte. Agents: 40 "
    "sessions of callanjfox/kv-cache-tester, blocks of 64 tokens, shared within a "
    "session only. Mooncake (kvcache-ai): blocks of 512 tokens; a prompt's last block "
    "counts even if it is not full, which a server's cache would not find."
)


def hits_by_workload() -> list[Hits]:
    """What a pool in which nothing is evicted finds again, for each workload."""
    math, agents = load_profile("gsm8k_8shot").figures, load_profile("agent_sessions")
    rows: list[Hits] = []
    for way in ("words", "bytes"):
        run = math[way][0]
        found = run["large"]["hit_tokens"]
        rows.append((f"{MATH} ({way})", run["block_size"], found, run["tokens"]))
    last = agents.figures["one_after_another"][-1]["hit_tokens"]
    rows.append(("agent sessions", 64, last, _asked(agents)))
    for name, shown in (("mooncake_synthetic", MIX), ("mooncake_conversation", CHAT)):
        profile = load_profile(name)
        found = profile.figures["lru"][-1]["hit_tokens"]
        rows.append((shown, 512, found, _asked(profile)))
    return rows


def _asked(profile: Any) -> int:
    return int(profile.figures["prompt_tokens"]["total"])


def hit_rates(more: Iterable[Hits] = ()) -> Chart:
    """The share of prompt tokens that need no computing, a bar for each workload. Your
    own can stand above the others, as `more`."""
    rows = [(*one, 100 * one[2] / one[3]) for one in (*more, *hits_by_workload())]

    def plot(axes: Axes) -> None:
        names, rates = [row[0] for row in rows], [row[4] for row in rows]
        places = range(len(rows), 0, -1)
        axes.barh(list(places), rates, color=COLOUR["blue"], height=0.62)
        for place, rate in zip(places, rates, strict=True):
            axes.text(rate + 1, place, f"{rate:.1f} %", va="center")
        axes.set_yticks(list(places), names)
        axes.set_xlim(0, 108)
        axes.set_xlabel("tokens found in the cache, % of all prompt tokens")
        axes.grid(visible=False)

    columns = ("workload", "block size", "tokens found", "prompt tokens", "found, %")
    title = "What is shared decides: the same examples, a session's own past, or little"
    return make_chart(title, columns, rows, plot, height=300, note=SOURCES)


def hits_by_pool() -> list[Point]:
    """What pools of several sizes find again, for each workload."""
    math, agents = load_profile("gsm8k_8shot").figures, load_profile("agent_sessions")
    chat = load_profile("mooncake_conversation")
    rows: list[Point] = []
    words = math["words"][0]
    for kind in ("smallest", "large"):
        slots = words[kind]["num_blocks"] * words["block_size"]
        rows.append((MATH, slots, words[kind]["hit_tokens"], words["tokens"]))
    for name, key in ((ONE, "one_after_another"), (ALL, "all_at_once")):
        rows += _points(name, agents.figures[key], 64, _asked(agents))
    rows += _points(CHAT, chat.figures["lru"], 512, _asked(chat))
    return rows


def found_in(workload: str, slots: int) -> float:
    """Per cent of a workload's prompt tokens that a pool of this size finds. Raises
    `LookupError` for a point that was not measured."""
    for name, size, hits, asked in hits_by_pool():
        if (name, size) == (workload, slots):
            return 100 * hits / asked
    raise LookupError(f"{workload!r} was not measured in a pool of {slots:,} slots")


def _points(name: str, runs: Any, block_size: int, asked: int) -> Iterator[Point]:
    for run in runs:
        yield name, run["num_blocks"] * block_size, run["hit_tokens"], asked


_LINES = {MATH: ("green", "^"), ONE: ("blue", "o"), ALL: ("vermilion", "s")}
_LINES[CHAT] = ("purple", "D")


def hit_rates_by_pool() -> Chart:
    """The same share against the size of the pool in tokens, a line for each."""
    rows = [(*point, 100 * point[2] / point[3]) for point in hits_by_pool()]

    def plot(axes: Axes) -> None:
        for name, (colour, marker) in _LINES.items():
            own = [row for row in rows if row[0] == name]
            axes.plot(
                [row[1] for row in own],
                [row[4] for row in own],
                marker=marker,
                color=COLOUR[colour],
                label=name,
            )
        axes.set_xscale("log")
        axes.set_ylim(0, 100)
        axes.set_xlabel("slots in the pool, one for each token")
        axes.set_title("tokens found in the cache, %", loc="left")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

    columns = ("workload", "slots in the pool", "tokens found", "prompt tokens")
    title = "A pool must hold what is shared until it is asked for again"
    note = (
        f"{SOURCES} Of GSM8K, words are counted. Of a prompt that is longer than the "
        "pool, only the start is kept (50 of the agents' prompts in 256,000 slots)."
    )
    return make_chart(title, (*columns, "found, %"), rows, plot, note=note)
