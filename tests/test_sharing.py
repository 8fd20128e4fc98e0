"""Fork, copy-on-write and swap: who shares what, and what moves."""

from typing import Any

import pytest

from blockmgr import (
    BlockManager,
    DuplicateSequence,
    EventLog,
    FullAttention,
    InvalidRequest,
    SlidingWindow,
    Status,
    UnknownSequence,
)
from blockmgr.events import OnHost, Released, Taken, Touched


def forked(**options: Any) -> BlockManager:
    """7 usable blocks of 4: "a" and its fork "b" share 6 tokens in blocks 1 and 2."""
    manager = BlockManager(8, 4, **options)
    manager.allocate("a", range(6))
    manager.fork("a", "b")
    return manager


def log_of(manager: BlockManager) -> EventLog:
    assert manager.log is not None
    return manager.log


# --- fork -----------------------------------------------------------------------------


def test_a_fork_holds_the_very_same_blocks_and_takes_none() -> None:
    manager = forked()
    assert manager.block_table("b") == manager.block_table("a") == (1, 2)
    assert manager.snapshot().ref_cnt == (0, 2, 2, 0, 0, 0, 0, 0)
    assert manager.num_free_blocks == 5
    assert manager.slot_mapping("b") == manager.slot_mapping("a")
    manager.audit()


def test_a_fork_of_a_fork_counts_each_user() -> None:
    manager = forked()
    manager.fork("b", "c")
    assert manager.snapshot().ref_cnt[:3] == (0, 3, 3)
    for seq_id in "abc":
        manager.free(seq_id)
    assert manager.usage == 0.0


def test_only_what_is_filled_is_shared() -> None:
    """Blocks taken ahead stay with the parent: nothing is in them to share. So later
    each writes into blocks of its own, and nothing is copied but what was shared."""
    manager = BlockManager(12, 4)
    manager.allocate("a", range(6), num_lookahead=8)
    manager.fork("a", "b")
    assert manager.block_table("a") == (1, 2, 3, 4)
    assert manager.block_table("b") == (1, 2)
    assert manager.append("b", [6, 7, 8]).copies == ((2, 5),)
    assert manager.block_table("b") == (1, 5, 6)
    assert manager.append("a", [6, 7, 8]).copies == ()
    assert manager.block_table("a") == (1, 2, 3, 4)
    manager.audit()


def test_a_fork_takes_over_tokens_without_a_slot() -> None:
    manager = BlockManager(4, 4)
    manager.allocate("a", range(8))
    manager.allocate("other", [50])
    assert manager.append("a", [8]).status is Status.LATER
    manager.fork("a", "b")
    manager.free("other")
    assert manager.allocate_slots("b").new_blocks == (3,)
    assert manager.slot_mapping("b", 8) == [12]
    manager.audit()


@pytest.mark.parametrize("record", [False, True])
def test_the_short_way_ends_where_sharing_begins(record: bool) -> None:
    """An append that decides nothing must not be taken for a block that others hold."""
    manager = BlockManager(8, 4, record=record)
    manager.allocate("a", range(5))
    assert manager.append("a", [5]).copies == ()
    manager.fork("a", "b")
    assert manager.append("a", [6]).copies == ((2, 3),)
    assert manager.append("a", [7]).copies == ()
    assert manager.append("b", [6]).copies == ()
    assert manager.append("b", [7]).copies == ()
    assert (manager.block_table("a"), manager.block_table("b")) == ((1, 3), (1, 2))
    manager.audit()


def test_the_short_way_ends_even_at_the_first_token() -> None:
    manager = BlockManager(8, 4, num_host_blocks=4)
    manager.allocate("a", [0])
    manager.fork("a", "b")
    assert manager.append("a", [1]).copies == ((1, 2),)
    manager.free("b")
    manager.allocate("c", [0])
    manager.swap_out(["c"])
    with pytest.raises(InvalidRequest, match="'c' is swapped"):
        manager.append("c", [1])
    manager.swap_in(["c"])
    assert manager.append("c", [1]).num_scheduled_tokens == 1
    manager.audit()


def test_both_tables_of_a_hybrid_model_are_forked_and_copied() -> None:
    manager = BlockManager(20, 4, groups=(FullAttention(), SlidingWindow(6)))
    manager.allocate("a", range(14))
    manager.append("a", [14])
    assert manager.block_table("a", 1) == (0, 0, 7, 8)
    manager.fork("a", "b")
    assert manager.block_table("b", 1) == (0, 0, 7, 8)
    assert manager.append("b", [15]).copies == ((4, 9), (8, 10))
    assert manager.block_table("b", 0) == (1, 2, 3, 9)
    assert manager.block_table("b", 1) == (0, 0, 7, 10)
    manager.audit()


# --- copy-on-write --------------------------------------------------------------------


