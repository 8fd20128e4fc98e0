"""The three gauges: they add up, they equal a recount, they tell leak from cache."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from blockmgr import BlockManager
from blockmgr.conversations import chat_turns
from blockmgr.errors import InvalidRequest
from blockmgr.gauges import Gauges, Reading, gauges_of, gauges_of_run, serve_trace
from blockmgr.profile import load_profile
from blockmgr.workloads import MooncakeRequest
from figures.charts.gauges import MOST_ROWS, NAMES, gauges_chart
from tests.drawing import busy, log_of, managers


def recount(manager: BlockManager) -> Gauges:
    """Block by block, from the tables and the hashes, without asking who is free."""
    held = {b for name in manager.sequences for b in manager.block_table(name)}
    kinds: Counter[str] = Counter()
    for block in manager.pool.blocks[1:]:
        remembered = "cached" if block.block_hash is not None else "empty"
        kinds["live" if block.block_id in held else remembered] += 1
    return Gauges(kinds["live"], kinds["cached"], kinds["empty"])


@given(managers())
def test_they_add_up_and_equal_a_recount(manager: BlockManager) -> None:
    now = gauges_of(manager)
    assert now == recount(manager) == gauges_of(manager.snapshot())
    assert now == gauges_of(manager.pool)
    assert now.usable == manager.pool.num_usable_blocks
    assert now.usage == pytest.approx(manager.usage)
    assert now.usage <= now.filled <= 1
    run = gauges_of_run(log_of(manager))
    assert run[-1] == now
    assert {g.usable for g in run} == {now.usable}


def test_what_has_left_is_still_remembered() -> None:
    manager = BlockManager(8, 4)
    manager.allocate("a", range(10))
    assert gauges_of(manager) == (3, 0, 4)
    manager.free("a")
    assert gauges_of(manager) == (0, 2, 5)
    assert (gauges_of(manager).usage, gauges_of(manager).filled) == (0, 2 / 7)


def test_a_forgotten_block_is_blank_wherever_it_stands() -> None:
    manager = BlockManager(8, 4)
    manager.allocate("a", range(10))
    manager.free("a")
    manager.evict_blocks([1])
    assert gauges_of(manager) == (0, 1, 6)
    manager.reset_prefix_cache()
    assert gauges_of(manager) == (0, 0, 7)


def test_a_leak_keeps_the_first_gauge_up() -> None:
    manager = BlockManager(8, 4)
    manager.allocate("a", range(10))
    del manager.sequences["a"]
    assert gauges_of(manager) == (3, 0, 4)


def test_nothing_else_has_gauges() -> None:
    with pytest.raises(InvalidRequest, match="not 3"):
        gauges_of(3)  # type: ignore[arg-type]


# --- over a trace -------------------------------------------------------------------


def request(at: float, ids: str, output: int = 100) -> MooncakeRequest:
    """A prompt of whole blocks and one token, by letters: `"ab"` has two full ones."""
    numbers = (*map(ord, ids), 1000 + int(at))
    return MooncakeRequest(at, 512 * len(ids) + 1, output, numbers)


def test_a_trace_is_served_by_its_clock() -> None:
    trace = [request(0, "ab"), request(1000, "ac"), request(9000, "a")]
    read = serve_trace(trace, 8, every=1, ms_per_token=25)
    # Each stays for 2.5 s. The second shares block `a`; at 9 s the third finds it.
    assert [(r.seconds, tuple(r.gauges)) for r in read[:5]] == [
        *((0, (3, 0, 5)), (1, (5, 0, 3)), (2, (5, 0, 3))),
        *((3, (3, 1, 4)), (4, (0, 3, 5))),
    ]
    assert read[9] == Reading(9, Gauges(2, 2, 4))
    assert read[11].gauges.live == 2
    assert read[12:] == [Reading(12 + i, Gauges(0, 3, 5)) for i in range(10)]
    assert {r.gauges.usable for r in read} == {8}


def test_who_finds_no_room_waits_for_it() -> None:
    read = serve_trace([request(0, "abc"), request(0, "de")], 5, every=1)
    assert [r.gauges.live for r in read] == [4, 4, 4, 3, 3] + [0] * 10


def test_what_can_never_fit_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="4 blocks can't come from a pool of 3"):
        serve_trace([request(0, "abc")], 3)
    with pytest.raises(InvalidRequest):
        serve_trace([], 0)
    with pytest.raises(InvalidRequest, match="between two readings"):
        serve_trace([], 3, every=0)


# --- conversations ------------------------------------------------------------------


def test_each_turn_repeats_the_history() -> None:
    turns = chat_turns(20, seed=1)
    said: dict[str, list[int]] = {}
    for turn in turns:
        who, _, number = turn.name.partition(".")
        history = said.get(who, [])
        assert turn.prompt[: len(history)] == history
        assert (number == "0") == (history == [])
        assert len(turn.prompt) + len(turn.answer) <= 8192
        said[who] = turn.prompt + turn.answer
    tokens = [t for text in said.values() for t in text]
    assert len(set(tokens)) == len(tokens), "no two texts are alike"
    assert chat_turns(20, seed=1) == turns != chat_turns(20, seed=2)


def test_conversations_are_as_long_as_in_the_profile() -> None:
    turns = chat_turns(2000, seed=3, longest=10**6)
    per_talk = Counter(turn.name.partition(".")[0] for turn in turns)
    figures = load_profile("sharegpt_turns").figures
    mean = figures["requests"] / figures["conversations"]
    assert len(per_talk) == 2000
    assert len(turns) / 2000 == pytest.approx(mean, rel=0.05)


def test_so_many_talk_at_once() -> None:
    assert chat_turns(0, seed=1) == []
    one = [turn.name.partition(".")[0] for turn in chat_turns(8, seed=1, at_once=1)]
    assert one == sorted(one, key=int), "one after the other"
    with pytest.raises(InvalidRequest):
        chat_turns(1, seed=1, at_once=0)


# --- the chart ----------------------------------------------------------------------


def test_the_chart_holds_what_was_read() -> None:
    run = gauges_of_run(log_of(busy()))
    chart = gauges_chart(run, unit="steps")
    assert chart.columns == ("steps", *NAMES)
    assert [row[1:] for row in chart.rows] == [tuple(g) for g in run]
    assert "6 in use, 1 free and remembered, 4 blank" in chart.title
    assert "in use" in chart.svg


def test_many_readings_are_thinned_and_the_last_one_stays() -> None:
    readings = [Gauges(i, 1000 - i, 0) for i in range(1000)]
    chart = gauges_chart(readings, times=[i / 2 for i in range(1000)], title="T")
    assert len(chart.rows) == MOST_ROWS
    assert chart.rows[0] == (0, 0, 1000, 0)
    assert chart.rows[-1] == (499.5, 999, 1, 0)
    with pytest.raises(ValueError, match="2 readings at 1 times"):
        gauges_chart(readings[:2], times=[0])
    with pytest.raises(ValueError, match="0 readings"):
        gauges_chart([])
