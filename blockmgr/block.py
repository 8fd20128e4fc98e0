"""A block, the name of its content, and the queue in which free blocks wait.

A block is room for the K and V of `block_size` tokens. Here it is only bookkeeping:
a number, a count of users, and a name. The bytes lie in `storage.py`.

In vLLM: `KVCacheBlock` and `FreeKVCacheBlockQueue` in `vllm/v1/core/kv_cache_utils.py`
(release 0.33). vLLM's queue is a linked list through the blocks. Ours is two containers
of the standard library, which are faster in Python and hold the same order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

NULL_BLOCK_ID = 0
"""Block 0 stands in tables where nothing is stored. It is never given out or freed."""


class BlockHash(NamedTuple):
    """The name of a full block: the digest, and exactly what was hashed.

    `content` = the block's tokens, the SHA-256 of its parent's content and its extra
    keys, packed. It is compared on every hit, so a colliding digest costs a hit and
    never gives a wrong one.
    """

    digest: bytes
    content: bytes

    def hex(self) -> str:
        """The digest as hex digits, for people."""
        return self.digest.hex()


class Block:
    """One physical block.

    `ref_cnt` is the number of tables that hold the block; 0 means free. `block_hash`
    names its content once it is full and registered in the prefix cache, and **stays
    when the block becomes free**: that is how a free block can still be found again.
    Blocks compare by identity: there is one object for each block of the pool.
    """

    __slots__ = ("block_hash", "block_id", "ref_cnt")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_cnt = 0
        self.block_hash: BlockHash | None = None

    @property
    def is_null(self) -> bool:
        """Whether this is the placeholder, block 0."""
        return self.block_id == NULL_BLOCK_ID

    def __repr__(self) -> str:
        name = f", hash={self.block_hash.hex()[:4]}" if self.block_hash else ""
        return f"Block({self.block_id}, ref_cnt={self.ref_cnt}{name})"


def ids_of(blocks: Iterable[Block]) -> tuple[int, ...]:
    """The numbers of some blocks, in their order."""
    return tuple(block.block_id for block in blocks)


class FreeQueue:
    """The free blocks in the order in which they will be overwritten (rule 2).

    The queue has two parts. In front a **stack** of blank blocks: nobody can find
    their content again, so they are given out first, the newest first. Behind it a
    **line** of remembered blocks, in the order in which they were freed: the one that
    waited longest is overwritten first (LRU), and a cache hit can take a block out of
    the middle. A dict gives both at a cost that does not depend on the pool's size.
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._stack = list(blocks)[::-1]  # head of the queue = end of the list
        self._line: OrderedDict[Block, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._stack) + len(self._line)

    def __iter__(self) -> Iterator[Block]:
        """From head to tail."""
        return chain(reversed(self._stack), self._line)

    def take(self, n: int) -> list[Block]:
        """Remove `n` blocks from the head; the caller knows that there are as many."""
        if n == 0:  # a slice from -0 would be the whole stack
            return []
        taken = self._stack[-n:]
        del self._stack[-n:]
        taken.reverse()
        for _ in range(n - len(taken)):
            taken.append(self._line.popitem(last=False)[0])
        return taken

    def put_head(self, blocks: list[Block]) -> None:
        """Put blocks in front, `blocks[0]` becoming the new head."""
        self._stack.extend(reversed(blocks))

    def put_tail(self, blocks: list[Block]) -> None:
        """Put blocks at the end, in the order given."""
        for block in blocks:
            self._line[block] = None

    def remove(self, block: Block) -> None:
        """Take a remembered block out of the middle, because somebody found it."""
        del self._line[block]
