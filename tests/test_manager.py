"""The manager: what it decides, what it answers, what it refuses.

That every decision is vLLM's is shown by `test_replay.py`, and that every state is
right by `test_model.py`. Here are the facts that a reader of the code wants to see one
at a time, and what a careless or hostile caller may try.
"""

import copy
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blockmgr
from blockmgr import (
    BlockManager,
    BlockManagerError,
    DuplicateSequence,
    InvalidRequest,
    OutOfBlocks,
    Status,
    UnknownSequence,
)


def tokens(n: int, first: int = 0) -> list[int]:
    """`n` tokens, all different."""
    return list(range(first, first + n))


def pair(**options: Any) -> BlockManager:
    """7 usable blocks of 4: "a" runs with 6 tokens, "p" is preempted with 6 others."""
    manager = BlockManager(num_blocks=8, block_size=4, **options)
    manager.allocate("a", tokens(6))
    manager.allocate("p", tokens(6, first=100))
    manager.preempt("p")
    return manager


# --- the first steps ----------------------------------------------------------------


def test_a_first_prompt_gets_the_first_blocks() -> None:
    manager = BlockManager(num_blocks=8, block_size=4)
    answer = manager.allocate("a", tokens(6))
    assert (answer.status, answer.hit_blocks, answer.new_blocks) == ("OK", (), (1, 2))
    assert (answer.num_cached_tokens, answer.num_scheduled_tokens) == (0, 6)
    assert (answer.needed, answer.free, answer.copies) == (2, 7, ())
    assert answer
    assert repr(answer) == (
        "Allocation(status=OK, new=(1, 2), num_scheduled_tokens=6, needed=2, free=7)"
    )
    assert manager.block_table("a") == (1, 2)
    assert repr(manager) == "BlockManager(8 blocks of 4, 5 free, 1 sequences)"


def test_a_second_prompt_shares_what_is_equal() -> None:
    manager = BlockManager(num_blocks=8, block_size=4)
    manager.allocate("a", [*tokens(8), 50])
    answer = manager.allocate("b", [*tokens(8), 60])
    assert (answer.hit_blocks, answer.new_blocks) == ((1, 2), (4,))
    assert (answer.num_cached_tokens, answer.num_scheduled_tokens) == (8, 1)
    assert (answer.needed, answer.free) == (1, 4)
    assert manager.snapshot().ref_cnt == (0, 2, 2, 1, 1, 0, 0, 0)


def test_a_request_of_the_same_step_can_hit() -> None:
    """Rule 6: blocks are registered when they are scheduled, not when computed."""
    manager = BlockManager(num_blocks=8, block_size=4)
    manager.allocate("a", tokens(9), num_tokens=4)
    assert manager.allocate("b", tokens(9)).num_cached_tokens == 4


def test_rule_8_a_fully_cached_prompt_computes_its_last_block_again() -> None:
    """So an equal block appears beside the first, and the first stays the one found."""
    manager = BlockManager(num_blocks=8, block_size=4)
    manager.allocate("a", tokens(8))
    assert manager.allocate("b", tokens(8)).new_blocks == (3,)
    assert list(manager.snapshot().cache.values()) == [(1,), (2, 3)]
    assert manager.get_computed_blocks(tokens(9)) == (1, 2)
    manager.free("a")
    manager.allocate("c", tokens(20, first=50))  # takes all but 1, 3 and what is cached
    assert manager.get_computed_blocks(tokens(9)) == (1, 3)


def test_without_caching_nothing_is_remembered() -> None:
    manager = BlockManager(num_blocks=8, block_size=4, enable_caching=False)
    manager.allocate("a", tokens(9))
    manager.free("a")
    assert manager.snapshot().cache == {}
    assert manager.snapshot().free_queue[:3] == (3, 2, 1)  # a stack
    assert manager.allocate("a", tokens(9)).num_cached_tokens == 0


# --- chunks, look-ahead, retries ----------------------------------------------------


def test_a_long_prompt_comes_in_chunks() -> None:
    manager = BlockManager(num_blocks=8, block_size=4)
    answer = manager.allocate("a", tokens(10), num_tokens=3)
    assert (answer.new_blocks, answer.num_scheduled_tokens) == ((1,), 3)
    assert manager.snapshot().cache == {}
    assert manager.allocate_slots("a", 2).new_blocks == (2,)
    assert len(manager.snapshot().cache) == 1
    rest = manager.allocate_slots("a")
    assert (rest.new_blocks, rest.num_scheduled_tokens) == ((3,), 5)
    assert len(manager.snapshot().cache) == 2
    assert manager.slot_mapping("a") == list(range(4, 14))
    nothing = manager.allocate_slots("a")
    assert (bool(nothing), nothing.num_scheduled_tokens, nothing.needed) == (True, 0, 0)


