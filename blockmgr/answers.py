"""What the manager answers: whether there was room, and how full the pool is.

In vLLM: `allocate_slots` gives the new blocks or None, and version 0.6.3 had
`AllocStatus` (OK, LATER, NEVER) in `vllm/core/interfaces.py`. Ours says both at once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


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

    `hit_blocks` were found in the prefix cache and are shared, `new_blocks` were taken
    (ids, in table order). `needed` is the number of free blocks the call required,
    headroom included, and `free` the number there were: `needed > free` is why the
    answer is not OK.
    """

    status: Status
    hit_blocks: tuple[int, ...] = ()
    new_blocks: tuple[int, ...] = ()
    num_cached_tokens: int = 0
    num_scheduled_tokens: int = 0
    needed: int = 0
    free: int = 0

    def __bool__(self) -> bool:
        return self.status is Status.OK


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
