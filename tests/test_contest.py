"""A race of allocation policies: the same jobs, each policy with a pool of its own."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import InvalidRequest
from blockmgr.contest import Job, Lane, Place, Turn, race
from blockmgr.policy import Batched, OnDemand, PreAllocate
from classroom import check
from classroom.exercises import lesson04
from figures.race.film import MOST_STEPS

FIXED = settings(
    max_examples=120, derandomize=True, database=None, deadline=None, print_blob=True
)
FOUR = (Job("A", 1, 5, 6), Job("B", 1, 3, 14), Job("C", 2, 6, 5), Job("D", 3, 9, 8))
POLICIES = {"ahead": PreAllocate(24), "on demand": OnDemand(), "3": Batched(3)}

jobs_of_any_kind = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(0, 16)),
    min_size=1,
    max_size=6,
).map(lambda sizes: [Job(f"j{i}", *size) for i, size in enumerate(sizes)])


def run(jobs: list[Job], policy: OnDemand, num_blocks: int = 9) -> list[Turn]:
    return race(jobs, {"it": policy}, num_blocks, 4)["it"]


def told(turn: Turn) -> list[tuple[str, str]]:
    return [(move.name, move.what) for move in turn.moves]


def ends(turns: list[Turn], jobs: list[Job]) -> dict[str, int]:
    """In which step each job got its last token."""
    return {
        job.name: next(t.step for t in turns if t.places[job.name] is Place.DONE)
        for job in jobs
    }


# --- four jobs, worked out by hand ----------------------------------------------------


def test_four_jobs_in_three_lanes() -> None:
    """12 usable blocks of 4. Ahead of time takes 6 each, so two fit; on demand all four
    come in and D once finds no block; in batches of 3, D waits at the door."""
    turns = race(FOUR, POLICIES, 13, 4)
    assert ends(turns["ahead"], list(FOUR)) == {"A": 7, "B": 15, "C": 13, "D": 22}
    assert ends(turns["on demand"], list(FOUR)) == {"A": 7, "B": 15, "C": 7, "D": 12}
    assert ends(turns["3"], list(FOUR)) == {"A": 7, "B": 15, "C": 7, "D": 16}
    costs = {name: list(lane[-1].counters[:2]) for name, lane in turns.items()}
    assert costs == {"ahead": [4, 24], "on demand": [12, 16], "3": [5, 19]}
    third = {name: lane[3].places for name, lane in turns.items()}
    assert third["ahead"]["C"] is third["ahead"]["D"] is Place.WAITING
    assert third["on demand"]["D"] is Place.RUNNING
    assert third["3"]["D"] is Place.WAITING
    assert turns["on demand"][7].places["D"] is Place.STALLED


def test_a_step_goes_leave_advance_come_in() -> None:
    """A is through in step 2; in step 3 it leaves, and B comes in on its block."""
    turns = run([Job("A", 1, 3, 1), Job("B", 2, 4, 0)], OnDemand(), num_blocks=2)
    assert told(turns[1]) == [("A", "came in")]
    assert told(turns[2]) == [("A", "got a token"), ("B", "waited")]
    assert turns[2].places == {"A": Place.DONE, "B": Place.WAITING}
    assert turns[2].snapshot.num_used == 1  # it leaves when the next step begins
    assert told(turns[3]) == [("A", "left"), ("B", "came in")]
    assert told(turns[4]) == [("B", "left")]
    assert len(turns) == 5


def test_nobody_overtakes_at_the_door() -> None:
    """C would fit behind B, but the line is a line."""
    jobs = [Job("A", 1, 5, 3), Job("B", 1, 8, 0), Job("C", 1, 1, 0)]
    turns = run(jobs, OnDemand(), num_blocks=4)
    assert told(turns[1]) == [("A", "came in"), ("B", "waited"), ("C", "waited")]
    refused = turns[1].moves[1]
    assert (refused.needed, refused.free, refused.new) == (2, 1, ())


def test_where_nobody_can_move_the_last_one_gives_way() -> None:
    """Two jobs of 1 block each fill a pool of 2, and both need a second one."""
    jobs = [Job("A", 1, 4, 4), Job("B", 1, 4, 4)]
    turns = run(jobs, OnDemand(), num_blocks=3)
    assert told(turns[2]) == [("A", "stalled"), ("B", "stalled"), ("B", "gave way")]
    assert turns[2].places == {"A": Place.STALLED, "B": Place.WAITING}
    assert told(turns[3])[0] == ("A", "got a token")
    back = next(t for t in turns if t.step > 2 and ("B", "came in") in told(t))
    view = back.snapshot.sequences["B"]
    assert len(view.token_ids) == 5  # with the token that had found no slot
    assert ends(turns, jobs) == {"A": 6, "B": 10}


def test_who_gave_way_stands_first_in_line() -> None:
    jobs = [Job("A", 1, 4, 4), Job("B", 1, 4, 4), Job("C", 1, 4, 0)]
    lane = Lane(jobs, OnDemand(), 3, 4)
    lane.step()
    assert lane.waiting == ("C",)
    lane.step()
    assert lane.waiting == ("B", "C")


def test_nobody_comes_in_while_somebody_stalls() -> None:
    jobs = [Job("A", 1, 4, 3), Job("B", 1, 7, 4), Job("C", 2, 1, 0)]
    turns = run(jobs, OnDemand(), num_blocks=4)
    assert turns[2].places["A"] is Place.STALLED
    assert ("C", "waited") in told(turns[2])


def test_a_watermark_keeps_newcomers_out_and_not_those_inside() -> None:
    """With 1 of 4 blocks to keep free, B stays out while A runs, and A takes it."""
    jobs = [Job("A", 1, 8, 4), Job("B", 1, 4, 0)]
    lane = Lane(jobs, OnDemand(), 4, 4, watermark=0.25)
    lane.step()
    assert lane.waiting == ("B",)
    lane.step()
    assert lane.running == {"A": 9}
    assert lane.allocator.manager.num_free_blocks == 0


# --- what holds for all of them -------------------------------------------------------


@FIXED
@given(jobs_of_any_kind, st.integers(1, 5), st.integers(8, 14))
def test_every_lane_serves_the_same_tokens_and_ends_empty(
    jobs: list[Job], k: int, num_blocks: int
) -> None:
    policies = {"ahead": PreAllocate(20), "on demand": OnDemand(), "k": Batched(k)}
    for turns in race(jobs, policies, num_blocks, 4).values():
        last = turns[-1]
        assert set(last.places.values()) == {Place.DONE}
        assert last.snapshot.num_free == num_blocks - 1
        assert last.counters.slots_wasted == 0
        served = dict.fromkeys((job.name for job in jobs), 0)
        taken = 0
        for before, turn in pairwise(turns):
            assert turn.step == before.step + 1
            assert turn.counters.slots_wasted >= 0
            taken += sum(len(move.new) for move in turn.moves)
            assert turn.counters.blocks_taken == taken
            for name, view in turn.snapshot.sequences.items():
                served[name] = max(served[name], len(view.token_ids))
        assert served == {job.name: job.total for job in jobs}


@FIXED
@given(jobs_of_any_kind, st.integers(8, 14))
def test_batches_of_one_are_on_demand(jobs: list[Job], num_blocks: int) -> None:
    one, demand = (run(jobs, p, num_blocks) for p in (Batched(1), OnDemand()))
    assert one == demand


@FIXED
@given(jobs_of_any_kind, st.integers(20, 30))
def test_once_inside_everybody_is_served_if_all_was_taken_ahead(
    jobs: list[Job], num_blocks: int
) -> None:
    turns = run(jobs, PreAllocate(28), num_blocks)
    assert all(Place.STALLED not in turn.places.values() for turn in turns)
    assert turns[-1].counters.calls == len(jobs)


@FIXED
@given(jobs_of_any_kind, st.integers(2, 6))
def test_with_room_for_all_batches_save_calls_and_cost_blocks(
    jobs: list[Job], k: int
) -> None:
    one, many = (run(jobs, Batched(n), 200)[-1].counters for n in (1, k))
    assert many.calls <= one.calls
    assert many.blocks_taken >= one.blocks_taken
    assert ends(run(jobs, Batched(k), 200), jobs) == {
        job.name: job.arrives + job.output for job in jobs
    }


# --- misuse ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "what"),
    [
        ([Job("A", 0, 1, 1)], "arrives of 'A' must be"),
        ([Job("A", 1, 0, 1)], "prompt of 'A' must be"),
        ([Job("A", 1, 1, -1)], "output of 'A' must be"),
        ([Job("", 1, 1, 1)], "needs a name"),
        ([Job("A", 1, 1, 1), Job("A", 2, 1, 1)], "same name"),
        ([Job("A", 1, 20, 13)], "33 tokens, and the whole pool has 32 slots"),
    ],
)
def test_jobs_that_cannot_be_served_are_named(jobs: list[Job], what: str) -> None:
    with pytest.raises(InvalidRequest, match=what):
        Lane(jobs, OnDemand(), 9, 4)


def test_a_promise_larger_than_the_pool_is_named() -> None:
    lane = Lane([Job("A", 1, 1, 1)], PreAllocate(40), 9, 4)
    with pytest.raises(InvalidRequest, match=r"'A' can never come in: .* 10 blocks"):
        lane.step()


def test_the_target_to_beat_is_what_batches_of_four_take() -> None:
    assert lesson04.score(Batched(4).num_lookahead) == list(lesson04.TO_BEAT)


def test_what_is_no_number_of_slots_is_told_in_words() -> None:
    told = str(check("04-own-policy", lambda num_tokens, num_slots, block_size: -5))
    assert "not yet" in told
    assert "Give a number of slots" in told and "got -5" in told


def test_the_jobs_of_the_exercise_have_room_in_the_picture() -> None:
    longest = [Job(name, 1, 1, lesson04.AHEAD - 1) for name in "ABCDE"]
    most = longest[: lesson04.MOST_JOBS]
    turns = race(most, {"": PreAllocate(lesson04.AHEAD)}, 13, 4)[""]
    assert len(turns) - 1 <= MOST_STEPS
    told = str(check("04-later-on-demand", [(1, 23)] * (lesson04.MOST_JOBS + 1)))
    assert "1 to 4 jobs" in told


def test_a_lane_says_how_far_it_is() -> None:
    lane = Lane(FOUR, Batched(2), 13, 4)
    lane.step()
    assert repr(lane) == "Lane(Batched, step 1, 0 done)"
    assert not lane.finished