def test_a_chunk_ends_with_the_tokens_there_are() -> None:
    """Asked for more than there is, it schedules what there is, and no slot behind."""
    manager = BlockManager(num_blocks=8, block_size=4)
    answer = manager.allocate("a", tokens(5), num_tokens=99)
    assert (answer.num_scheduled_tokens, answer.new_blocks) == (5, (1, 2))
    manager.append("a", [5])
    assert manager.allocate_slots("a", 99).num_scheduled_tokens == 0
    manager.preempt("a")
    answer = manager.resume("a", num_tokens=99)
    assert (answer.num_cached_tokens, answer.num_scheduled_tokens) == (4, 2)
    assert len(manager.slot_mapping("a")) == 6


def test_rule_11_a_failed_append_keeps_the_token_for_another_try() -> None:
    manager = BlockManager(num_blocks=4, block_size=4)
    manager.allocate("a", tokens(4))
    manager.allocate("b", tokens(8, first=50))
    before = manager.snapshot()
    assert manager.append("a", [7]).status is Status.LATER
    assert manager.append("a", [8]).status is Status.LATER
    assert manager.snapshot() == before
    manager.free("b")
    answer = manager.allocate_slots("a")
    assert (answer.status, answer.num_scheduled_tokens) == (Status.OK, 2)
    assert manager.snapshot().sequences["a"].token_ids == (0, 1, 2, 3, 7, 8)


def test_rule_12_a_resume_finds_what_is_still_cached() -> None:
    """Also of the tokens that were generated; and it is not counted as a query."""
    manager = BlockManager(num_blocks=8, block_size=4)
    manager.allocate("a", tokens(6))
    manager.append("a", tokens(4, first=6))
    table, stats = manager.block_table("a"), manager.stats()
    manager.preempt("a")
    assert manager.block_table("a") == ()
    answer = manager.resume("a")
    assert (answer.hit_blocks, answer.num_scheduled_tokens) == (table[:2], 2)
    after = manager.stats()
    assert (after.queried_tokens, after.hit_tokens) == (stats.queried_tokens, 0)


def test_hits_are_counted_per_admitted_prompt() -> None:
    manager = BlockManager(num_blocks=8, block_size=4)
    assert manager.stats().hit_rate == 0.0
    manager.allocate("a", tokens(8))
    manager.allocate("b", tokens(8))
    manager.allocate("c", tokens(80))  # refused: not counted
    stats = manager.stats()
    assert (stats.queried_tokens, stats.hit_tokens, stats.hit_rate) == (16, 4, 0.25)


# --- LATER and NEVER ----------------------------------------------------------------


def test_later_is_for_what_fits_once_others_have_left() -> None:
    manager = BlockManager(num_blocks=4, block_size=4)
    manager.allocate("a", tokens(8))
    answer = manager.allocate("b", tokens(12, first=50))
    assert (answer.status, answer.needed, answer.free) == (Status.LATER, 3, 1)
    manager.free("a")
    assert manager.allocate("b", tokens(12, first=50))


@pytest.mark.parametrize("must_fit", [False, True])
def test_never_is_for_what_does_not_fit_even_alone(must_fit: bool) -> None:
    manager = BlockManager(num_blocks=4, block_size=4)
    answer = manager.allocate("a", tokens(13), full_sequence_must_fit=must_fit)
    assert (answer.status, answer.needed, answer.free) == (Status.NEVER, 4, 3)
    assert "a" not in manager.snapshot().sequences
    assert manager.allocate("next", tokens(4))


def test_a_chunk_of_what_never_fits_may_start_unless_all_must_fit() -> None:
    """Rule 9. Without the test it starts, and grows until the answer is NEVER."""
    manager = BlockManager(num_blocks=4, block_size=4)
    prompt = tokens(13)
    fit: dict[str, Any] = {"num_tokens": 4, "full_sequence_must_fit": True}
    assert manager.allocate("a", prompt, **fit).status is Status.NEVER
    assert manager.allocate("a", prompt, num_tokens=4)
    answers = [manager.allocate_slots("a", 4).status for _ in range(3)]
    assert answers == [Status.OK, Status.OK, Status.NEVER]


