"""Several answers from one prompt: how much memory does sharing its blocks save?

`parallel` is parallel sampling: one prompt, n answers that have nothing to do with each
other. `beam` is beam search: n hypotheses, of which some are continued twice and others
dropped in each step. Both run on the real manager, request by request, and count in
every step the blocks that are in use beside those that n separate copies would need.

The saving is (blocks without sharing - blocks with sharing) / blocks without sharing,
as in section 6.3 of the PagedAttention paper (Kwon et al., SOSP 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from blockmgr.checks import check_count
from blockmgr.errors import InvalidRequest
from blockmgr.manager import BlockManager
from blockmgr.workloads import Lengths

BLOCK_SIZE = 16
"""Tokens in a block, as in the paper's experiment."""

PUBLISHED_PARALLEL = {2: 6.09, 4: 8.53, 6: 9.79}
PUBLISHED_BEAM = {2: 37.56, 4: 53.13, 6: 55.16}
"""Number of sequences -> per cent of blocks saved: Fig. 15 of the paper, for OPT-13B
and requests of Alpaca. The paper calls it an average, and does not say over what."""

Parents = Sequence[int]
"""For each of the next beams the place of the one that it continues."""


@dataclass(frozen=True, slots=True)
class Saving:
    """Blocks with and without sharing, summed over requests and their steps.

    `held` and `alone` sum over every state of every request: the one after its prompt,
    and one after each token of its answers. `held_at_end` and `alone_at_end` sum over
    the last states only. `copies` counts the blocks that copy-on-write has copied.
    """

    n: int
    held: int
    alone: int
    held_at_end: int
    alone_at_end: int
    copies: int

    @property
    def over_time(self) -> float:
        """Per cent of all blocks of all states that sharing saved."""
        return _percent(self.held, self.alone)

    @property
    def at_end(self) -> float:
        """Per cent that it saved when all answers were complete."""
        return _percent(self.held_at_end, self.alone_at_end)


def _percent(held: int, alone: int) -> float:
    return 100 * (alone - held) / alone if alone else 0.0


def parallel(
    requests: Iterable[Lengths],
    n: int,
    *,
    block_size: int = BLOCK_SIZE,
    share_partial: bool = True,
) -> Saving:
    """`n` answers to each prompt, all as long as the request's answer.

    The prompt's blocks are shared by fork; the last of them, if it is only partly
    filled, is copied when the answers begin to differ. Without `share_partial` only
    full blocks are shared, and each answer has its own last block from the start.

    Raises `InvalidRequest` for an `n` or a block size that is no count.
    """
    check_count("n", n, 1)
    return _summed(
        requests, n, block_size, share_partial, lambda steps: [range(n)] * steps
    )


def beam(
    requests: Iterable[Lengths],
    width: int,
    *,
    stay: float,
    seed: int,
    block_size: int = BLOCK_SIZE,
) -> Saving:
    """Beam search of `width` hypotheses, with parents drawn at random.

    No model is asked, so which beam continues which is a model of ours: in each step
    and for each place, the beam of that place goes on with probability `stay`; else
    the place is taken by a child of a beam that is drawn evenly among all. With
    `stay=1` beams never meet again, which is parallel sampling.

    Raises `InvalidRequest` for sizes or a probability that can't be.
    """
    check_count("width", width, 1)
    if not 0 <= stay <= 1:
        raise InvalidRequest(f"stay is a probability, from 0 to 1; got {stay!r}")
    rng = Random(seed)

    def drawn(steps: int) -> list[Parents]:
        return [_parents(width, stay, rng) for _ in range(steps)]

    return _summed(requests, width, block_size, True, drawn)


def _parents(width: int, stay: float, rng: Random) -> Parents:
    # Only random(): Python promises its values forever.
    return [
        place if rng.random() < stay else int(rng.random() * width)
        for place in range(width)
    ]


# --- one request on a manager of its own ----------------------------------------------


def _summed(
    requests: Iterable[Lengths],
    n: int,
    block_size: int,
    share_partial: bool,
    parents_of: Callable[[int], Sequence[Parents]],
) -> Saving:
    check_count("block_size", block_size, 1)
    held = alone = held_at_end = alone_at_end = copies = 0
    for request in requests:
        group = _Group(request, n, block_size, share_partial)
        states = [group.blocks()]
        for parents in parents_of(request.output_tokens):
            group.step(parents)
            states.append(group.blocks())
        held += sum(used for used, _ in states)
        alone += sum(logical for _, logical in states)
        held_at_end += states[-1][0]
        alone_at_end += states[-1][1]
        copies += group.copies
    return Saving(n, held, alone, held_at_end, alone_at_end, copies)


class _Group:
    """`n` sequences with one prompt, in a pool that has room for all of them."""

    def __init__(
        self, request: Lengths, n: int, block_size: int, share_partial: bool = True
    ) -> None:
        check_count("prompt_tokens", request.prompt_tokens, 1)
        self.length = request.prompt_tokens
        longest = -(-(self.length + request.output_tokens) // block_size)
        room = n * longest + 1  # and the null block
        self.manager = BlockManager(room, block_size, enable_caching=False)
        self.copies = 0
        self._names = [f"s{place}" for place in range(n)]
        self._born = n
        self._start(share_partial)

    def _start(self, share_partial: bool) -> None:
        size, (first, *others) = self.manager.block_size, self._names
        shared = self.length if share_partial else self.length // size * size
        if shared:
            self.manager.allocate(first, range(shared))
            for name in others:
                self.manager.fork(first, name)
        for name in self._names if shared < self.length else ():
            rest = range(shared, self.length)
            give = self.manager.append if shared else self.manager.allocate
            give(name, rest)

    def step(self, parents: Parents) -> None:
        """One token for everybody: place i goes on from `parents[i]`.

        Winners are forked and losers freed before anybody writes, so that a block
        which only losers shared is not copied.
        """
        old = self._names
        self._names = [self._heir(p, place, parents) for place, p in enumerate(parents)]
        for place, name in enumerate(old):
            if place not in parents:
                self.manager.free(name)
        for name in self._names:
            self.copies += len(self.manager.append(name, [0]).copies)
        self.length += 1

    def _heir(self, parent: int, place: int, parents: Parents) -> str:
        """The parent itself for its first child, a fork of it for each other."""
        name = self._names[parent]
        if parents.index(parent) == place:
            return name
        self._born += 1
        child = f"s{self._born}"
        self.manager.fork(name, child)
        return child

    def blocks(self) -> tuple[int, int]:
        """Blocks in use now, and how many there would be without any sharing."""
        pool = self.manager.pool
        used = pool.num_usable_blocks - pool.num_free_blocks
        return used, len(self._names) * self.manager.blocks_for(self.length)
