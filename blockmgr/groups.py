"""Which blocks a layer's attention can still see, and so which a sequence must hold.

Layers that see the same tokens share one block table: they are a **group**. Most models
have one group, with full attention. With a **sliding window** a token sees only the
last W tokens, so the blocks before them can go. A **hybrid** model has layers of both
kinds: two groups, two tables for each sequence, one pool.

In vLLM: `FullAttentionManager` and `SlidingWindowManager` in
`vllm/v1/core/single_type_kv_cache_manager.py` (release 0.33).
"""

from __future__ import annotations

from collections.abc import Sequence

from blockmgr.block import Block, BlockHash
from blockmgr.checks import check_count
from blockmgr.errors import InvalidRequest
from blockmgr.pool import BlockPool


class FullAttention:
    """Every token sees all before it: each block is needed until the sequence ends.

    `cacheable`: whether a full block stays as it is, so that others can share it.
    """

    cacheable = True

    def num_blocks(self, num_slots: int, block_size: int) -> int:
        """The length of a table with `num_slots` slots: the division, rounded up."""
        return -(-num_slots // block_size)

    def places(
        self, first: int, last: int, num_blocks: int, block_size: int
    ) -> Sequence[int]:
        """Where logical blocks `first..last-1` stand in a table of `num_blocks` blocks,
        as far as it has them."""
        return range(first, min(last, num_blocks))

    def num_skipped_blocks(self, num_computed: int, block_size: int) -> int:
        """Leading blocks that nobody reads once `num_computed` tokens are there."""
        return 0

    def find_hits(
        self, pool: BlockPool, names: Sequence[BlockHash], limit: int, block_size: int
    ) -> list[Block]:
        """The cached blocks to start from: from the left to the first miss (rule 8)."""
        return pool.get_cached_blocks(names, limit)


class SlidingWindow(FullAttention):
    """A token sees `window` tokens, itself included: 2 or more (rule 15).

    The null block takes the place of each block that falls out of the window, so the
    others keep their places in the table.
    """

    def __init__(self, window: int) -> None:
        check_count("window (a token sees itself and others)", window, 2)
        self.window = window

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.window})"

    def num_skipped_blocks(self, num_computed: int, block_size: int) -> int:
        """The next token sees `window - 1` before it, and no later one sees further."""
        return max(0, num_computed - self.window + 1) // block_size

    def find_hits(
        self, pool: BlockPool, names: Sequence[BlockHash], limit: int, block_size: int
    ) -> list[Block]:
        """From the right, the first run of adjacent hits that covers a window, with
        null before it. A shorter run counts if it starts at block 0: it lacks nothing.
        """
        enough = -(-(self.window - 1) // block_size)
        found, run = [pool.null_block] * limit, 0
        for i in reversed(range(limit)):
            block = pool.cache.get(names[i])
            run = run + 1 if block else 0
            found[i] = block or pool.null_block
            if run == enough:
                return found[: i + run]
        return found[:run]


def find_hits(
    groups: tuple[FullAttention, ...],
    pool: BlockPool,
    names: Sequence[BlockHash],
    limit: int,
    block_size: int,
) -> list[list[Block]]:
    """The cached blocks to start from, for each group equally many.

    Full attention searches first, the window within what that found, and then the first
    is cut to what the window found (rule 16).
    """
    hits: list[list[Block]] = []
    for i, group in enumerate(groups):
        of_group = [name.in_group(i) for name in names[:limit]] if i else names
        hits.append(group.find_hits(pool, of_group, limit, block_size))
        limit = len(hits[-1])
    return [found[:limit] for found in hits] if len(hits) > 1 else hits


def check_groups(groups: object) -> None:
    """Raise `InvalidRequest` unless one manager can serve these groups of layers."""
    kinds = [type(group) for group in groups] if isinstance(groups, tuple) else []
    one = len(kinds) == 1 and issubclass(kinds[0], FullAttention)
    if not one and kinds != [FullAttention, SlidingWindow]:
        raise InvalidRequest(
            "groups is a tuple with one kind of attention, or for a hybrid model "
            f"(FullAttention(), SlidingWindow(W)) in this order, got {groups!r}"
        )
