"""A sequence: one request as the block manager sees it.

In vLLM: the part of `Request` in `vllm/v1/request.py` that the manager needs, and the
table that `KVCacheManager` keeps for it (release 0.33).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from enum import StrEnum

from blockmgr.block import Block, BlockHash, ids_of
from blockmgr.errors import InvalidRequest
from blockmgr.prefix import NO_EXTRA_KEYS, ExtraKeys


class SequenceStatus(StrEnum):
    """Whether a sequence holds blocks. vLLM's `RequestStatus` has more, for more parts
    of the server; these two are what the block manager can tell apart."""

    RUNNING = "running"
    PREEMPTED = "preempted"


class Sequence:
    """One request as the manager sees it: its tokens, their hashes, its block table.

    `token_ids` is a C array of unsigned 64-bit integers: it refuses anything that is no
    token id, and gives the bytes that are hashed. The first `num_computed_tokens` of
    them have a slot. `blocks` is the table; the first `num_cached_blocks` of them are
    registered in the prefix cache.
    """

    __slots__ = (
        "block_hashes",
        "blocks",
        "extra",
        "num_cached_blocks",
        "num_computed_tokens",
        "seq_id",
        "status",
        "token_ids",
    )

    def __init__(
        self, seq_id: str, token_ids: array[int], extra: ExtraKeys = NO_EXTRA_KEYS
    ) -> None:
        self.seq_id = seq_id
        self.token_ids = token_ids
        self.extra = extra
        self.block_hashes: list[BlockHash] = []
        self.blocks: list[Block] = []
        self.num_computed_tokens = 0
        self.num_cached_blocks = 0
        self.status = SequenceStatus.RUNNING

    def __repr__(self) -> str:
        return (
            f"Sequence({self.seq_id!r}, {len(self.token_ids)} tokens, "
            f"blocks={list(self.block_ids)})"
        )

    @property
    def block_ids(self) -> tuple[int, ...]:
        """The block table as ids, logical block 0 first."""
        return ids_of(self.blocks)


def pack_tokens(token_ids: Iterable[int]) -> array[int]:
    """Token ids as a C array, every one checked.

    Raises `InvalidRequest` for anything but whole numbers from 0 to 2**64 - 1.
    """
    if isinstance(token_ids, (str, bytes, bytearray)):
        raise InvalidRequest(
            "token ids are whole numbers, not text: turn the text into tokens first"
        )
    try:
        return array("Q", token_ids)
    except (TypeError, OverflowError) as error:
        raise InvalidRequest(
            f"token ids are whole numbers from 0 up, in a list: {error}"
        ) from None
