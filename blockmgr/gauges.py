"""Three gauges of a pool: blocks in use, free but remembered, free and blank.

Whoever looks at one gauge only is easily misled. "In use" falls to 0 when the last
request has ended, though most blocks still remember something. "Not blank" rises until
the pool is full and then stays there, which looks like a leak and is a cache. Together
they tell the truth: a leak is what keeps **in use** from falling.

`serve_trace` reads the gauges of the real pool while it serves a Mooncake trace.

In vLLM: `BlockPool.get_usage` in `vllm/v1/core/block_pool.py` (release 0.33), exported
as `vllm:kv_cache_usage_perc`, is the first gauge alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from blockmgr.block import Block, BlockHash
from blockmgr.checks import check_count
from blockmgr.errors import InvalidRequest
from blockmgr.events import EventLog, Snapshot
from blockmgr.manager import BlockManager
from blockmgr.pool import BlockPool
from blockmgr.workloads import MOONCAKE_BLOCK_SIZE, MooncakeRequest

IDLE_READINGS = 10
"""Readings that `serve_trace` takes when everybody has left."""

MS_PER_TOKEN = 25.0
"""How long a request stays for each token that it generates: our assumption."""


class Gauges(NamedTuple):
    """How many usable blocks are in each of three states. They add up to all of them.

    `live` blocks stand in a table. `cached` ones are free and can still be found.
    `empty` ones are free and blank.
    """

    live: int
    cached: int
    empty: int

    @property
    def usable(self) -> int:
        """All of them: every block of the pool but the null block."""
        return self.live + self.cached + self.empty

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0.0 to 1.0 (rule 1)."""
        return self.live / self.usable

    @property
    def filled(self) -> float:
        """Share of blocks that hold something, 0.0 to 1.0: what a gauge shows that
        takes a remembered block for one in use."""
        return (self.live + self.cached) / self.usable


def gauges_of(source: BlockManager | BlockPool | Snapshot) -> Gauges:
    """Read the gauges of a manager, a pool or a snapshot. Costs a walk over its blocks.

    Raises `InvalidRequest` for anything else.
    """
    if isinstance(source, Snapshot):
        cached = sum(source.block_hash[b] is not None for b in source.free_queue)
        return Gauges(source.num_used, cached, source.num_free - cached)
    pool = source.pool if isinstance(source, BlockManager) else source
    if not isinstance(pool, BlockPool):
        raise InvalidRequest(
            f"gauges are those of a manager, pool or snapshot, not {source!r}"
        )
    free = pool.num_free_blocks
    cached = sum(not b.ref_cnt and b.block_hash is not None for b in pool.blocks)
    return Gauges(pool.num_usable_blocks - free, cached, free - cached)


def gauges_of_run(log: EventLog) -> list[Gauges]:
    """The gauges at the start of a recorded run and after each of its events."""
    return [gauges_of(state) for state in log.snapshots()]


# --- over a trace ---------------------------------------------------------------------


class Reading(NamedTuple):
    """The gauges at one moment, `seconds` after the trace begins."""

    seconds: float
    gauges: Gauges


def serve_trace(
    requests: Sequence[MooncakeRequest],
    num_blocks: int,
    *,
    every: float = 30.0,
    ms_per_token: float = MS_PER_TOKEN,
) -> list[Reading]:
    """Serve a Mooncake trace by its clock from a pool of `num_blocks` usable blocks,
    and read the gauges `every` so many seconds, from its start until everybody has
    left, and a few times more.

    A request comes at its timestamp, or when it is its turn and there is room. It takes
    the blocks of its prompt and of its answer at once and stays for `ms_per_token`
    times its generated tokens. The trace does not tell how long it really stayed, nor
    what was in the answers, which therefore stay blank.

    Raises `InvalidRequest` for a request that can't fit, and for sizes below 1.
    """
    check_count("num_blocks", num_blocks, 1)
    if not (every > 0 and ms_per_token >= 0):
        raise InvalidRequest("expected a time of more than 0 s between two readings")
    desk = _Desk(BlockPool(num_blocks + 1), every * 1000, ms_per_token)
    for request in requests:
        desk.serve(request)
    return desk.close()


class _Desk:
    """Where requests come and go, by a clock in milliseconds."""

    def __init__(self, pool: BlockPool, every: float, ms_per_token: float) -> None:
        self.pool, self.every, self.ms_per_token = pool, every, ms_per_token
        self.now = 0.0
        self.readings: list[Reading] = []
        self.staying: list[tuple[float, int, list[Block]]] = []
        self.names: dict[int, BlockHash] = {}
        self.served = 0

    def serve(self, request: MooncakeRequest) -> None:
        """Let one request in, when it comes or when there is room."""
        size = MOONCAKE_BLOCK_SIZE
        count = -(-(request.input_length + request.output_length) // size)
        if count > self.pool.num_usable_blocks:
            usable = self.pool.num_usable_blocks
            raise InvalidRequest(f"{count} blocks can't come from a pool of {usable}")
        self.go_to(max(request.timestamp, self.now))
        names = [self.name(i) for i in request.hash_ids[: request.input_length // size]]
        # At least one token must be computed (rule 8).
        limit = (request.input_length - 1) // size
        hits = self.pool.get_cached_blocks(names, limit)
        while count - len(hits) + _revived(hits) > self.pool.num_free_blocks:
            self.go_to(self.staying[0][0])
            hits = self.pool.get_cached_blocks(names, limit)
        self.pool.touch(hits)
        new = self.pool.get_new_blocks(count - len(hits))
        self.pool.cache_blocks(new[: len(names) - len(hits)], names[len(hits) :])
        end = self.now + request.output_length * self.ms_per_token
        self.served += 1
        heapq.heappush(self.staying, (end, self.served, hits + new))

    def go_to(self, when: float) -> None:
        """Let the clock go on, and those leave whose time has come."""
        while self.staying and self.staying[0][0] <= when:
            end, _, blocks = heapq.heappop(self.staying)
            self.read_until(end)
            self.pool.free_blocks(blocks[::-1])
            self.now = end
        self.read_until(when)
        self.now = when

    def read_until(self, when: float) -> None:
        """Read the gauges at each moment that comes before `when`: nothing has changed
        since the last event."""
        while (moment := len(self.readings) * self.every) < when:
            self.readings.append(Reading(moment / 1000, gauges_of(self.pool)))

    def close(self) -> list[Reading]:
        """Let everybody go, read on for a while, and give all readings."""
        last = max((end for end, _, _ in self.staying), default=self.now)
        self.go_to(last)
        self.read_until((len(self.readings) + IDLE_READINGS - 0.5) * self.every)
        return self.readings

    def name(self, hash_id: int) -> BlockHash:
        """A block hash that stands for the trace's own: one object for each id."""
        if hash_id not in self.names:
            content = b"%d" % hash_id
            self.names[hash_id] = BlockHash(content, content)
        return self.names[hash_id]


def _revived(hits: Iterable[Block]) -> int:
    """Hits that are free now: they leave the queue too (rule 9)."""
    return sum(not block.ref_cnt for block in hits)
