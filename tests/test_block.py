"""One block, and the queue of free ones."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import Block, BlockPool
from blockmgr.block import FreeQueue, ids_of
from blockmgr.prefix import BlockHash, sha256

FIXED = settings(
    max_examples=150, derandomize=True, database=None, deadline=None, print_blob=True
)


def test_a_block_shows_itself_without_an_address() -> None:
    block = Block(3)
    assert repr(block) == "Block(3, ref_cnt=0)"
    block.ref_cnt = 2
    block.block_hash = BlockHash(bytes.fromhex("ab12cd34"), b"content")
    assert repr(block) == "Block(3, ref_cnt=2, hash=ab12)"


def test_only_block_0_is_null() -> None:
    assert [Block(i).is_null for i in range(3)] == [True, False, False]


def test_blocks_are_themselves_and_nobody_else() -> None:
    """Two blocks with one number are two blocks: a set of them never merges them."""
    assert Block(1) != Block(1)
    assert len({Block(1), Block(1)}) == 2


def test_a_block_has_no_room_for_anything_else() -> None:
    """A pool has many thousands of them."""
    assert not hasattr(Block(1), "__dict__")


def test_the_queue_starts_in_the_order_given() -> None:
    queue = FreeQueue(Block(i) for i in (4, 2, 9))
    assert ids_of(queue) == (4, 2, 9)
    assert len(queue) == 3


def test_taking_nothing_takes_nothing() -> None:
    queue = FreeQueue([Block(1), Block(2)])
    assert queue.take(0) == []
    assert ids_of(queue) == (1, 2)


operations = st.one_of(
    st.tuples(st.just("take"), st.integers(0, 6)),
    st.tuples(st.just("head"), st.integers(0, 4)),
    st.tuples(st.just("tail"), st.integers(0, 4)),
    st.tuples(st.just("remove"), st.integers(0, 99)),
)


def held(blocks: list[Block], n: int) -> list[Block]:
    """The `n` blocks that left the queue last, taken out of that list."""
    given_back, blocks[:] = (
        blocks[len(blocks) - min(n, len(blocks)) :],
        blocks[: -n or None],
    )
    return given_back


@FIXED
@given(st.integers(1, 9), st.lists(operations, max_size=40))
def test_the_queue_is_a_plain_list(size: int, todo: list[tuple[str, int]]) -> None:
    """Rule 2 and 3, whatever is done in whatever order. As in the pool, blank blocks
    go to the head, remembered ones to the tail, and only the latter leave the middle,
    where they leave a stale entry behind.
    """
    blocks = [Block(i) for i in range(1, size + 1)]
    queue, plain = FreeQueue(blocks), list(blocks)
    out: list[Block] = []
    for what, n in todo:
        match what:
            case "take":
                n = min(n, len(plain))
                taken, plain = plain[:n], plain[n:]
                assert queue.take(n) == taken
                for block in taken:
                    block.block_hash = None
                out += taken
            case "head":
                back = held(out, n)
                queue.stack.extend(reversed(back))
                plain = back + plain
            case "tail":
                back = held(out, n)
                for block in back:
                    block.block_hash = BlockHash(sha256(b"%d" % block.block_id), b"")
                queue.put_tail(back)
                plain = plain + back
            case "remove":
                named: list[Any] = [b for b in plain if b.block_hash is not None]
                if named:
                    found = named[n % len(named)]
                    found.num_stale += 1
                    queue.num_stale += 1
                    plain.remove(found)
                    found.block_hash = None
                    out.append(found)
        assert list(queue) == plain
        assert len(queue) == len(plain)


def test_stale_entries_do_not_pile_up() -> None:
    """One block found and freed 20,000 times, with nobody else taking any."""
    pool = BlockPool(4)
    blocks = pool.get_new_blocks(3)
    pool.cache_blocks(blocks, [BlockHash(b"%d" % i) for i in range(3)])
    pool.free_blocks(blocks)
    for i in range(20_000):
        pool.touch(blocks[:1])
        pool.free_blocks(blocks[:1])
        assert len(pool.free_queue) == 3, i
    assert len(pool.free_queue.line) < 1_100
    assert ids_of(pool.free_queue) == (2, 3, 1)
    assert pool.get_new_blocks(3) == [blocks[1], blocks[2], blocks[0]]
    assert [block.num_stale for block in blocks] == [0, 0, 0]
