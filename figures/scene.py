"""What a picture has to say, worked out before anything is drawn.

A `Scene` answers every question of the drawing code about one moment: who owns which
block, how full it is, what changed in this step, what is chosen. It knows no
coordinates, and it is a pure function of its arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.events import (
    Cleared,
    Event,
    EventLog,
    Released,
    Removed,
    SequenceView,
    Snapshot,
    Stored,
    Taken,
    Touched,
)
from figures.keys import related
from figures.theme import arrival_order, colour_indices, owner_class
from figures.words import Labels


@dataclass(frozen=True, slots=True)
class Plan:
    """What the frames of one run have in common, so that nothing jumps between them.

    `order` lists the sequences by arrival: it fixes their colours. `longest` is the
    longest block table, `most` the largest number of sequences at one time; both fix
    the size of the boxes.
    """

    order: tuple[str, ...] = ()
    longest: int = 0
    most: int = 0

    @classmethod
    def of(cls, log: EventLog) -> Plan:
        """The plan of a recorded run."""
        plan = cls(arrival_order(log)).joined(log.initial.sequences)
        living = dict(log.initial.sequences)
        for event in log.events:
            for seq_id, view in event.sequences.items():
                if view is None or view.status == "swapped":
                    living.pop(seq_id, None)
                else:
                    living[seq_id] = view
            # One that is turned away has a row too.
            plan = plan.joined(living, asking=not event.sequences)
        return plan

    def joined(
        self, sequences: Mapping[str, SequenceView], *, asking: bool = False
    ) -> Plan:
        """This plan, with room for one more state."""
        return Plan(
            tuple(dict.fromkeys((*self.order, *sequences))),
            _longest(self.longest, sequences),
            max(self.most, len(sequences) + asking),
        )


def _longest(longest: int, sequences: Mapping[str, SequenceView]) -> int:
    return max([longest, *(len(view.block_table) for view in sequences.values())])


@dataclass(frozen=True, slots=True)
class Scene:
    """One moment, ready to be drawn. Make it with `scene(...)`."""

    snapshot: Snapshot
    event: Event | None
    labels: Labels
    selected: str | None
    colours: Mapping[str, int]
    longest: int
    """The longest block table to make room for."""
    most: int
    """Rows of sequences to make room for."""
    owners: tuple[tuple[str, ...], ...]
    """Per block: the sequences whose tables hold it, in order of arrival."""
    filled: tuple[int, ...]
    """Per block: slots that hold a token of a living sequence."""
    marks: Mapping[int, str]
    """Block -> one word for what this event did to it."""
    fresh: Mapping[str, int]
    """Sequence -> its first token that got a slot in this event."""
    lit: frozenset[str] = field(default_factory=frozenset)
    """Keys of everything that belongs to what is selected, itself included."""

    def owner(self, seq_id: str) -> str:
        """CSS classes of this sequence's colour."""
        return owner_class(self.colours[seq_id])

    def free(self, block_id: int) -> bool:
        """Whether the block is usable and has no user."""
        return block_id != NULL_BLOCK_ID and not self.snapshot.ref_cnt[block_id]

    def digits(self, block_id: int) -> str:
        """The first 4 hex digits of the block's hash, or nothing."""
        key = self.snapshot.block_hash[block_id]
        return "" if key is None else key[:4]

    def refused(self) -> bool:
        """Whether this event asked for room and did not get it."""
        return self.event is not None and self.event.status != "OK"


def scene(
    snapshot: Snapshot,
    *,
    event: Event | None = None,
    before: Snapshot | None = None,
    labels: Labels = None,
    selected: str | None = None,
    plan: Plan | None = None,
) -> Scene:
    """Work out what a picture of `snapshot`, just after `event`, has to say."""
    plan = plan or Plan()
    order = plan.order if event is None else _with_asker(plan.order, before, event)
    colours = colour_indices(order, before, snapshot)
    owners, filled = _owners_and_filled(snapshot)
    return Scene(
        snapshot=snapshot,
        event=event,
        labels=labels,
        selected=selected,
        colours=colours,
        longest=_longest(plan.longest, snapshot.sequences),
        most=max(plan.most, len(snapshot.sequences)),
        owners=owners,
        filled=filled,
        marks=_marks(snapshot, event, before),
        fresh=_fresh(event),
        lit=related(snapshot, selected),
    )


