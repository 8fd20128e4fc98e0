"""How many blocks of real requests would a pool of this size have found again?

Some traces name the blocks of each prompt, so the real pool can serve them without any
tokens: look the prompt up, touch what is found, take the rest, register it, and free it
all again, tail first. What the pool then remembers is decided by its free queue alone,
which is least recently used (LRU) first.

Three things are simpler than in a server, and the same in the published curves for
such traces: one request is served at a time, what it generates is not kept, and a
prompt that is cached to its end counts as found to its end (a server computes at least
its last token, rule 8). Mooncake names a prompt's last block even if it is only partly
filled; found again, it counts for the tokens that are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from blockmgr.block import BlockHash
from blockmgr.errors import InvalidRequest
from blockmgr.pool import BlockPool
from blockmgr.workloads import MOONCAKE_BLOCK_SIZE

POLICIES = ("lru",)
"""Orders of eviction that can be simulated. LRU is what the pool itself does."""


class NamedBlocks(Protocol):
    """What a trace must say of a request: `MooncakeRequest` and `AgentRequest` do."""

    @property
    def input_length(self) -> int:
        """Tokens of the prompt."""

    @property
    def hash_ids(self) -> tuple[int, ...]:
        """Names of its blocks: equal content and equal start, equal name."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a pool of `num_blocks` usable blocks did with a trace.

    `blocks` and `tokens` are what all prompts asked for, `hit_blocks` and `hit_tokens`
    what was found at their starts. `too_long` requests had more blocks than the pool:
    only their first `num_blocks` blocks could be kept.
    """

    num_blocks: int
    requests: int
    too_long: int
    blocks: int
    tokens: int
    hit_blocks: int
    hit_tokens: int
    evictions: int

    @property
    def hit_rate(self) -> float:
        """Share of the prompts' tokens that need not be computed, 0.0 to 1.0."""
        return self.hit_tokens / self.tokens


def simulate(
    requests: Sequence[NamedBlocks],
    num_blocks: int,
    progress: Callable[[int], object] = lambda done: None,
    *,
    block_size: int = MOONCAKE_BLOCK_SIZE,
) -> Simulation:
    """Serve every request in order through a pool of `num_blocks` usable blocks.

    `block_size` is the number of tokens in a block of the trace. `progress` is told the
    number of requests served, now and then. Raises `InvalidRequest` if `num_blocks` is
    below 1 or there are no requests.
    """
    if num_blocks < 1 or not requests:
        raise InvalidRequest(
            f"a simulation needs at least 1 block and 1 request, "
            f"got {num_blocks} blocks and {len(requests)} requests"
        )
    blocks = sum(len(request.hash_ids) for request in requests)
    # A pool with room for all that ever comes evicts nothing: a larger one is the same.
    # A name's digest is the trace's own id, so there is no more content to compare.
    pool = BlockPool(min(num_blocks, blocks) + 1, compare_content=False)
    names: dict[int, BlockHash] = {}
    partly: dict[int, int] = {}
    too_long = hit_blocks = hit_tokens = 0
    for done, request in enumerate(requests):
        if done % 256 == 0:
            progress(done)
        known = [names.get(i) or _name(names, i) for i in request.hash_ids]
        hits = _serve(pool, known)
        hit_blocks += hits
        hit_tokens += _tokens_found(request, hits, block_size, partly)
        too_long += len(request.hash_ids) > num_blocks
    progress(len(requests))
    return Simulation(
        num_blocks,
        len(requests),
        too_long,
        blocks,
        sum(request.input_length for request in requests),
        hit_blocks,
        hit_tokens,
        pool.num_evictions,
    )


def _serve(pool: BlockPool, names: list[BlockHash]) -> int:
    """One prompt from arrival to end; the number of blocks that were found."""
    hits = pool.get_cached_blocks(names, len(names))
    names = names[: pool.num_usable_blocks]
    pool.touch(hits)  # before taking, or a block just found could be overwritten
    new = pool.get_new_blocks(len(names) - len(hits))
    pool.cache_blocks(new, names[len(hits) :])
    pool.free_blocks((hits + new)[::-1])
    return len(hits)


def _tokens_found(
    request: NamedBlocks, hits: int, block_size: int, partly: dict[int, int]
) -> int:
    """Tokens in the first `hits` blocks that were there. `partly` knows how many there
    are in a block that a prompt ended in, and learns what this prompt adds."""
    ids, length = request.hash_ids, request.input_length
    found = min(hits * block_size, length)
    if not partly and len(ids) * block_size <= length:
        return found  # every block is full, and always was
    for place, hash_id in enumerate(ids):
        own = min(length - place * block_size, block_size)
        there = partly.get(hash_id, block_size)
        if place < hits:
            found -= max(own - there, 0)
            own = max(own, there)
        if own < block_size:
            partly[hash_id] = own
        elif there < block_size:
            del partly[hash_id]
    return found


def _name(names: dict[int, BlockHash], hash_id: int) -> BlockHash:
    """A block hash that stands for the trace's own, made when it is new."""
    name = names[hash_id] = BlockHash(b"%d" % hash_id)
    return name
