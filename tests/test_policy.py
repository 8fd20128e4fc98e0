"""Allocation policies: the same manager, asked for room ahead of need or not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import BlockManager, InvalidRequest, Status, UnknownSequence
from blockmgr.policy import Batched, Counters, OnDemand, PolicyAllocator, PreAllocate

FIXED = settings(
    max_examples=150, derandomize=True, database=None, deadline=None, print_blob=True
)


def allocator(policy: OnDemand, num_blocks: int = 40, **how: int) -> PolicyAllocator:
    """A policy on a pool of blocks of 4, without prefix caching."""
    manager = BlockManager(num_blocks, 4, enable_caching=False, **how)  # type: ignore[arg-type]
    return PolicyAllocator(manager, policy)


def grow(seq: PolicyAllocator, prompt: int, goal: int) -> PolicyAllocator:
    """Admit "a" with a prompt and append one token after another."""
    assert seq.allocate("a", [1] * prompt)
    for _ in range(goal - prompt):
        assert seq.append("a", [1])
    return seq


# --- what each takes ------------------------------------------------------------------


def test_one_sequence_from_5_to_14_tokens_by_the_three_policies() -> None:
    """14 tokens need 4 blocks of 4. On demand: 2 for the prompt, then 1 and 1. In
    batches of 3: 2 + 2 ahead for the prompt, which is enough. Ahead of time for 30
    tokens: 8 at once, and 18 of 32 slots stay empty."""
    on_demand = grow(allocator(OnDemand()), 5, 14)
    assert on_demand.counters() == Counters(3, 4, 2, 0)
    batched = grow(allocator(Batched(3)), 5, 14)
    assert batched.counters() == Counters(1, 4, 2, 0)
    ahead = grow(allocator(PreAllocate(30)), 5, 14)
    assert ahead.counters() == Counters(1, 8, 18, 0)


@FIXED
@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 6))
def test_blocks_come_in_batches(prompt: int, more: int, k: int) -> None:
    """Each call that takes, takes what the tokens need and k - 1 more; k = 1 is on
    demand; and never is more than a batch left empty."""
    seq = grow(allocator(Batched(k)), prompt, prompt + more)
    told = seq.counters()
    blocks, needed = told.blocks_taken, -(-(prompt + more) // 4)
    first = -(-prompt // 4) + k - 1
    assert blocks == first + max(0, -(-(needed - first) // k)) * k
    assert told.calls == 1 + (blocks - first) // k
    assert told.slots_wasted == blocks * 4 - prompt - more < k * 4
    if k == 1:
        assert told == grow(allocator(OnDemand()), prompt, prompt + more).counters()


@FIXED
@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 100))
def test_room_in_advance_is_taken_once(prompt: int, more: int, longest: int) -> None:
    seq = grow(allocator(PreAllocate(longest)), prompt, prompt + more)
    told = seq.counters()
    first = -(-max(prompt, longest) // 4)
    needed = -(-(prompt + more) // 4)
    assert told.blocks_taken == max(first, needed)
    assert told.calls == 1 + max(0, needed - first)


@FIXED
@given(
    st.sampled_from([OnDemand(), Batched(3), PreAllocate(25)]),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=3),
)
def test_everything_is_given_back(
    policy: OnDemand, sizes: list[tuple[int, int]]
) -> None:
    """Slots asked for = tokens + empty ones, while it lasts and at the end."""
    seq = allocator(policy)
    for i, (prompt, more) in enumerate(sizes):
        assert seq.allocate(f"s{i}", [1] * prompt)
        for _ in range(more):
            assert seq.append(f"s{i}", [1])
    told, tokens = seq.counters(), sum(map(sum, sizes))
    assert told.blocks_taken * 4 == tokens + told.slots_wasted
    for i in range(len(sizes)):
        seq.free(f"s{i}")
    end = seq.counters()
    assert (end.slots_wasted, end.slots_given_back) == (0, told.slots_wasted)
    assert seq.manager.usage == 0.0
    seq.manager.audit()


# --- when there is no room ------------------------------------------------------------


def test_a_reserve_that_does_not_fit_is_done_without() -> None:
    seq = allocator(Batched(8), num_blocks=7)
    assert seq.allocate("a", [1] * 8)  # 2 blocks and not 9
    assert seq.counters() == Counters(1, 2, 0, 0)
    for _ in range(16):
        assert seq.append("a", [1])
    answer = seq.append("a", [1])
    assert (answer.status, answer.needed, answer.free) == (Status.NEVER, 1, 0)
    assert seq.counters() == Counters(5, 6, 0, 0)


def test_a_promise_that_can_not_be_kept_is_not_given() -> None:
    """Whoever takes the longest length in advance is never without room later, so he
    is not let in without it."""
    seq = allocator(PreAllocate(16), num_blocks=8)
    assert seq.allocate("a", [1] * 3)
    before = seq.manager.snapshot()
    answer = seq.allocate("b", [1] * 3)
    assert (answer.status, answer.needed, answer.free) == (Status.LATER, 4, 3)
    assert seq.manager.snapshot() == before
    seq.free("a")
    assert seq.allocate("b", [1] * 3)


def test_tokens_that_had_to_wait_get_their_slots_later() -> None:
    seq = allocator(OnDemand(), num_blocks=4)
    assert seq.allocate("a", [1] * 8)
    assert seq.allocate("b", [1] * 4)
    assert seq.append("b", [1]).status is Status.LATER
    seq.free("a")
    assert seq.retry("b").num_scheduled_tokens == 1
    assert seq.counters() == Counters(3, 4, 3, 0)


def test_row_40_room_in_advance_ends_at_the_longest_length() -> None:
    """4 blocks in advance where a sequence may have 10 tokens: 3 blocks, not 4."""
    seq = allocator(PreAllocate(16), max_model_len=10)
    assert len(seq.allocate("a", [1] * 2).new_blocks) == 3
    for _ in range(8):
        assert seq.append("a", [1])
    with pytest.raises(InvalidRequest, match="more than max_model_len=10"):
        seq.append("a", [1])


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None, "3"])
def test_sizes_that_can_not_work_are_named(wrong: int) -> None:
    with pytest.raises(InvalidRequest, match="num_blocks must be a whole number"):
        Batched(wrong)
    with pytest.raises(InvalidRequest, match="max_tokens must be a whole number"):
        PreAllocate(wrong)


def test_unknown_sequences_are_named() -> None:
    seq = allocator(OnDemand())
    for call in (seq.free, seq.retry, lambda name: seq.append(name, [1])):
        with pytest.raises(UnknownSequence, match="no sequence 'x' here"):
            call("x")


@pytest.mark.parametrize("policy", [OnDemand(), Batched(3), PreAllocate(9)])
def test_a_refused_append_changes_nothing(policy: OnDemand) -> None:
    """As with the manager: no token is added to a sequence that can't take it."""
    seq = allocator(policy)
    seq.allocate("a", [1])
    seq.manager.preempt("a")
    with pytest.raises(InvalidRequest, match="only a running sequence"):
        seq.append("a", [9])
    assert list(seq.manager.sequences["a"].token_ids) == [1]
    with pytest.raises(InvalidRequest, match="token ids are whole numbers"):
        seq.allocate("b", None)  # type: ignore[arg-type]


