"""The pool: take, touch, free, register, forget."""

from typing import Any

import pytest

from blockmgr import BlockPool, InvalidRequest, OutOfBlocks
from blockmgr.block import ids_of
from blockmgr.events import Cleared, Released, Removed, Stored, Taken, Touched
from blockmgr.prefix import BlockHash, sha256


def name(text: str) -> BlockHash:
    """Any content's name."""
    return BlockHash(sha256(text.encode()), text.encode())


def queue(pool: BlockPool) -> tuple[int, ...]:
    return ids_of(pool.free_queue)


def cached_pool() -> BlockPool:
    """Blocks 1, 2, 3 hold a, b, c and are free; 4, 5 are blank. Queue: 4 5 3 2 1."""
    pool = BlockPool(6)
    blocks = pool.get_new_blocks(3)
    pool.cache_blocks(blocks, [name("a"), name("b"), name("c")])
    pool.free_blocks(blocks[::-1])
    return pool


def test_a_new_pool_gives_out_block_1_first_and_never_block_0() -> None:
    pool = BlockPool(4)
    assert pool.num_usable_blocks == pool.num_free_blocks == 3
    assert ids_of(pool.get_new_blocks(3)) == (1, 2, 3)
    assert pool.num_free_blocks == 0
    assert pool.null_block.ref_cnt == 0
    with pytest.raises(OutOfBlocks):
        pool.get_new_blocks(1)


@pytest.mark.parametrize("num_blocks", [1, 0, -1, 1.5, "4", None, True])
def test_a_pool_without_a_usable_block_is_refused(num_blocks: Any) -> None:
    with pytest.raises(InvalidRequest, match="at least 2"):
        BlockPool(num_blocks)


def test_usage_counts_usable_blocks_only() -> None:
    pool = BlockPool(5)
    usages = [pool.usage]
    for _ in range(4):
        pool.get_new_blocks(1)
        usages.append(pool.usage)
    assert usages == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_a_pool_shows_itself_in_one_line() -> None:
    pool = BlockPool(4)
    pool.get_new_blocks(1)
    assert repr(pool) == "BlockPool(4 blocks, 2 free)"


def test_rule_3_blank_to_the_head_remembered_to_the_tail() -> None:
    pool = BlockPool(7)
    a, b, c, d = pool.get_new_blocks(4)
    pool.cache_blocks([a, c], [name("a"), name("c")])
    pool.free_blocks([d, c, b, a])  # tail first
    assert queue(pool) == (4, 2, 5, 6, 3, 1)


def test_rule_3_a_shared_block_stays_until_its_last_user_leaves() -> None:
    pool = cached_pool()
    (block,) = pool.get_cached_blocks([name("a")], 1)
    pool.touch([block])
    pool.touch([block])
    pool.free_blocks([block])
    assert block.ref_cnt == 1
    assert block.block_id not in queue(pool)
    pool.free_blocks([block])
    assert queue(pool)[-1] == block.block_id


def test_rule_4_taking_a_block_evicts_and_nothing_else_does() -> None:
    pool = cached_pool()
    assert len(pool.cache) == 3
    pool.get_new_blocks(2)
    assert (len(pool.cache), pool.num_evictions) == (3, 0)
    (taken,) = pool.get_new_blocks(1)
    assert taken.block_id == 3
    assert (len(pool.cache), pool.num_evictions) == (2, 1)
    assert taken.block_hash is None
    assert pool.get_cached_blocks([name("c")], 1) == []


def test_rule_10_a_touched_block_leaves_the_middle_of_the_queue() -> None:
    pool = cached_pool()
    pool.touch(pool.get_cached_blocks([name("b")], 1))
    assert queue(pool) == (4, 5, 3, 1)
    assert [block.ref_cnt for block in pool.blocks] == [0, 0, 1, 0, 0, 0]


def test_a_touch_that_fails_leaves_the_queue_as_it_was() -> None:
    """Also for the block that was good: no later call may take it for a stale entry."""
    pool = cached_pool()
    good, blank = pool.blocks[2], pool.blocks[4]
    with pytest.raises(InvalidRequest, match="nothing that could be shared"):
        pool.touch([good, blank])
    assert queue(pool) == (4, 5, 3, 2, 1)
    assert ids_of(pool.get_new_blocks(5)) == (4, 5, 3, 2, 1)


