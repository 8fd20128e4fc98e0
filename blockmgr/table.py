"""The block table: from a token's position to the slot that holds its K and V.

A sequence sees its tokens in a row, cut into **logical blocks** of `block_size`. The
table says in which **physical block** each logical block lies. Physical blocks may lie
anywhere and in any order; the order lives here and nowhere else:

    slot = table[position // block_size] * block_size + position % block_size

In vLLM: `BlockTable` in `vllm/v1/worker/block_table.py` holds the same table on the
device, and `compute_slot_mapping` there does this arithmetic (release 0.33).
"""

from __future__ import annotations

from typing import NamedTuple

from blockmgr.checks import check_count
from blockmgr.errors import InvalidRequest


class Address(NamedTuple):
    """Where one token lies, step by step from its position to its slot."""

    position: int
    logical_block: int
    offset: int
    block_id: int
    slot: int


def address(table: tuple[int, ...], block_size: int, position: int) -> Address:
    """Look one position up in a table of block ids.

    Raises `InvalidRequest` if the table has no block for that position.
    """
    check_count("position", position, 0)
    if position >= len(table) * block_size:
        raise InvalidRequest(
            f"position {position} is outside this table: {len(table)} blocks of "
            f"{block_size} hold the first {len(table) * block_size} positions"
        )
    logical_block, offset = divmod(position, block_size)
    block_id = table[logical_block]
    return Address(
        position, logical_block, offset, block_id, block_id * block_size + offset
    )