def test_a_retry_asks_for_the_batch_and_else_for_the_tokens_alone() -> None:
    seq = allocator(Batched(3), num_blocks=6)
    assert seq.allocate("a", [1] * 4)  # 3 of 5 blocks
    assert seq.allocate("b", [1] * 4).new_blocks != ()  # 1 of the 2 that are left
    assert seq.append("b", [1])  # the last one
    assert seq.append("b", [1] * 4).status is Status.LATER
    seq.free("a")
    assert len(seq.retry("b").new_blocks) == 3  # a whole batch again
    assert seq.counters() == Counters(4, 8, 11, 8)
    tight = allocator(Batched(3), num_blocks=4)
    assert tight.allocate("a", [1] * 4).new_blocks == (1, 2, 3)
    tight.free("a")
    assert len(tight.allocate("a", [1] * 8).new_blocks) == 2  # no room for a batch
    tight.manager.add_tokens("a", [1])
    answer = tight.retry("a")
    assert (answer.status, len(answer.new_blocks)) == (Status.OK, 1)


def test_a_retry_with_room_in_the_table_takes_nothing() -> None:
    seq = allocator(Batched(2))
    seq.allocate("a", [1] * 8)  # 2 blocks, and 1 ahead
    seq.manager.add_tokens("a", [1] * 4)
    assert seq.retry("a").new_blocks == ()
    assert seq.counters() == Counters(1, 3, 0, 0)


def test_a_copy_on_write_is_on_the_bill() -> None:
    seq = allocator(OnDemand())
    seq.allocate("a", [1] * 6)
    seq.manager.fork("a", "b")
    assert seq.append("b", [1]).copies == ((2, 3),)
    assert seq.counters()[:2] == (2, 3)