@pytest.mark.parametrize("ahead", [13, 10**9, 10**30])
def test_look_ahead_that_fits_nowhere_is_never(ahead: int) -> None:
    """Otherwise somebody would wait for it for ever."""
    manager = BlockManager(num_blocks=4, block_size=4)
    assert manager.allocate("a", [1], num_lookahead=ahead).status is Status.NEVER
    assert manager.allocate("a", [1])
    assert manager.append("a", [2], num_lookahead=ahead).status is Status.NEVER
    assert manager.allocate_slots("a", num_lookahead=ahead).status is Status.NEVER
    manager.preempt("a")
    assert manager.resume("a", num_lookahead=ahead).status is Status.NEVER
    assert manager.num_free_blocks == 3


def test_look_ahead_stops_at_the_longest_length() -> None:
    manager = BlockManager(num_blocks=4, block_size=4, max_model_len=12)
    assert manager.allocate("a", [1], num_lookahead=10**30)
    assert len(manager.block_table("a")) == 3


def test_a_growing_sequence_ends_with_never_after_a_bounded_number_of_steps() -> None:
    manager = BlockManager(num_blocks=3, block_size=4)
    manager.allocate("a", tokens(7))
    answers = [manager.append("a", [7]).status for _ in range(3)]
    assert answers == [Status.OK, Status.NEVER, Status.NEVER]


# --- the watermark ------------------------------------------------------------------


def test_the_watermark_keeps_room_for_those_that_run() -> None:
    """Rule 9: it counts for a newcomer while somebody runs, and never for growth."""
    manager = BlockManager(num_blocks=8, block_size=4, watermark=0.25)  # 2 blocks
    assert manager.allocate("a", tokens(16)).needed == 4  # nobody runs: no reserve
    refused = manager.allocate("b", tokens(8, first=50))
    assert (refused.status, refused.needed, refused.free) == (Status.LATER, 4, 3)
    assert manager.allocate("c", tokens(4, first=50)).needed == 3
    assert manager.append("a", tokens(8, first=70)).needed == 2
    assert manager.num_free_blocks == 0


def test_the_watermark_counts_when_the_full_sequence_must_fit() -> None:
    manager = BlockManager(num_blocks=8, block_size=4, watermark=0.25)
    manager.allocate("a", tokens(16))
    chunk: dict[str, Any] = {"num_tokens": 4, "full_sequence_must_fit": True}
    refused = manager.allocate("b", tokens(8, first=50), **chunk)
    assert (refused.status, refused.needed, refused.free) == (Status.LATER, 4, 3)
    chunk["full_sequence_must_fit"] = False
    assert manager.allocate("b", tokens(8, first=50), **chunk).needed == 3


def test_a_preempted_sequence_does_not_run() -> None:
    manager = BlockManager(num_blocks=8, block_size=4, watermark=0.5)
    manager.allocate("a", tokens(28))
    manager.preempt("a")
    assert manager.resume("a").needed == 7


@pytest.mark.parametrize(
    ("share", "num_blocks", "blocks"),
    [(0.0, 9, 0), (0.99, 2, 1), (0.1, 9, 0), (0.34, 3, 1), (0, 9, 0), (0.01, 1000, 10)],
)
def test_the_watermark_is_rounded_down(
    share: float, num_blocks: int, blocks: int
) -> None:
    manager = BlockManager(num_blocks, 4, watermark=share)
    assert manager.watermark_blocks == blocks == math.floor(share * num_blocks)


# --- odd sizes ----------------------------------------------------------------------


def test_blocks_larger_than_any_prompt() -> None:
    manager = BlockManager(num_blocks=3, block_size=10**12)
    assert manager.allocate("a", tokens(5)).new_blocks == (1,)
    assert manager.append("a", tokens(100)).new_blocks == ()
    assert manager.slot_mapping("a", 104) == [10**12 + 104]
    manager.audit()


def test_blocks_of_one_token() -> None:
    manager = BlockManager(num_blocks=5, block_size=1)
    manager.allocate("a", [7, 8, 9])
    assert manager.allocate("b", [7, 8, 9]).num_cached_tokens == 2
    assert manager.slot_mapping("b") == [1, 2, 4]
    manager.audit()


