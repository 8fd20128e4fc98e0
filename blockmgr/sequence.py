"""A sequence: one request as the block manager sees it.

In vLLM: the part of `Request` in `vllm/v1/request.py` that the manager needs, and the
tables that `KVCacheManager` keeps for it (release 0.33).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from enum import StrEnum

from blockmgr.block import Block, BlockHash, ids_of
from blockmgr.errors import InvalidRequest
from blockmgr.groups import FullAttention
from blockmgr.prefix import NO_EXTRA_KEYS, ExtraKeys


class SequenceStatus(StrEnum):
    """Where the K and V of a sequence are: in the pool, nowhere, or on the host.

    vLLM's `RequestStatus` has more, for more parts of the server.
    """

    RUNNING = "running"
    PREEMPTED = "preempted"
    SWAPPED = "swapped"


class Table:
    """A block table: the blocks of one sequence in one group, logical block 0 first.

    The first `num_cached_blocks` of them are registered in the prefix cache.
    """

    __slots__ = ("blocks", "group", "num_cached_blocks")

    def __init__(self, group: FullAttention, blocks: Iterable[Block] = ()) -> None:
        self.group = group
        self.blocks = list(blocks)
        self.num_cached_blocks = 0

    def drop(self, skipped: int, null: Block) -> list[Block]:
        """Put null in place of the first `skipped` blocks, and say which these were:
        from high to low, down to the first that is null already (rule 15)."""
        dropped = []
        for i in reversed(range(min(skipped, len(self.blocks)))):
            if self.blocks[i] is null:
                break
            dropped.append(self.blocks[i])
            self.blocks[i] = null
        return dropped

    def held(self) -> list[Block]:
        """The blocks without the null block, tail first: the order of giving back."""
        held = self.blocks[::-1]
        if held and not held[-1].block_id:  # null blocks stand in front
            return [block for block in held if block.block_id]
        return held

    def logical_ids(self, length: int, block_size: int) -> tuple[int, ...]:
        """The physical block of each logical block: `length` of them, or all there are.

        Only a ring has more logical blocks than physical ones.
        """
        ids = ids_of(self.blocks)
        places = self.group.places(len(ids), length, len(ids), block_size)
        return ids + tuple([ids[place] for place in places])


class Sequence:
    """One request as the manager sees it: its tokens, their hashes, its block tables.

    `token_ids` is a C array of unsigned 64-bit integers: it refuses anything that is no
    token id, and gives the bytes that are hashed. The first `num_computed_tokens` of
    them have a slot. There is a table for each group of layers (see `groups.py`).
    Up to position `short_until`, a token can be appended and there is nothing to
    decide: the last block has room for it, and nobody shares it.
    """

    def __init__(
        self,
        seq_id: str,
        token_ids: array[int],
        extra: ExtraKeys = NO_EXTRA_KEYS,
        groups: Iterable[FullAttention] = (FullAttention(),),
    ) -> None:
        self.seq_id = seq_id
        self.token_ids = token_ids
        self.extra = extra
        self.block_hashes: list[BlockHash] = []
        self.tables = [Table(group) for group in groups]
        self.num_computed_tokens = 0
        self.short_until = -1
        self.status = SequenceStatus.RUNNING

    def __repr__(self) -> str:
        return (
            f"Sequence({self.seq_id!r}, {len(self.token_ids)} tokens, "
            f"blocks={list(ids_of(self.tables[0].blocks))})"
        )

    def copy(self, seq_id: str, num_blocks: int) -> Sequence:
        """A second sequence with the same tokens, in the first `num_blocks` blocks of
        each table: those that have something in them."""
        child = Sequence(seq_id, self.token_ids[:], self.extra, ())
        child.block_hashes = self.block_hashes[:]
        for table in self.tables:
            child.tables.append(Table(table.group, table.blocks[:num_blocks]))
            child.tables[-1].num_cached_blocks = table.num_cached_blocks
        child.num_computed_tokens = self.num_computed_tokens
        return child


def pack_tokens(token_ids: Iterable[int]) -> array[int]:
    """Token ids as a C array, every one checked.

    Raises `InvalidRequest` for anything but whole numbers from 0 to 2**64 - 1.
    """
    if type(token_ids) is not list and isinstance(token_ids, (str, bytes, bytearray)):
        raise InvalidRequest(
            "token ids are whole numbers, not text: turn the text into tokens first"
        )
    try:
        return array("Q", token_ids)
    except (TypeError, OverflowError) as error:
        raise InvalidRequest(
            f"token ids are whole numbers from 0 up, in a list: {error}"
        ) from None