def test_the_first_to_write_copies_and_the_last_does_not() -> None:
    manager = forked()
    answer = manager.append("b", [60])
    assert (answer.status, answer.copies, answer.new_blocks) == ("OK", ((2, 3),), ())
    assert (answer.needed, answer.free) == (1, 5)
    assert manager.append("a", [61]).copies == ()
    assert manager.snapshot().ref_cnt == (0, 2, 1, 1, 0, 0, 0, 0)
    assert (manager.block_table("a"), manager.block_table("b")) == ((1, 2), (1, 3))
    manager.audit()


def test_a_copy_and_new_blocks_in_one_call() -> None:
    manager = forked()
    answer = manager.append("b", range(60, 67))  # 2 slots in the shared block, 5 more
    assert (answer.copies, answer.new_blocks, answer.needed) == (((2, 3),), (4, 5), 3)
    assert manager.block_table("b") == (1, 3, 4, 5)
    manager.audit()


def test_a_copy_that_does_not_fit_changes_nothing() -> None:
    manager = BlockManager(4, 4)
    manager.allocate("a", range(6))
    manager.fork("a", "b")
    manager.allocate("c", [50])
    before = manager.snapshot()
    answer = manager.append("b", [60])
    assert (answer.status, answer.needed, answer.free) == (Status.LATER, 1, 0)
    assert manager.snapshot() == before
    manager.free("c")
    assert manager.allocate_slots("b").copies == ((2, 3),)


def test_a_full_last_block_is_not_copied() -> None:
    """The next token goes into a new block, and no one writes into the shared ones."""
    manager = BlockManager(8, 4)
    manager.allocate("a", range(8))
    manager.fork("a", "b")
    answer = manager.append("b", [8])
    assert (answer.copies, answer.new_blocks) == ((), (3,))
    manager.audit()


# --- swap -----------------------------------------------------------------------------


def test_a_shared_block_moves_once_and_stays_shared() -> None:
    manager = forked(num_host_blocks=4)
    answer = manager.swap_out(["a", "b"])
    assert (answer.status, answer.copies) == (Status.OK, ((1, 1), (2, 2)))
    assert (answer.needed, answer.free) == (2, 4)
    state = manager.snapshot()
    assert state.host_ref_cnt == (0, 2, 2, 0, 0)
    assert state.host_free_queue == (3, 4)
    assert (state.sequences, state.num_free) == ({}, 7)
    assert {s.status for s in state.host_sequences.values()} == {"swapped"}
    back = manager.swap_in(["a", "b"])
    # 1 is remembered, so it waits at the queue's end; 2 was blank and comes first.
    assert back.copies == ((1, 2), (2, 3))
    assert (back.needed, back.free) == (4, 7)
    assert manager.block_table("a") == manager.block_table("b") == (2, 3)
    assert manager.snapshot().ref_cnt[:4] == (0, 0, 2, 2)
    assert manager.snapshot().host_ref_cnt == (0, 0, 0, 0, 0)
    manager.audit()


def test_who_shares_with_the_group_keeps_the_block() -> None:
    manager = forked(num_host_blocks=4)
    assert manager.swap_out(["b"]).copies == ((1, 1), (2, 2))
    assert manager.snapshot().ref_cnt[:3] == (0, 1, 1)
    assert manager.block_table("a") == (1, 2)
    manager.audit()


def test_what_comes_back_is_remembered_again() -> None:
    manager = BlockManager(8, 4, num_host_blocks=4)
    manager.allocate("a", range(9))
    manager.swap_out(["a"])
    manager.evict_blocks([1, 2])
    assert manager.get_computed_blocks(range(9)) == ()
    manager.swap_in(["a"])
    assert manager.get_computed_blocks(range(9)) == manager.block_table("a")[:2]
    assert manager.append("a", [9]).num_scheduled_tokens == 1
    manager.audit()


def test_a_window_moves_what_it_still_holds() -> None:
    manager = BlockManager(8, 4, num_host_blocks=2, groups=(SlidingWindow(6),))
    manager.allocate("a", range(14))
    manager.append("a", [14])
    assert manager.swap_out(["a"]).copies == ((3, 1), (4, 2))
    assert manager.block_table("a") == (0, 0, 1, 2)
    manager.swap_in(["a"])
    table = manager.block_table("a")
    assert table[:2] == (0, 0)
    assert 0 not in table[2:]
    manager.audit()


def test_the_watermark_counts_for_who_comes_back_and_not_for_who_leaves() -> None:
    """8 blocks, 2 of them to be kept free while somebody runs."""
    manager = BlockManager(8, 4, num_host_blocks=2, watermark=0.25)
    manager.allocate("a", range(6))
    manager.allocate("r", range(50, 58))
    assert manager.swap_out(["a"]).needed == 2
    answer = manager.swap_in(["a"])
    assert (answer.status, answer.needed, answer.free) == (Status.OK, 2 + 1 + 2, 5)
    manager.swap_out(["a"])
    manager.append("r", [58])
    answer = manager.swap_in(["a"])
    assert (answer.status, answer.needed, answer.free) == (Status.LATER, 5, 4)
    manager.free("r")
    assert manager.swap_in(["a"]).needed == 3  # nobody runs: no watermark
    manager.audit()