def test_the_longest_length_is_exact() -> None:
    manager = BlockManager(num_blocks=9, block_size=4, max_model_len=6)
    with pytest.raises(InvalidRequest, match="7 tokens are more than max_model_len=6"):
        manager.allocate("a", tokens(7))
    assert manager.allocate("a", tokens(5))
    assert manager.append("a", [50])
    before = manager.snapshot(), manager.stats()
    with pytest.raises(InvalidRequest, match="end the sequence"):
        manager.append("a", [51])
    assert (manager.snapshot(), manager.stats()) == before
    assert manager.allocate_slots("a").num_scheduled_tokens == 0, "51 was not kept"


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_blocks": 1},
        {"num_blocks": 0},
        {"num_blocks": -5},
        {"num_blocks": 2.0},
        {"num_blocks": "16"},
        {"num_blocks": None},
        {"block_size": 0},
        {"block_size": -1},
        {"block_size": 1.5},
        {"block_size": True},
        {"watermark": -0.01},
        {"watermark": 1.0},
        {"watermark": float("nan")},
        {"watermark": float("inf")},
        {"watermark": "0.1"},
        {"watermark": None},
        {"max_model_len": 0},
        {"max_model_len": -1},
        {"max_model_len": 8.0},
    ],
    ids=str,
)
def test_sizes_that_can_not_work_are_named(wrong: dict[str, Any]) -> None:
    sizes: dict[str, Any] = {"num_blocks": 8, "block_size": 4, **wrong}
    with pytest.raises(InvalidRequest, match=next(iter(wrong))) as caught:
        BlockManager(**sizes)
    assert repr(next(iter(wrong.values()))) in str(caught.value)


# --- misuse: a named error which says what to do, and nothing changed ----------------

Call = Callable[[BlockManager], object]
MISUSES: dict[str, tuple[Call, type[BlockManagerError], str]] = {
    "no tokens": (
        lambda m: m.allocate("b", []),
        InvalidRequest,
        "at least 1 token",
    ),
    "nothing to look up": (
        lambda m: m.get_computed_blocks(()),
        InvalidRequest,
        "at least 1 token",
    ),
    "nothing to append": (
        lambda m: m.append("a", iter(())),
        InvalidRequest,
        "at least 1 token",
    ),
    "text for tokens": (
        lambda m: m.allocate("b", "hello"),
        InvalidRequest,
        "turn the text into tokens first",
    ),
    "a negative token": (
        lambda m: m.append("a", [1, 2, -1]),
        InvalidRequest,
        "whole numbers from 0 up",
    ),
    "a name that is taken": (
        lambda m: m.allocate("a", [1]),
        DuplicateSequence,
        "'a' is here already: free it first",
    ),
    "a name that a preempted one has": (
        lambda m: m.allocate("p", [1]),
        DuplicateSequence,
        "'p' is here already",
    ),
    "no name": (lambda m: m.allocate("", [1]), InvalidRequest, "needs a name"),
    "a number for a name": (
        lambda m: m.allocate(3, [1]),
        InvalidRequest,
        "needs a name",
    ),
    "an unknown name": (
        lambda m: m.append("zz", [1]),
        UnknownSequence,
        "no sequence 'zz' here (there are: 'a', 'p')",
    ),
    "a name that can't be one": (
        lambda m: m.free(["a"]),
        UnknownSequence,
        "no sequence ['a'] here",
    ),
    "growing a preempted one": (
        lambda m: m.append("p", [1]),
        InvalidRequest,
        "resume it first",
    ),
    "more slots for a preempted one": (
        lambda m: m.allocate_slots("p"),
        InvalidRequest,
        "resume it first",
    ),
    "preempting twice": (
        lambda m: m.preempt("p"),
        InvalidRequest,
        "resume it first",
    ),
    "resuming a running one": (
        lambda m: m.resume("a"),
        InvalidRequest,
        "only a preempted sequence can do this",
    ),
    "0 tokens to schedule": (
        lambda m: m.allocate("b", [1], num_tokens=0),
        InvalidRequest,
        "num_tokens must be a whole number of at least 1, got 0",
    ),
    "0 more slots": (
        lambda m: m.allocate_slots("a", 0),
        InvalidRequest,
        "num_tokens must be",
    ),
    "resuming with -1 tokens": (
        lambda m: m.resume("p", num_tokens=-1),
        InvalidRequest,
        "num_tokens must be",
    ),
    "negative look-ahead": (
        lambda m: m.append("a", [1], num_lookahead=-1),
        InvalidRequest,
        "num_lookahead must be a whole number of at least 0, got -1",
    ),
    "resuming with half a look-ahead": (
        lambda m: m.resume("p", num_lookahead=0.5),
        InvalidRequest,
        "num_lookahead must be",
    ),
    "yes for a number": (
        lambda m: m.allocate("b", [1], num_lookahead=True),
        InvalidRequest,
        "got True",
    ),
    "the null block": (
        lambda m: m.evict_blocks([1, 0]),
        InvalidRequest,
        "block 0 is not a usable block of this pool: choose 1 to 7",
    ),
    "a block that is not there": (
        lambda m: m.evict_blocks([1, 8]),
        InvalidRequest,
        "choose 1 to 7",
    ),
    "a block outside a list": (
        lambda m: m.evict_blocks(3),
        InvalidRequest,
        "block ids come in a list",
    ),
}