def _with_asker(
    order: Sequence[str], before: Snapshot | None, event: Event
) -> tuple[str, ...]:
    """The order, and at its end the sequence that asks but is not in a snapshot."""
    known = dict.fromkeys((*order, *(before.sequences if before else ())))
    if event.seq_id is not None and not event.sequences:
        known[event.seq_id] = None
    return tuple(known)


def _owners_and_filled(
    snapshot: Snapshot,
) -> tuple[tuple[tuple[str, ...], ...], tuple[int, ...]]:
    """One walk over all tables: asking block by block would cost a walk each."""
    size = snapshot.block_size
    owners: list[list[str]] = [[] for _ in range(snapshot.num_blocks)]
    filled = [0] * snapshot.num_blocks
    for seq_id, view in snapshot.sequences.items():
        for table in view.tables:
            left = len(view.token_ids)
            for block_id in table:
                if block_id != NULL_BLOCK_ID:
                    owners[block_id].append(seq_id)
                    filled[block_id] = max(filled[block_id], min(max(left, 0), size))
                left -= size
    return tuple(map(tuple, owners)), tuple(filled)


# --- what changed -------------------------------------------------------------------


def _marks(
    snapshot: Snapshot, event: Event | None, before: Snapshot | None
) -> dict[int, str]:
    """Block -> the most telling word: a block that is new and hashed says `new`."""
    words: dict[int, str] = {}
    for change in event.changes if event is not None else ():
        match change:
            case Taken(block_ids):
                words.update(dict.fromkeys(block_ids, "new"))
            case Touched(block_ids):
                word = "fork" if event is not None and event.op == "fork" else "hit"
                words.update((b, word) for b in block_ids if words.get(b) != "new")
            case Released(block_ids, head, tail):
                # Whoever swaps in takes a block, gives it to each of its users, and
                # lets go of it: all of that together is a new block.
                words.update((b, "−1") for b in block_ids if words.get(b) != "new")
                words.update(dict.fromkeys((*head, *tail), "freed"))
            case Stored(block_ids):
                words.update((b, "hash") for b in block_ids if b not in words)
            case Removed(removed):
                words.update((b, "lost") for b, _ in removed)
            case Cleared():
                hashes = before.block_hash if before is not None else ()
                words.update((b, "lost") for b, key in enumerate(hashes) if key)
    return words | _grown(snapshot, event, words)


def _grown(
    snapshot: Snapshot, event: Event | None, words: Mapping[int, str]
) -> dict[int, str]:
    """Blocks that only got tokens into slots they had: `+1`, `+2`, ..."""
    added: defaultdict[int, int] = defaultdict(int)
    for seq_id, first in _fresh(event).items():
        view = snapshot.sequences.get(seq_id)
        for position in range(first, len(view.token_ids) if view else 0):
            for block_id in _blocks_of(view, position, snapshot.block_size):
                added[block_id] += 1
    return {b: f"+{n}" for b, n in added.items() if b not in words}


def _blocks_of(
    view: SequenceView | None, position: int, block_size: int
) -> Iterator[int]:
    """Where a token lies, in the table of each group of layers."""
    index = position // block_size
    for table in view.tables if view is not None else ():
        yield table[index] if index < len(table) else NULL_BLOCK_ID


def _fresh(event: Event | None) -> dict[str, int]:
    # A refused call can have let go of blocks, but none of its tokens got a slot.
    if event is None or event.status != "OK" or not event.token_ids:
        return {}
    return {
        seq_id: len(view.token_ids) - len(event.token_ids)
        for seq_id, view in event.sequences.items()
        if view is not None
    }