def test_what_was_not_registered_is_not_written_down() -> None:
    pool = BlockPool(4)
    pool.changes = []
    one, two = pool.get_new_blocks(2)
    pool.cache_blocks([one], [BlockHash(b"same", b"one")])
    pool.cache_blocks([two], [BlockHash(b"same", b"two")])
    stored = [change.block_ids for change in pool.changes if isinstance(change, Stored)]
    assert stored == [(1,)]
    assert two.block_hash is None


def test_a_lookup_is_a_pure_look() -> None:
    pool = cached_pool()
    pool.changes = []
    before = queue(pool)
    assert ids_of(pool.get_cached_blocks([name("a"), name("b")], 2)) == (1, 2)
    assert queue(pool) == before
    assert pool.changes == []


def test_rule_13_a_reset_needs_an_idle_pool_and_keeps_the_order() -> None:
    pool = cached_pool()
    (held,) = pool.get_new_blocks(1)
    assert pool.reset_prefix_cache() is False
    assert len(pool.cache) == 3
    pool.free_blocks([held])
    before = queue(pool)
    assert pool.reset_prefix_cache() is True
    assert len(pool.cache) == 0
    assert queue(pool) == before
    assert ids_of(pool.get_new_blocks(5)) == before
    assert pool.num_evictions == 0


def test_rule_14_forgetting_moves_nothing() -> None:
    pool = cached_pool()
    before = queue(pool)
    pool.evict_blocks([2, 2, 4])  # twice, and one that remembers nothing
    assert queue(pool) == before
    assert pool.blocks[2].block_hash is None
    assert len(pool.cache) == 2
    # A block that forgot is still in the line: it is taken in its turn, ...
    assert ids_of(pool.get_new_blocks(5)) == before
    # ... and that is no eviction.
    assert pool.num_evictions == 2


@pytest.mark.parametrize("wrong", [0, 6, -1, 10**30, 1.0, "1", None, True, [1]])
def test_forgetting_a_block_that_is_none_changes_nothing(wrong: Any) -> None:
    pool = cached_pool()
    with pytest.raises(InvalidRequest, match="choose 1 to 5"):
        pool.evict_blocks([1, wrong])
    assert len(pool.cache) == 3


@pytest.mark.parametrize("wrong", [5, None, 1.5])
def test_block_ids_come_in_a_list(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="come in a list"):
        cached_pool().evict_blocks(wrong)


@pytest.mark.parametrize("wrong", [-1, 1.0, "1", None, True])
def test_only_a_number_of_blocks_can_be_taken(wrong: Any) -> None:
    pool = cached_pool()
    with pytest.raises(InvalidRequest, match="number of blocks to take"):
        pool.get_new_blocks(wrong)
    assert pool.num_free_blocks == 5


def test_every_change_is_written_down() -> None:
    """And nothing is, for a call that changed nothing: see `events.py`."""
    pool = BlockPool(5)
    pool.changes = []
    a, b = pool.get_new_blocks(2)
    pool.cache_blocks([a], [name("a")])
    pool.free_blocks([b, a])
    pool.touch([a])
    pool.free_blocks([a])
    pool.get_new_blocks(0)
    pool.touch([])
    pool.free_blocks([])
    pool.evict_blocks([3])
    pool.get_new_blocks(4)
    pool.free_blocks(pool.blocks[1:])
    pool.evict_blocks([1])
    pool.reset_prefix_cache()
    digest = name("a").hex()
    assert pool.changes == [
        Taken((1, 2)),
        Stored((1,), (digest,)),
        Released((2, 1), head=(2,), tail=(1,)),
        Touched((1,)),
        Released((1,), head=(), tail=(1,)),
        Taken((2, 3, 4, 1), evicted=((1, digest),)),
        Released((1, 2, 3, 4), head=(1, 2, 3, 4), tail=()),
        Cleared(),
    ]


def test_a_removal_is_written_down() -> None:
    pool = cached_pool()
    pool.changes = []
    pool.evict_blocks([1, 4, 3])
    assert pool.changes == [Removed(((1, name("a").hex()), (3, name("c").hex())))]


def test_nothing_is_written_down_unless_asked() -> None:
    assert cached_pool().changes is None


def test_a_pool_caches_and_compares_unless_told() -> None:
    pool = BlockPool(4)
    assert pool.enable_caching
    pool.cache_blocks(pool.get_new_blocks(1), [BlockHash(b"same", b"one")])
    assert pool.get_cached_blocks([BlockHash(b"same", b"two")], 1) == []