def test_later_or_never_on_both_sides() -> None:
    manager = BlockManager(8, 4, num_host_blocks=2)
    manager.allocate("a", range(12))
    answer = manager.swap_out(["a"])
    assert (answer.status, answer.needed, answer.free) == (Status.NEVER, 3, 2)
    manager.allocate("b", range(50, 58))
    manager.swap_out(["b"])
    manager.allocate("c", [70])
    assert manager.swap_out(["c"]).status is Status.LATER
    manager.append("a", range(12, 24))
    assert manager.swap_in(["b"]).status is Status.LATER
    manager.free("a")
    assert manager.swap_in(["b"])
    whole = BlockManager(8, 4, num_host_blocks=7)
    whole.allocate("w", range(28))
    whole.swap_out(["w"])  # all 7 blocks: back there is no block left to grow
    assert whole.swap_in(["w"]).status is Status.NEVER


def test_free_gives_back_wherever_a_sequence_is() -> None:
    manager = forked(num_host_blocks=4)
    manager.swap_out(["a", "b"])
    manager.free("a")
    assert manager.snapshot().host_ref_cnt == (0, 1, 1, 0, 0)
    manager.free("b")
    assert manager.host is not None
    assert manager.host.usage == 0.0
    manager.audit()


# --- what the log says ----------------------------------------------------------------


def test_the_log_tells_forks_copies_and_swaps() -> None:
    manager = forked(num_host_blocks=4, record=True)
    manager.append("b", [60])
    manager.swap_out(["a", "b"])
    manager.swap_in(["a", "b"])
    _, fork, copy, out, back = log_of(manager)
    assert (fork.op, fork.seq_id, fork.status) == ("fork", "b", Status.OK)
    assert fork.changes == (Touched((1, 2)),)
    assert dict(fork.sequences) == {"b": log_of(manager).snapshots()[2].sequences["b"]}
    assert (copy.op, copy.copies, copy.token_ids) == ("append", ((2, 3),), (60,))
    assert copy.changes == (Taken((3,)), Released((2,), head=(), tail=()))
    assert (out.op, out.copies) == ("swap_out", ((1, 1), (2, 2), (3, 3)))
    assert {type(c) for c in out.changes} == {Released, OnHost}
    assert list(out.sequences) == ["a", "b"]
    assert (back.op, len(back.copies), back.needed) == ("swap_in", 3, 5)
    manager.audit()


def test_a_refused_swap_is_told_and_changes_nothing() -> None:
    manager = forked(num_host_blocks=1, record=True)
    manager.swap_out(["a", "b"])
    event = log_of(manager).events[-1]
    assert (event.op, event.seq_id, event.status) == ("swap_out", "a", Status.NEVER)
    assert (event.needed, event.free, event.changes) == (2, 1, ())
    assert dict(event.sequences) == {}


# --- misuse ---------------------------------------------------------------------------

MISUSES: dict[str, tuple[Any, type[Exception], str]] = {
    "fork of nobody": (lambda m: m.fork("x", "y"), UnknownSequence, "no sequence 'x'"),
    "fork with a name in use": (lambda m: m.fork("a", "b"), DuplicateSequence, "here"),
    "fork without a name": (lambda m: m.fork("a", ""), InvalidRequest, "needs a name"),
    "fork of a preempted one": (
        lambda m: (m.preempt("a"), m.fork("a", "c")),
        InvalidRequest,
        "only a running sequence can do this, and 'a' is preempted: it holds no blocks",
    ),
    "swap of nobody": (lambda m: m.swap_out(["x"]), UnknownSequence, "no sequence 'x'"),
    "swap of no one": (lambda m: m.swap_out([]), InvalidRequest, "each named once"),
    "swap of one twice": (lambda m: m.swap_out(["a", "a"]), InvalidRequest, "once"),
    "swap of letters": (lambda m: m.swap_out("ab"), InvalidRequest, "got 'ab'"),
    "swap in of a running one": (
        lambda m: m.swap_in(["a"]),
        InvalidRequest,
        "only a swapped sequence can do this, and 'a' is running: it holds blocks",
    ),
    "append to a swapped one": (
        lambda m: (m.swap_out(["a"]), m.append("a", [1])),
        InvalidRequest,
        "only a running sequence can do this, and 'a' is swapped: its blocks are on",
    ),
}


@pytest.mark.parametrize(("misuse", "error", "says"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_named(misuse: Any, error: type[Exception], says: str) -> None:
    manager = forked(num_host_blocks=4)
    with pytest.raises(error) as caught:
        misuse(manager)
    assert says in str(caught.value)
    manager.audit()


def test_without_a_host_pool_nothing_can_be_swapped() -> None:
    manager = forked()
    before = manager.snapshot()
    with pytest.raises(InvalidRequest) as caught:
        manager.swap_out(["a"])
    assert str(caught.value) == "nothing to swap to: give the manager num_host_blocks"
    assert manager.snapshot() == before
