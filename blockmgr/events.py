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


class OnHost(NamedTuple):
    """The same kinds of change, in the host's pool: it takes, touches and releases."""

    change: Taken | Touched | Released


Change = Taken | Touched | Released | Stored | Removed | Cleared | OnHost


# --- the state at one moment --------------------------------------------------------


class SequenceView(NamedTuple):
    """One sequence as a snapshot shows it.

    `token_ids` are the tokens that have a slot, so `token_ids[i]` lies in slot
    `i % block_size` of block `block_table[i // block_size]`; where that is 0, the token
    fell out of the window. `status` is "running", "preempted" (its tokens are
    remembered, its table is empty) or "swapped" (its table names blocks of the host).
    `more_tables` are those of further groups of layers.
    """

    seq_id: str
    block_table: Ids
    token_ids: Ids
    status: str = "running"
    more_tables: tuple[Ids, ...] = ()

    @property
    def tables(self) -> tuple[Ids, ...]:
        """The tables of all groups, in the pool's blocks."""
        return self.block_table, *self.more_tables


class Snapshot(NamedTuple):
    """The whole state of a manager at one moment; equal states compare equal.

    `ref_cnt[b]` and `block_hash[b]` (hex digest or None) are per physical block, with
    the null block recorded as 0 and None. `free_queue` runs head to tail. `cache` maps
    each registered hash to its blocks, earliest first. The `host_` fields are the same
    for the host's pool, if there is one, and the sequences that are swapped out to it.
    """

    block_size: int
    num_blocks: int
    ref_cnt: Ids
    block_hash: tuple[str | None, ...]
    free_queue: Ids
    cache: Mapping[str, Ids]
    sequences: Mapping[str, SequenceView]
    host_ref_cnt: Ids = ()
    host_free_queue: Ids = ()
    host_sequences: Mapping[str, SequenceView] = MappingProxyType({})

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
            if any(block_id in table for table in view.tables)
        )

    def filled(self, block_id: int) -> int:
        """Slots of this block that hold a token of a living sequence, 0..block_size."""
        most = 0
        for view in self.sequences.values():
            for table in view.tables:
                if block_id in table:
                    start = table.index(block_id) * self.block_size
                    most = max(most, min(len(view.token_ids) - start, self.block_size))
        return most

    def host_side(self) -> Snapshot | None:
        """The host's pool as a snapshot of its own; None if there is no such pool."""
        n, ref_cnt, queue = (
            len(self.host_ref_cnt),
            self.host_ref_cnt,
            self.host_free_queue,
        )
        there, nameless = self.host_sequences, (None,) * n
        if n == 0:
            return None
        return Snapshot(self.block_size, n, ref_cnt, nameless, queue, {}, there)

    def after(self, event: Event) -> Snapshot:
        """The snapshot that follows this one once `event` has happened."""
        names = list(self.block_hash)
        cache = {key: list(ids) for key, ids in self.cache.items()}
        pool = _Tier(self.ref_cnt, self.free_queue, self.sequences)
        host = _Tier(self.host_ref_cnt, self.host_free_queue, self.host_sequences)
        for change in event.changes:
            lost: tuple[tuple[int, str], ...] = ()
            match change:
                case OnHost(inner):
                    host.move(inner)
                case Taken() | Touched() | Released():
                    pool.move(change)
                    lost = change.evicted if isinstance(change, Taken) else ()
                case Removed(lost):
                    pass
                case Stored(block_ids, hashes):
                    for block_id, key in zip(block_ids, hashes, strict=True):
                        names[block_id] = key
                        cache.setdefault(key, []).append(block_id)
                case Cleared():
                    names, cache = [None] * len(names), {}
            for block_id, key in lost:
                names[block_id] = None
                cache[key].remove(block_id)
                if not cache[key]:
                    del cache[key]
        for seq_id, view in event.sequences.items():
            swapped = view is not None and view.status == "swapped"
            pool.show(seq_id, None if swapped else view)
            host.show(seq_id, view if swapped else None)
        return Snapshot(
            self.block_size,
            self.num_blocks,
            tuple(pool.ref_cnt),
            tuple(names),
            tuple(pool.queue),
            {key: tuple(ids) for key, ids in cache.items()},
            pool.sequences,
            tuple(host.ref_cnt),
            tuple(host.queue),
            host.sequences,
        )


class _Tier:
    """One of the two pools while `Snapshot.after` works on it."""

    def __init__(
        self, ref_cnt: Ids, queue: Ids, sequences: Mapping[str, SequenceView]
    ) -> None:
        self.ref_cnt, self.queue = list(ref_cnt), list(queue)
        self.sequences = dict(sequences)

    def move(self, change: Taken | Touched | Released) -> None:
        """Blocks leave the queue or come back to it, and gain or lose a user."""
        match change:
            case Taken(block_ids):
                del self.queue[: len(block_ids)]
            case Touched(block_ids):
                self.queue = [b for b in self.queue if b not in block_ids]
            case Released(block_ids, head, tail):
                self.queue = [*head, *self.queue, *tail]
        for block_id in change.block_ids:
            self.ref_cnt[block_id] += -1 if isinstance(change, Released) else 1

    def show(self, seq_id: str, view: SequenceView | None) -> None:
        """A sequence as it is now; None if it is not here."""
        if view is not None:
            self.sequences[seq_id] = view
        else:
            self.sequences.pop(seq_id, None)


# --- what happened ------------------------------------------------------------------


class Event(NamedTuple):
    """One operation: what was asked, what was answered, what changed.

    `op` is "allocate", "append", "allocate_slots", "fork", "free", "preempt", "resume",
    "swap_out", "swap_in", "reset" or "evict". An operation whose `status` is not OK was
    refused and has no `changes`, but that a window may have let go of blocks.
    `seq_id` is the sequence that it was about, the new one for a fork, the first of a
    group that is swapped. `copies` are (source, destination) blocks. `token_ids` are
    the tokens that got a slot (or, when it was refused, asked for one). `hits` and
    `new` are block ids; `needed` is the number of free blocks that the operation asked
    for and `free` the number that there were (0 if it asked for none). `sequences`
    holds each sequence that changed as it is now, None for one that is gone.
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
    copies: tuple[tuple[int, int], ...] = ()


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