@pytest.mark.parametrize("record", [False, True], ids=["plain", "recording"])
@pytest.mark.parametrize(
    ("misuse", "error", "says"), MISUSES.values(), ids=MISUSES.keys()
)
def test_misuse_is_named_and_changes_nothing(
    misuse: Call, error: type[BlockManagerError], says: str, record: bool
) -> None:
    manager = pair(record=record)
    before = manager.snapshot(), manager.stats(), repr(manager.log)
    with pytest.raises(error) as caught:
        misuse(manager)
    assert says in str(caught.value)
    assert (manager.snapshot(), manager.stats(), repr(manager.log)) == before
    manager.audit()
    # And it leaves nothing behind that would show later:
    assert manager.append("a", [9]).num_scheduled_tokens == 1
    assert manager.resume("p").num_scheduled_tokens == 2
    manager.audit()


@pytest.mark.parametrize(
    "call",
    [
        lambda m, name: m.append(name, [1]),
        lambda m, name: m.allocate_slots(name),
        lambda m, name: m.free(name),
        lambda m, name: m.preempt(name),
        lambda m, name: m.resume(name),
        lambda m, name: m.block_table(name),
        lambda m, name: m.slot_mapping(name),
    ],
)
def test_every_call_knows_its_sequences(call: Any) -> None:
    for name in ("zz", "", None, 3, ("a",), ["a"], {"a": 1}, b"a"):
        with pytest.raises(UnknownSequence, match="no sequence"):
            call(pair(), name)
    with pytest.raises(UnknownSequence, match=r"\(there are: none\)"):
        call(BlockManager(4, 4), "a")


@pytest.mark.parametrize(
    "name",
    [
        "\N{GRINNING FACE}",
        "<script>",
        "\u202eabc",
        "a\x00b",
        " ",
        "\ud800",
        "x" * 10**5,
    ],
    ids=ascii,
)
def test_any_text_is_a_name(name: str) -> None:
    manager = BlockManager(8, 4, record=True)
    assert manager.allocate(name, tokens(5))
    assert manager.append(name, [9])
    assert manager.snapshot().owners(1) == (name,)
    with pytest.raises(DuplicateSequence):
        manager.allocate(name, [1])
    manager.audit()
    manager.free(name)
    assert manager.num_free_blocks == 7


def test_numbers_from_numpy_are_tokens() -> None:
    manager = BlockManager(8, 4)
    assert manager.allocate("a", np.arange(9))
    assert manager.get_computed_blocks(np.arange(9)) == (1, 2)
    assert manager.get_computed_blocks(tokens(9)) == (1, 2)


def test_errors_are_caught_by_their_base_and_by_their_kin() -> None:
    """`except BlockManagerError` catches all; Python's own kinds work as well."""
    kinds: dict[str, type[Exception]] = {
        "InvalidRequest": ValueError,
        "DuplicateSequence": ValueError,
        "InvalidFree": ValueError,
        "BadTrace": ValueError,
        "UnknownSequence": LookupError,
        "OutOfBlocks": Exception,
        "AuditError": Exception,
    }
    for name, kin in kinds.items():
        error = getattr(blockmgr, name)
        assert issubclass(error, BlockManagerError)
        assert issubclass(error, kin)


def test_a_shortage_can_be_sent_to_another_process() -> None:
    error = OutOfBlocks(needed=3, free=1)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (str(twin), twin.needed, twin.free) == (str(error), 3, 1)
    assert str(error).startswith("3 blocks were asked for and 1 are free: free or ")


