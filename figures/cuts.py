"""The same tokens in the same memory, cut into blocks of another size: the numbers.

Behind each of them stands a real manager whose pool has the same number of slots each
time. `fragmentation.py` draws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blockmgr import BlockManager
from blockmgr.events import Event, Snapshot
from figures.panel import slots_taken
from figures.words import listed, plural

SIZES = (1, 2, 4, 8, 16, 32)
"""The block sizes of the slider."""

SLOTS = 64
"""Slots of the pool, whatever the block size: 16 blocks of 4, 2 blocks of 32."""

LONGEST = 30
"""Most tokens of a sequence."""

NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True)
class Cut:
    """What one block size does to these sequences: read off the manager's state.

    `waiting` did not fit and came behind one that did not: first come, first served.
    `entries` counts the entries of all block tables, `wasted` the slots of blocks in
    use that hold no token.
    """

    block_size: int
    snapshot: Snapshot
    event: Event
    waiting: tuple[str, ...]
    taken: int
    wasted: int

    @property
    def entries(self) -> int:
        """Entries of all block tables."""
        views = self.snapshot.sequences.values()
        return sum(len(view.block_table) for view in views)

    @property
    def tokens(self) -> int:
        """Tokens that have a slot."""
        return self.taken - self.wasted

    @property
    def share(self) -> float:
        """Of the slots taken, the share that holds no token; 0 if none is taken."""
        return self.wasted / self.taken if self.taken else 0.0


def cut(lengths: Sequence[int], block_size: int) -> Cut:
    """Put sequences of these lengths into a new pool of `SLOTS` slots.

    Nothing is shared and nothing cached: equal tokens would have equal hashes. The
    first that does not fit waits, and so does everybody behind it.
    """
    manager = BlockManager(
        SLOTS // block_size + 1, block_size, enable_caching=False, record=True
    )
    names = NAMES[: len(lengths)]
    entered = 0
    for name, length in zip(names, lengths, strict=True):
        if not manager.allocate(name, range(1, length + 1)):
            break
        entered += 1
    assert manager.log is not None, "it records"
    snapshot = manager.snapshot()
    taken, wasted = slots_taken(snapshot)
    last = manager.log.events[-1]
    return Cut(block_size, snapshot, last, names[entered:], taken, wasted)


def sentence(state: Cut) -> str:
    """What stands above the picture."""
    size, used = state.block_size, state.snapshot.num_used
    say = (
        f"Blocks of {plural(size, 'slot')}: {plural(state.tokens, 'token')} in "
        f"{plural(used, 'block')}, that is {plural(state.taken, 'slot')}. "
        f"Wasted: {state.wasted} ({state.share:.0%}). "
        f"Table entries: {state.entries}."
    )
    return say + _waits(state)


def _waits(state: Cut) -> str:
    """Who is outside, and how much room lies idle meanwhile; nothing if nobody is."""
    if not state.waiting:
        return ""
    event, verb = state.event, "wait" if len(state.waiting) > 1 else "waits"
    there = f"{event.free or 'none'} {'is' if event.free < 2 else 'are'} free"
    idle = SLOTS - state.tokens
    return (
        f" {listed(state.waiting)} {verb}: {state.waiting[0]} needs "
        f"{plural(event.needed, 'block')} and {there}, though {idle} of {SLOTS} slots "
        "hold no token."
    )
