"""A block, the name of its content, and the queue in which free blocks wait.

A block is room for the K and V of `block_size` tokens. Here it is only bookkeeping:
a number, a count of users, and a name. The bytes lie in `storage.py`.

In vLLM: `KVCacheBlock` and `FreeKVCacheBlockQueue` in `vllm/v1/core/kv_cache_utils.py`
(release 0.33). vLLM's queue is a linked list through the blocks. Ours is two containers
of the standard library, which are faster in Python and hold the same order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

NULL_BLOCK_ID = 0
"""Block 0 stands in tables where nothing is stored. It is never given out or freed."""


class BlockHash(NamedTuple):
    """The name of a full block: the digest, and what else tells it from others.

    With a hash that is not cryptographic, `content` is exactly what was hashed: the
    block's tokens, its parent's SHA-256 and its extra keys, packed. It is compared on
    every hit, so a colliding digest costs a hit and never gives a wrong one. SHA-256
    needs no such help, and then it is empty. `group` says whose K and V they are (see
    `groups.py`): layers of another kind have other values for the same tokens.
    """

    digest: bytes
    content: bytes = b""
    group: int = 0

    def in_group(self, group: int) -> BlockHash:
        """The name of the same tokens in another group. No name of this one is it."""
        if group == 0:
            return self
        return BlockHash(self.digest + bytes([group]), self.content, group)

    def hex(self) -> str:
        """The digest as hex digits, for people; `:1` marks the second group."""
        if self.group:
            return f"{self.digest[:-1].hex()}:{self.group}"
        return self.digest.hex()


class Block:
    """One physical block.

    `ref_cnt` is the number of tables that hold the block; 0 means free. `block_hash`
    names its content once it is full and registered in the prefix cache, and **stays
    when the block becomes free**: that is how a free block can still be found again.
    Blocks compare by identity: there is one object for each block of the pool.
    `num_stale` belongs to the free queue.
    """

    __slots__ = ("block_hash", "block_id", "num_stale", "ref_cnt")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_cnt = 0
        self.block_hash: BlockHash | None = None
        self.num_stale = 0

    @property
    def is_null(self) -> bool:
        """Whether this is the placeholder, block 0."""
        return self.block_id == NULL_BLOCK_ID

    def __repr__(self) -> str:
        name = f", hash={self.block_hash.hex()[:4]}" if self.block_hash else ""
        return f"Block({self.block_id}, ref_cnt={self.ref_cnt}{name})"


def ids_of(blocks: Iterable[Block]) -> tuple[int, ...]:
    """The numbers of some blocks, in their order."""
    return tuple([block.block_id for block in blocks])  # quicker than a generator


class FreeQueue:
    """The free blocks in the order in which they will be overwritten (rule 2).

    The queue has two parts. In front a **stack** of blank blocks: nobody can find
    their content again, so they are given out first, the newest first. Behind it a
    **line** of remembered blocks, in the order in which they were freed: the one that
    waited longest is overwritten first (LRU).

    A cache hit takes a block out of the middle of the line, and no container of Python
    does that quickly. So its entry stays where it is, and the block counts that it left
    one behind (`num_stale`). Whoever comes to a stale entry passes over it. Entries of
    one block stand in the order of time, so the stale ones are those in front.
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.stack = list(blocks)[::-1]  # the head of the queue is the end of the list
        self.line: deque[Block] = deque()
        self.num_stale = 0

    def __len__(self) -> int:
        return len(self.stack) + len(self.line) - self.num_stale

    def __iter__(self) -> Iterator[Block]:
        """From head to tail."""
        yield from reversed(self.stack)
        passed: Counter[Block] = Counter()
        for block in self.line:
            passed[block] += 1
            if passed[block] > block.num_stale:
                yield block

    def take(self, n: int) -> list[Block]:
        """Remove `n` blocks from the head; the caller knows that there are as many."""
        taken: list[Block] = []
        if self.stack and n:  # (a slice from -0 would be the whole stack)
            taken = self.stack[-n:][::-1]
            del self.stack[-n:]
        if self.num_stale > len(self.line) // 2:
            self._sweep()
        while len(taken) < n:
            block = self.line.popleft()
            if block.num_stale:
                block.num_stale -= 1
                self.num_stale -= 1
            else:
                taken.append(block)
        return taken

    def put_tail(self, blocks: list[Block]) -> None:
        """Put remembered blocks at the end of the line, in the order given."""
        self.line += blocks
        if self.num_stale > 4 * len(self) + 1000:
            self._sweep()

    def _sweep(self) -> None:
        """Throw all stale entries away. It happens when most are stale, so that for
        each of these only a few entries are looked at."""
        line = []
        for block in self.line:
            if block.num_stale:
                block.num_stale -= 1
            else:
                line.append(block)
        self.line, self.num_stale = deque(line), 0