# --- callers that interfere ---------------------------------------------------------


def test_a_callers_list_is_the_callers() -> None:
    manager = BlockManager(8, 4)
    prompt, more = tokens(4), [50, 51]
    manager.allocate("a", prompt)
    manager.append("a", more)
    prompt[0], more[0] = 99, 99
    prompt.append(99)
    view = manager.snapshot().sequences["a"]
    assert view.token_ids == (0, 1, 2, 3, 50, 51)
    assert manager.get_computed_blocks(tokens(5)) == (1,)


def test_what_is_handed_out_is_the_receivers() -> None:
    manager = pair()
    before = manager.snapshot()
    slots = manager.slot_mapping("a")
    slots.clear()
    handed_out: Any = manager.snapshot()
    handed_out.cache.clear()
    handed_out.sequences.clear()
    assert manager.snapshot() == before
    assert len(manager.slot_mapping("a")) == 6


def test_token_ids_that_fail_half_way_change_nothing() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("the caller's own")

    manager = pair(record=True)
    before = manager.snapshot(), manager.stats()
    for call in (
        lambda: manager.allocate("b", broken()),
        lambda: manager.append("a", broken()),
        lambda: manager.get_computed_blocks(broken()),
        lambda: manager.evict_blocks(broken()),
    ):
        with pytest.raises(RuntimeError, match="own"):
            call()
    assert (manager.snapshot(), manager.stats()) == before
    assert manager.allocate_slots("a").num_scheduled_tokens == 0


@pytest.mark.parametrize("meddle", ["free", "preempt"])
def test_a_generator_that_calls_back_finds_no_gap(meddle: str) -> None:
    """Tokens are read before the sequence is looked up, so nothing is allocated for a
    sequence that left in between."""
    manager = pair(record=True)

    def tokens_that_meddle() -> Iterator[int]:
        getattr(manager, meddle)("a")
        yield 1

    with pytest.raises(BlockManagerError):
        manager.append("a", tokens_that_meddle())
    assert manager.num_free_blocks == 7
    manager.audit()


def test_a_generator_that_takes_the_name_itself_is_refused() -> None:
    manager = BlockManager(8, 4, record=True)

    def greedy() -> Iterator[int]:
        manager.allocate("a", tokens(6))
        yield 1

    with pytest.raises(DuplicateSequence):
        manager.allocate("a", greedy())
    assert manager.block_table("a") == (1, 2)
    manager.audit()


def test_a_copy_goes_its_own_way() -> None:
    """What-if: a lesson may copy a manager, try something and drop the copy."""
    manager = pair(record=True)
    before = manager.snapshot()
    twin = copy.deepcopy(manager)
    assert twin.snapshot() == before
    twin.free("a")
    twin.allocate("c", tokens(28, first=200))
    twin.audit()
    assert manager.snapshot() == before
    manager.audit()
    assert pickle.loads(pickle.dumps(manager)).snapshot() == before


def test_two_managers_share_nothing() -> None:
    one, other = BlockManager(8, 4, record=True), BlockManager(8, 4, record=True)
    one.allocate("a", tokens(9))
    assert other.snapshot() == BlockManager(8, 4).snapshot()
    assert other.get_computed_blocks(tokens(9)) == ()
    assert len(other.log or ()) == 0


def test_recording_changes_no_decision() -> None:
    for manager in (pair(), pair(record=True)):
        assert manager.snapshot() == pair().snapshot()
        assert (manager.log is None) is (manager.pool.changes is None)


# --- what importing it costs --------------------------------------------------------


def test_the_manager_needs_nothing_but_python() -> None:
    """No torch, no numpy, no matplotlib, no widgets: in a fresh interpreter."""
    code = (
        "import sys; before = set(sys.modules); import blockmgr, json; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(blockmgr.__file__).parents[1],
    )
    loaded = {name.split(".")[0] for name in json.loads(run.stdout)}
    foreign = loaded - sys.stdlib_module_names
    assert foreign == {"blockmgr"}


# --- what a caller's own code can do in the middle ------------------------------------


class Meddler:
    """A "token" that calls the manager while it is being turned into a number."""

    def __init__(self, meddle: Any) -> None:
        self.meddle = meddle

    def __index__(self) -> int:
        meddle, self.meddle = self.meddle, lambda: None
        meddle()
        return 9


