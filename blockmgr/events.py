"""What happened, in order: one event per operation, and the states between them.

The manager can keep an `EventLog`. Each operation appends one `Event`, which holds
what was asked, what was answered, and every change that was made to the pool. A
`Snapshot` is the whole state at one moment. Folding an event into the snapshot before
it gives the snapshot after it, so the log alone is enough to draw every step, to read
it aloud, to go back in time and to audit what happened.

In vLLM there is no such log, only the cache events that `kv_events.py` derives from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from blockmgr.answers import Status

Ids = tuple[int, ...]


# --- what can change in the pool ----------------------------------------------------


class Taken(NamedTuple):
    """Blocks left the head of the free queue; `evicted` are the hashes they lost."""

    block_ids: Ids
    evicted: tuple[tuple[int, str], ...] = ()


class Touched(NamedTuple):
    """Cached blocks gained one reference each (and left the free queue if free)."""

    block_ids: Ids


class Released(NamedTuple):
    """Blocks lost one reference each, tail first. `head` and `tail` say where the
    ones that reached 0 went, each in the order in which they now stand there."""

    block_ids: Ids
    head: Ids
    tail: Ids


class StoredNote(NamedTuple):
    """What vLLM publishes about stored blocks besides their hashes: the hash of the
    block before the first (None at the start), their tokens, and each one's extra
    keys (`ExtraKeys.of_block`). Only outsiders need it; the pool does not."""

    parent: str | None = None
    token_ids: Ids = ()
    extra_keys: tuple[tuple[tuple[str | int, ...], ...], ...] = ()


class Stored(NamedTuple):
    """Full blocks were registered in the prefix cache under `hashes` (hex digests)."""

    block_ids: Ids
    hashes: tuple[str, ...]
    note: StoredNote = StoredNote()


class Removed(NamedTuple):
    """Blocks lost their hash where they stand (`evict_blocks`), nothing else."""

    removed: tuple[tuple[int, str], ...]


class Cleared(NamedTuple):
    """Every hash is gone (`reset_prefix_cache`); the queue order stays."""


Change = Taken | Touched | Released | Stored | Removed | Cleared


# --- the state at one moment --------------------------------------------------------


class SequenceView(NamedTuple):
    """One sequence as a snapshot shows it.

    `token_ids` are the tokens that have a slot, so `token_ids[i]` lies in slot
    `i % block_size` of block `block_table[i // block_size]`. `status` is "running" or
    "preempted" (its tokens are remembered, its table is empty).
    """

    seq_id: str
    block_table: Ids
    token_ids: Ids
    status: str = "running"


class Snapshot(NamedTuple):
    """The whole state of a manager at one moment; equal states compare equal.

    `ref_cnt[b]` and `block_hash[b]` (hex digest or None) are per physical block, with
    the null block recorded as 0 and None. `free_queue` runs head to tail. `cache` maps
    each registered hash to its blocks, earliest first.
    """

    block_size: int
    num_blocks: int
    ref_cnt: Ids
    block_hash: tuple[str | None, ...]
    free_queue: Ids
    cache: Mapping[str, Ids]
    sequences: Mapping[str, SequenceView]

    def __repr__(self) -> str:
        return (
            f"Snapshot({self.num_blocks} blocks, {self.num_free} free, "
            f"{len(self.sequences)} sequences)"
        )

    @property
    def num_usable(self) -> int:
        """Blocks that can hold tokens: all but the null block."""
        return self.num_blocks - 1

    @property
    def num_free(self) -> int:
        """Blocks in the free queue, cached ones included."""
        return len(self.free_queue)

    @property
    def num_used(self) -> int:
        """Usable blocks that are not free."""
        return self.num_usable - self.num_free

    @property
    def usage(self) -> float:
        """Share of usable blocks in use, 0.0 to 1.0 (rule 1)."""
        return self.num_used / self.num_usable

    def owners(self, block_id: int) -> tuple[str, ...]:
        """Names of the sequences whose tables hold this block, in order of arrival."""
        return tuple(
            seq_id
            for seq_id, view in self.sequences.items()
            if block_id in view.block_table
        )

    def filled(self, block_id: int) -> int:
        """Slots of this block that hold a token of a living sequence, 0..block_size."""
        most = 0
        for view in self.sequences.values():
            if block_id in view.block_table:
                start = view.block_table.index(block_id) * self.block_size
                most = max(most, min(len(view.token_ids) - start, self.block_size))
        return most

    def after(self, event: Event) -> Snapshot:
        """The snapshot that follows this one once `event` has happened."""
        state = _Draft(self)
        for change in event.changes:
            state.apply(change)
        return state.finish(event.sequences)


class _Draft:
    """A snapshot under construction: the mutable halves of `Snapshot.after`."""

    def __init__(self, start: Snapshot) -> None:
        self.start = start
        self.ref_cnt = list(start.ref_cnt)
        self.block_hash = list(start.block_hash)
        self.queue = list(start.free_queue)
        self.cache = {key: list(ids) for key, ids in start.cache.items()}

    def apply(self, change: Change) -> None:
        match change:
            case Taken(block_ids, evicted):
                del self.queue[: len(block_ids)]
                self.forget(evicted)
                self.add_ref(block_ids, 1)
            case Touched(block_ids):
                self.queue = [b for b in self.queue if b not in block_ids]
                self.add_ref(block_ids, 1)
            case Released(block_ids, head, tail):
                self.add_ref(block_ids, -1)
                self.queue = [*head, *self.queue, *tail]
            case Stored(block_ids, hashes):
                for block_id, key in zip(block_ids, hashes, strict=True):
                    self.block_hash[block_id] = key
                    self.cache.setdefault(key, []).append(block_id)
            case Removed(removed):
                self.forget(removed)
            case Cleared():
                self.block_hash = [None] * len(self.block_hash)
                self.cache = {}

    def add_ref(self, block_ids: Ids, n: int) -> None:
        for block_id in block_ids:
            self.ref_cnt[block_id] += n

    def forget(self, pairs: tuple[tuple[int, str], ...]) -> None:
        for block_id, key in pairs:
            self.block_hash[block_id] = None
            self.cache[key].remove(block_id)
            if not self.cache[key]:
                del self.cache[key]

    def finish(self, changed: Mapping[str, SequenceView | None]) -> Snapshot:
        sequences = dict(self.start.sequences)
        for seq_id, view in changed.items():
            if view is None:
                sequences.pop(seq_id, None)
            else:
                sequences[seq_id] = view
        return self.start._replace(
            ref_cnt=tuple(self.ref_cnt),
            block_hash=tuple(self.block_hash),
            free_queue=tuple(self.queue),
            cache={key: tuple(ids) for key, ids in self.cache.items()},
            sequences=sequences,
        )


# --- what happened ------------------------------------------------------------------


class Event(NamedTuple):
    """One operation: what was asked, what was answered, what changed.

    `op` is "allocate", "append", "allocate_slots", "free", "preempt", "resume",
    "reset" or "evict". An operation whose `status` is not OK was refused and has no
    `changes`. `token_ids` are the tokens that got a slot (or, when it
    was refused, those that asked for one). `hits` and `new` are block ids; `needed`
    is the number of free blocks that the operation asked for and `free` the number
    that there were. `sequences` holds each sequence that changed as it is now, None
    for one that is gone.
    """

    op: str
    seq_id: str | None = None
    status: Status = Status.OK
    token_ids: Ids = ()
    hits: Ids = ()
    new: Ids = ()
    needed: int = 0
    free: int = 0
    changes: tuple[Change, ...] = ()
    sequences: Mapping[str, SequenceView | None] = MappingProxyType({})


class EventLog:
    """A starting state and everything that happened since.

    Example: `log.snapshots()[k]` is the state before event `k`, and the last entry is
    the state now; there is always one snapshot more than there are events.
    """

    def __init__(self, initial: Snapshot, events: Iterable[Event] = ()) -> None:
        self.initial = initial
        self.events = list(events)

    def __repr__(self) -> str:
        return f"EventLog({len(self.events)} events)"

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def snapshots(self) -> list[Snapshot]:
        """Every state from the first to the last: `len(log) + 1` snapshots."""
        states = [self.initial]
        for event in self.events:
            states.append(states[-1].after(event))
        return states
