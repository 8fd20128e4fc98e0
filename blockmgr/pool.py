"""The pool: every block there is, who is free, and what the free ones remember.

All changes to reference counts, to the free queue and to the prefix cache go through
the four verbs of this file: **take** (`get_new_blocks`), **touch**, **free**
(`free_blocks`) and **register** (`cache_blocks`).

In vLLM: `BlockPool` in `vllm/v1/core/block_pool.py` (release 0.33), same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import length_hint

from blockmgr import events
from blockmgr.block import NULL_BLOCK_ID, Block, BlockHash, FreeQueue, ids_of
from blockmgr.checks import check_count
from blockmgr.errors import InvalidFree, InvalidRequest, OutOfBlocks
from blockmgr.prefix import PrefixCache


class BlockPool:
    """A fixed number of blocks, made once. Nothing is ever added or thrown away.

    Block 0 is the null block, so `num_blocks - 1` are usable (rule 1). A block is free
    exactly when its `ref_cnt` is 0, and then it stands in the free queue once.

    `compare_content`: see `PrefixCache`. `changes` is None, or a list that collects
    every change as it is made.
    """

    def __init__(
        self,
        num_blocks: int,
        enable_caching: bool = True,
        compare_content: bool = True,
    ) -> None:
        check_count("num_blocks (one is the null block)", num_blocks, 2)
        self.blocks = [Block(block_id) for block_id in range(num_blocks)]
        self.null_block = self.blocks[NULL_BLOCK_ID]
        self.free_queue = FreeQueue(self.blocks[1:])
        self.cache = PrefixCache(compare_content)
        self.enable_caching = enable_caching
        self.num_evictions = 0
        self.changes: list[events.Change] | None = None

    def __repr__(self) -> str:
        return f"BlockPool({len(self.blocks)} blocks, {self.num_free_blocks} free)"

    @property
    def num_usable_blocks(self) -> int:
        """Blocks that can be given out: all but the null block."""
        return len(self.blocks) - 1

    @property
    def num_free_blocks(self) -> int:
        """Blocks in the free queue, those with a remembered content included."""
        queue = self.free_queue
        return len(queue.stack) + len(queue.line) - queue.num_stale

    @property
    def usage(self) -> float:
        """Share of usable blocks in use: 0.0 is idle, 1.0 is full."""
        return 1 - self.num_free_blocks / self.num_usable_blocks

    # --- take -----------------------------------------------------------------------

    def get_new_blocks(self, n: int) -> list[Block]:
        """Take `n` blocks from the head of the free queue, each with `ref_cnt` 1.

        A block that still remembered something forgets it now. This is the
        **eviction**, and the only place where it happens (rule 4).

        Raises `InvalidRequest` for n < 0 and `OutOfBlocks` if fewer are free.
        """
        stack = self.free_queue.stack
        if n == 1 and stack and type(n) is int and self.changes is None:
            block = stack.pop()  # the shortest way for a sequence that grows
            block.ref_cnt = 1
            return [block]
        evicted: list[tuple[int, str]] = []
        if type(n) is int and 0 < n <= len(stack):  # blank ones: nothing to forget
            taken = stack[-n:]
            del stack[-n:]
            taken.reverse()
        else:
            taken, evicted = self._take_and_forget(n)
        for block in taken:
            block.ref_cnt = 1
        if self.changes is not None and taken:
            self.changes.append(events.Taken(ids_of(taken), tuple(evicted)))
        return taken

    def _take_and_forget(self, n: int) -> tuple[list[Block], list[tuple[int, str]]]:
        """Take blocks when the blank ones are not enough: also what was forgotten."""
        if type(n) is not int or n < 0:
            check_count("the number of blocks to take", n, 0)
        if n > self.num_free_blocks:
            raise OutOfBlocks(n, self.num_free_blocks)
        taken, evicted = self.free_queue.take(n), []
        for block in taken:
            if block.block_hash is not None:  # unless somebody else made it forget
                self.num_evictions += 1
                if self.changes is not None:
                    evicted.append((block.block_id, block.block_hash.hex()))
                self.cache.remove(block)
        return taken, evicted

    # --- touch ----------------------------------------------------------------------

    def touch(self, blocks: Sequence[Block]) -> int:
        """Add a reference to each block. One that was free leaves the free queue; the
        answer is how many did.

        Raises `InvalidRequest` for the null block and for a free block that remembers
        nothing: there is no content in it to share.
        """
        num_stale, wrong = 0, None
        for block in blocks:
            if not block.ref_cnt:
                if block.block_hash is None:
                    wrong = block
                block.num_stale += 1  # its entry stays behind in the queue
                num_stale += 1
            block.ref_cnt += 1
        if wrong is not None:  # take back what this call did, then complain
            for block in blocks:
                block.ref_cnt -= 1
                block.num_stale -= not block.ref_cnt
            raise InvalidRequest(
                f"{wrong!r} holds nothing that could be shared: take a block "
                "with get_new_blocks instead"
            )
        self.free_queue.num_stale += num_stale
        if self.changes is not None and blocks:
            self.changes.append(events.Touched(ids_of(blocks)))
        return num_stale

    # --- free -----------------------------------------------------------------------

    def free_blocks(self, blocks: Sequence[Block]) -> None:
        """Drop one reference of each block, in the order given: a table's tail first.

        Blocks that reach 0 become free (rule 3). Those without a hash go to the head
        of the queue, for nobody can find them again. Those with a hash go to the tail,
        and since a table is freed tail first, the last block of a cached chain is
        overwritten before the first.

        Raises `InvalidFree` for the null block and for a reference that nobody holds;
        then nothing has changed.
        """
        if self.changes is None:
            rest = iter(blocks)
            for block in rest:  # the short way: one user and no hash, as with most
                if block.ref_cnt != 1 or block.block_hash is not None:
                    for undone in blocks[: len(blocks) - length_hint(rest) - 1]:
                        undone.ref_cnt = 1
                    break
                block.ref_cnt = 0
            else:
                self.free_queue.stack.extend(blocks[::-1])  # its end is the head
                return
        blank: list[Block] = []
        remembered: list[Block] = []
        wrong = None
        for block in blocks:
            if block.ref_cnt == 1:
                block.ref_cnt = 0
                if block.block_hash is None:
                    blank.append(block)
                else:
                    remembered.append(block)
            else:
                block.ref_cnt -= 1
                if block.ref_cnt < 0:
                    wrong = block
        if wrong is not None:  # take back what this call did, then complain
            for block in blocks:
                block.ref_cnt += 1
            raise InvalidFree(_why_not_free(wrong))
        if self.changes is not None and blocks:
            change = events.Released(ids_of(blocks), ids_of(blank), ids_of(remembered))
            self.changes.append(change)
        if blank:
            blank.reverse()  # head of the queue = end of the stack
            self.free_queue.stack.extend(blank)
        if remembered:
            self.free_queue.put_tail(remembered)

    # --- register, find, forget -----------------------------------------------------

    def cache_blocks(
        self,
        blocks: Sequence[Block],
        names: Sequence[BlockHash],
        note: events.StoredNote | None = None,
    ) -> None:
        """Register full blocks under their names, so that others can find them. What
        has a name is passed over, and the null block, where a window left it.

        `note` is what a recorded change says besides (see `events.StoredNote`).
        """
        if len(blocks) != len(names):
            raise InvalidRequest(f"{len(blocks)} blocks can't have {len(names)} names")
        insert, stored = self.cache.insert, []
        for block, name in zip(blocks, names):  # noqa: B905 (as quick as can be)
            if block.block_hash is not None or not block.block_id:
                continue
            if insert(block, name) and self.changes is not None:
                stored.append((block.block_id, name.hex()))
        if stored and self.changes is not None:
            ids, hashes = zip(*stored, strict=True)
            self.changes.append(events.Stored(ids, hashes, note or events.StoredNote()))

    def get_cached_blocks(self, names: Sequence[BlockHash], limit: int) -> list[Block]:
        """The longest cached start of `names`, at most `limit` long. A pure look."""
        return self.cache.find(names, limit)

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Forget the content of these blocks. Users and queue stay (rule 14)."""
        if not isinstance(block_ids, Iterable):
            raise InvalidRequest(f"block ids come in a list, got {block_ids!r}")
        blocks = [self._usable(block_id) for block_id in block_ids]
        removed = []
        for block in blocks:
            name = self.cache.remove(block)
            if name is not None:
                removed.append((block.block_id, name.hex()))
        if self.changes is not None and removed:
            self.changes.append(events.Removed(tuple(removed)))

    def reset_prefix_cache(self) -> bool:
        """Forget everything. False, and nothing done, while any block is in use.

        The queue keeps its order (rule 13).
        """
        if self.num_free_blocks != self.num_usable_blocks:
            return False
        self.cache.clear()
        if self.changes is not None:
            self.changes.append(events.Cleared())
        return True

    def _usable(self, block_id: object) -> Block:
        if type(block_id) is not int or not 0 < block_id < len(self.blocks):
            raise InvalidRequest(
                f"block {block_id!r} is not a usable block of this pool: "
                f"choose 1 to {len(self.blocks) - 1}"
            )
        return self.blocks[block_id]


def _why_not_free(block: Block) -> str:
    if block.is_null:
        return "the null block (0) is nobody's: it can't be freed"
    return (
        f"{block!r} was given back more often than it was taken: "
        "free each reference once"
    )