@pytest.mark.parametrize("how", ["fork", "preempt", "swap_out", "append", "free"])
def test_a_token_that_calls_back_finds_no_gap(how: str) -> None:
    manager = BlockManager(num_blocks=9, block_size=4, num_host_blocks=4)
    manager.allocate("a", [0, 1, 2])
    calls: dict[str, Any] = {
        "fork": lambda: manager.fork("a", "c"),
        "preempt": lambda: manager.preempt("a"),
        "swap_out": lambda: manager.swap_out(["a"]),
        "append": lambda: manager.append("a", [5]),
        "free": lambda: manager.free("a"),
    }
    token: Any = Meddler(calls[how])
    if how in ("fork", "append"):
        assert manager.append("a", [token])
    else:
        with pytest.raises(BlockManagerError):
            manager.append("a", [token])
    manager.audit()
    if how == "append":
        assert list(manager.sequences["a"].token_ids) == [0, 1, 2, 5, 9]


@pytest.mark.parametrize("error", [KeyError, ValueError, TypeError, OverflowError])
@pytest.mark.parametrize("tokens_now", [3, 2, 7])
def test_a_hash_that_fails_changes_nothing(
    error: type[Exception], tokens_now: int
) -> None:
    """Its error comes through, and the call can be made again."""
    broken = False

    def hash_fn(content: bytes) -> bytes:
        if broken:
            raise error("no hash today")
        return content[:8]

    manager = BlockManager(num_blocks=9, block_size=4, hash_fn=hash_fn)
    manager.allocate("a", tokens(tokens_now))
    added = [50] * (4 - tokens_now % 4)  # they fill a block
    for call in (manager.append, manager.add_tokens):
        before, broken = manager.snapshot(), True
        held = list(manager.sequences["a"].token_ids)
        with pytest.raises(error, match="no hash today"):
            call("a", added)
        broken = False
        assert manager.snapshot() == before
        assert list(manager.sequences["a"].token_ids) == held
    assert manager.append("a", added).num_scheduled_tokens == len(added)
    assert list(manager.sequences["a"].token_ids) == [*held, *added]
    manager.audit()


def test_a_hash_function_answers_with_bytes() -> None:
    with pytest.raises(InvalidRequest, match="hash_fn is a function of bytes"):
        BlockManager(9, 4, hash_fn=5)  # type: ignore[arg-type]
    manager = BlockManager(9, 4, hash_fn=lambda _: "text")  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidRequest, match="must answer with bytes, got 'text'"):
        manager.allocate("a", tokens(4))


def test_slots_for_nothing_ask_for_nothing() -> None:
    """All tokens have a slot: no block is copied, though others hold the last one."""
    manager = BlockManager(4, 4)
    manager.allocate("a", tokens(10))
    manager.fork("a", "b")
    answer = manager.allocate_slots("a")
    assert (answer.status, answer.copies, answer.num_scheduled_tokens) == ("OK", (), 0)
    assert manager.block_table("a") == manager.block_table("b")
    wider = BlockManager(6, 4)
    wider.allocate("a", tokens(10))
    wider.fork("a", "b")  # drafts are written into the started block, so it is copied
    assert wider.allocate_slots("a", num_lookahead=1).copies == ((3, 4),)


@pytest.mark.parametrize("group", [1, -1, "0", 0.0, None, True])
def test_a_group_that_is_not_there_is_named(group: Any) -> None:
    manager = BlockManager(4, 4)
    manager.allocate("a", tokens(3))
    with pytest.raises(InvalidRequest, match=r"group must be in 0\.\.0"):
        manager.block_table("a", group)
    with pytest.raises(InvalidRequest, match=r"group must be in 0\.\.0"):
        manager.get_computed_blocks(tokens(3), group=group)


def test_a_resume_may_begin_with_a_chunk_unless_all_must_fit() -> None:
    manager = BlockManager(8, 4, enable_caching=False)
    manager.allocate("a", tokens(20))
    manager.preempt("a")
    manager.allocate("b", tokens(20, first=50))
    refused = manager.resume("a", num_tokens=4, full_sequence_must_fit=True)
    assert (refused.status, refused.needed, refused.free) == ("LATER", 5, 2)
    assert manager.resume("a", num_tokens=4).new_blocks != ()


def test_a_block_holds_16_tokens_unless_told() -> None:
    assert BlockManager(num_blocks=8).block_size == 16
