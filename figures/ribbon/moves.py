"""What one step did to the free queue: who left it, who came, who forgot.

Worked out from the event and the queues around it, before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from blockmgr.events import (
    Cleared,
    Event,
    Ids,
    Released,
    Removed,
    Snapshot,
    Taken,
    Touched,
)
from figures.film import Frame

TAKEN, EVICTED, HIT = "taken", "evicted", "hit"
"""How a block leaves: blank from the head, remembered from the head, found again."""

HEAD, TAIL = "head", "tail"
"""Where a block comes: one that nobody can find again, one that is remembered."""

Words = Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Moves:
    """One step of the queue. `before` is None where the record begins.

    `left` says of each block that left how it did (`TAKEN`, `EVICTED`, `HIT`), `came`
    of each that came to which end (`HEAD`, `TAIL`). `forgot` holds the hash that a
    block lost in this step, whether it was taken or stayed where it stood.
    """

    before: Ids | None
    after: Ids
    left: Words = field(default_factory=dict)
    came: Words = field(default_factory=dict)
    forgot: Words = field(default_factory=dict)

    def stayed(self) -> Ids:
        """Blocks that stand in both queues, in their order, which is the same."""
        there = frozenset(self.before or ())
        return tuple(b for b in self.after if b in there)

    def changed(self) -> frozenset[int]:
        """Every block that something happened to."""
        return frozenset((*self.left, *self.came, *self.forgot))


def moves(frame: Frame) -> Moves:
    """What this frame's event did to the queue of the device's pool."""
    event, before, after = frame.event, frame.before, frame.after
    if event is None or before is None:
        return Moves(None, after.free_queue)
    old, new = frozenset(before.free_queue), frozenset(after.free_queue)
    forgot = _forgot(event, before)
    left, came = _left(event, forgot), _came(event)
    return Moves(
        before.free_queue,
        after.free_queue,
        {b: left[b] for b in before.free_queue if b not in new and b in left},
        {b: came[b] for b in after.free_queue if b not in old and b in came},
        forgot,
    )


def _left(event: Event, forgot: Words) -> dict[int, str]:
    words: dict[int, str] = {}
    for change in event.changes:
        if isinstance(change, Taken):
            words |= {b: EVICTED if b in forgot else TAKEN for b in change.block_ids}
        elif isinstance(change, Touched):
            words |= {b: HIT for b in change.block_ids if b not in words}
    return words


def _came(event: Event) -> dict[int, str]:
    words: dict[int, str] = {}
    for change in event.changes:
        if isinstance(change, Released):
            words |= dict.fromkeys(change.head, HEAD)
            words |= dict.fromkeys(change.tail, TAIL)
    return words


def _forgot(event: Event, before: Snapshot) -> dict[int, str]:
    lost: dict[int, str] = {}
    for change in event.changes:
        match change:
            case Taken(_, pairs) | Removed(pairs):
                lost |= dict(pairs)
            case Cleared():
                hashes = enumerate(before.block_hash)
                lost |= {b: key for b, key in hashes if key is not None}
    return lost
