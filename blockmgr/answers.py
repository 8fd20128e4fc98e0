"""What the manager answers: whether there was room, and how full the pool is.

In vLLM: `allocate_slots` gives the new blocks or None, and version 0.6.3 had
`AllocStatus` (OK, LATER, NEVER) in `vllm/core/interfaces.py`. Ours says both at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from blockmgr.block import Block, ids_of


class Status(StrEnum):
    """What the manager answers when it is asked for room.

    LATER: not now, but it fits once others have left. NEVER: it can't fit into this
    pool even alone, so waiting for it would block everybody behind it for ever.
    """

    OK = "OK"
    LATER = "LATER"
    NEVER = "NEVER"


class Allocation(NamedTuple):
    """The answer to a call that asks for room. True exactly when it was granted.

    `hits` were found in the prefix cache and are shared, `new` were taken, in the order
    of the table; `hit_blocks` and `new_blocks` are their ids. `needed` is the number of
    free blocks the call required, headroom included, and `free` the number there were
    (0 if none was needed): `needed > free` is why an answer is not OK.

    `copies` are (source, destination) pairs of blocks that the storage must copy before
    anything else is read or written: within the pool after an append into a shared
    block, from the pool to the host after `swap_out`, back after `swap_in`.
    """

    status: Status
    hits: Sequence[Block] = ()
    new: Sequence[Block] = ()
    num_cached_tokens: int = 0
    num_scheduled_tokens: int = 0
    needed: int = 0
    free: int = 0
    copies: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        return self.status is Status.OK

    @property
    def hit_blocks(self) -> tuple[int, ...]:
        """The ids of `hits`."""
        return ids_of(self.hits)

    @property
    def new_blocks(self) -> tuple[int, ...]:
        """The ids of `new`."""
        return ids_of(self.new)

    def __repr__(self) -> str:
        fields = self._asdict() | {"hits": self.hit_blocks, "new": self.new_blocks}
        told = (f"{name}={value}" for name, value in fields.items() if value)
        return f"Allocation({', '.join(told)})"


class Stats(NamedTuple):
    """Gauges and counters. The three gauges add up to the usable blocks.

    `live` blocks are in use; `cached` ones are free but still remembered; `empty` ones
    are free and blank. Both of the latter can be given out, so a pool full of `cached`
    blocks is not a leak. `queried_tokens` and `hit_tokens` count admitted prompts; a
    resume is not counted (rule 12).
    """

    usable: int
    live: int
    cached: int
    empty: int
    evictions: int
    queried_tokens: int
    hit_tokens: int

    @property
    def allocatable(self) -> int:
        """Blocks that can be given out now."""
        return self.cached + self.empty

    @property
    def hit_rate(self) -> float:
        """Share of the admitted prompt tokens that were found in the cache."""
        return self.hit_tokens / self.queried_tokens if self.queried_tokens else 0.0
