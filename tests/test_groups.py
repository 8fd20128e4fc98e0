"""Groups of layers: what a window lets go, and what it finds again."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import BlockManager, InvalidRequest, Status
from blockmgr.block import Block, BlockHash
from blockmgr.events import Stored
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.prefix import PrefixCache
from blockmgr.v0 import RingWindow

FIXED = settings(
    max_examples=200, derandomize=True, database=None, deadline=None, print_blob=True
)
HYBRID = (FullAttention(), SlidingWindow(6))


def windowed(window: int = 6, **options: Any) -> BlockManager:
    """15 usable blocks of 4, one group with a window."""
    return BlockManager(16, 4, groups=(SlidingWindow(window),), **options)


# --- what is kept ---------------------------------------------------------------------


@FIXED
@given(st.integers(2, 20), st.integers(1, 60), st.integers(1, 6))
def test_exactly_what_no_later_token_sees_is_let_go(
    window: int, computed: int, block_size: int
) -> None:
    """The next token, at position `computed`, sees itself and `window - 1` more."""
    skipped = SlidingWindow(window).num_skipped_blocks(computed, block_size)
    seen = range(max(0, computed - window + 1), computed + 1)
    assert skipped * block_size <= seen[0] < (skipped + 1) * block_size
    assert FullAttention().num_skipped_blocks(computed, block_size) == 0


def test_a_slot_that_fell_out_of_the_window_is_minus_1() -> None:
    manager = windowed()
    manager.allocate("a", range(14))
    assert manager.slot_mapping("a") == [*range(4, 18)]
    manager.append("a", [14])  # from 14 tokens on, nobody sees the first 9
    assert manager.block_table("a") == (0, 0, 3, 4)
    assert manager.slot_mapping("a") == [-1] * 8 + [*range(12, 19)]
    assert manager.slot_mapping("a", 6, 10) == [-1, -1, 12, 13]


def test_a_window_finds_what_it_would_have_kept_and_no_more() -> None:
    """2 blocks cover a window of 6. Those of the prompt's end are there, so the null
    block stands for the ones before them, whoever has them now."""
    manager = windowed()
    manager.allocate("a", range(17))
    manager.free("a")
    assert manager.get_computed_blocks(range(17)) == (0, 0, 3, 4)
    assert manager.get_computed_blocks(range(9)) == (1, 2)
    manager.evict_blocks([3])
    assert manager.get_computed_blocks(range(17)) == (1, 2)
    manager.evict_blocks([2])
    assert manager.get_computed_blocks(range(17)) == (1,)  # nothing is missing in front
    manager.evict_blocks([1])
    assert manager.get_computed_blocks(range(17)) == ()
    manager.audit()


def test_both_groups_of_a_hybrid_model_start_at_the_same_token() -> None:
    """Full attention needs every block before, a window only the last ones: the hit is
    what both have."""
    manager = BlockManager(24, 4, groups=HYBRID)
    manager.allocate("a", range(17))
    full, window = (manager.block_table("a", group) for group in (0, 1))
    assert (full, window) == ((1, 2, 3, 4, 5), (6, 7, 8, 9, 10))
    manager.free("a")

    def hits() -> list[tuple[int, ...]]:
        return [manager.get_computed_blocks(range(17), group=i) for i in (0, 1)]

    assert hits() == [(1, 2, 3, 4), (0, 0, 8, 9)]
    manager.evict_blocks([9])  # the window's last: both fall back
    assert hits() == [(1, 2, 3), (0, 7, 8)]
    manager.evict_blocks([2])  # full attention's second: the window follows
    assert hits() == [(1,), (6,)]
    answer = manager.allocate("b", range(17))
    assert answer.hit_blocks == (1, 6)
    assert answer.num_cached_tokens == 4
    assert len(manager.block_table("b", 1)) == 5
    manager.audit()


def test_the_log_names_the_parent_of_the_same_group() -> None:
    manager = BlockManager(24, 4, groups=HYBRID, record=True)
    manager.allocate("a", range(4))
    manager.append("a", [*range(4, 8)])
    assert manager.log is not None
    stored = [
        change
        for event in manager.log.events
        for change in event.changes
        if isinstance(change, Stored)
    ]
    assert len(stored) == 4  # for each of two blocks one in each group
    parents = [change.note.parent for change in stored]
    assert parents == [None, None, stored[0].hashes[0], stored[1].hashes[0]]


def test_who_fits_into_a_window_has_to_wait_and_no_more() -> None:
    """Between chunks of 8 the window lets go of what it no longer sees: 40 tokens need
    6 of the 6 blocks at a time, so they only have to wait. In chunks of 12 it is 8."""
    manager = BlockManager(7, 2, groups=(SlidingWindow(4),))
    manager.allocate("here", range(100, 106))
    refused = manager.allocate("long", range(40), num_tokens=8)
    assert refused.status is Status.LATER
    refused = manager.allocate("long", range(40), num_tokens=12)
    assert refused.status is Status.NEVER
    refused = manager.allocate(  # the whole prompt at once, as if nothing slid out
        "long", range(40), num_tokens=8, full_sequence_must_fit=True
    )
    assert refused.status is Status.NEVER


def test_a_block_of_one_group_is_never_found_by_the_other() -> None:
    name = BlockHash(b"digest", b"content")
    other = name.in_group(1)
    assert name.in_group(0) is name
    assert other.digest != name.digest
    assert (other.group, other.content) == (1, b"content")
    assert (name.hex(), other.hex()) == (b"digest".hex(), b"digest".hex() + ":1")


def test_a_window_compares_content_where_the_hash_is_weak() -> None:
    """`get` is to a window what `find` is to full attention."""
    cache, block = PrefixCache(), Block(1)
    cache.insert(block, BlockHash(b"same", b"one"))
    assert cache.get(BlockHash(b"same", b"one")) is block
    assert cache.get(BlockHash(b"same", b"two")) is None
    assert cache.get(BlockHash(b"else", b"one")) is None
    prompts = [1, 1, 9], [2, 2, 9]
    manager = BlockManager(9, 2, groups=(SlidingWindow(2),), hash_fn=lambda _: b"")
    for i, prompt in enumerate(prompts):
        assert manager.allocate(f"{i}", prompt).num_cached_tokens == 0
        assert manager.allocate(f"again {i}", prompt).num_cached_tokens == (2, 0)[i]


# --- a ring ---------------------------------------------------------------------------


def test_a_ring_writes_over_its_oldest_block() -> None:
    manager = BlockManager(9, 4, groups=(RingWindow(8),), enable_caching=False)
    manager.allocate("a", range(7))
    assert manager.block_table("a") == (1, 2)
    for token in range(10):
        manager.append("a", [token])
    assert manager.block_table("a") == (1, 2, 1, 2, 1)
    assert manager.slot_mapping("a", 12) == [8, 9, 10, 11, 4]
    assert manager.stats().live == 2
    manager.audit()


def test_a_shared_ring_is_copied_where_it_comes_round() -> None:
    """At 8 tokens both blocks are full. The next token of either goes into block 1
    again, which the other still sees: it gets a copy of it, and later of block 2."""
    manager = BlockManager(9, 4, groups=(RingWindow(8),), enable_caching=False)
    manager.allocate("a", range(8))
    manager.fork("a", "b")
    assert manager.append("b", [8]).copies == ((1, 3),)
    assert manager.append("a", [9]).copies == ()
    assert manager.append("b", [8, 8, 8, 8]).copies == ((2, 4),)
    assert manager.block_table("b") == (3, 4, 3, 4)
    assert manager.block_table("a") == (1, 2, 1)
    manager.audit()


def test_a_ring_has_no_prefix_cache_asked_for_or_not() -> None:
    manager = BlockManager(9, 4, groups=(RingWindow(8),), enable_caching=True)
    manager.allocate("a", range(30))
    assert manager.get_computed_blocks(range(30)) == ()
    manager.free("a")
    assert manager.stats().cached == 0
    manager.audit()


# --- misuse ---------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 0, -3, 2.0, None, True, "8"])
def test_a_window_has_two_tokens_or_more(window: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"window .* at least 2"):
        SlidingWindow(window)


@pytest.mark.parametrize(
    "groups",
    [
        *((), [FullAttention()], None, (5,), FullAttention(), (FullAttention,)),
        (SlidingWindow(4), FullAttention()),
        (FullAttention(), FullAttention()),
        (FullAttention(), SlidingWindow(4), SlidingWindow(8)),
        (FullAttention(), RingWindow(4)),
    ],
)
def test_groups_that_no_manager_can_serve_are_named(groups: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"\(FullAttention\(\), SlidingWindow"):
        BlockManager(9, 4, groups=groups)


def test_a_window_says_how_long_it_is() -> None:
    assert (repr(SlidingWindow(8)), repr(RingWindow(8))) == (
        "SlidingWindow(8)",
        "RingWindow(8)",
    )
