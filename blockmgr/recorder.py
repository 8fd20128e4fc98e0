"""Taking the picture: from the living pool and sequences to snapshots and events.

Nothing here decides anything or changes a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockmgr.answers import Allocation, Stats
from blockmgr.block import NULL_BLOCK_ID, ids_of
from blockmgr.events import (
    Change,
    Event,
    OnHost,
    Released,
    SequenceView,
    Snapshot,
    StoredNote,
    Taken,
    Touched,
)
from blockmgr.pool import BlockPool
from blockmgr.sequence import Sequence

if TYPE_CHECKING:
    from blockmgr.manager import BlockManager


def snapshot_of(manager: BlockManager) -> Snapshot:
    """The whole state as one value that never changes. Costs O(blocks + tokens)."""
    pool, host, size = manager.pool, manager.host, manager.block_size
    names = [b.block_hash.hex() if b.block_hash else None for b in pool.blocks]
    views = {name: view_of(seq, size) for name, seq in manager.sequences.items()}
    swapped = {name: v for name, v in views.items() if v.status == "swapped"}
    return Snapshot(
        block_size=size,
        num_blocks=len(pool.blocks),
        ref_cnt=_ref_cnt(pool),
        block_hash=tuple(names),
        free_queue=ids_of(pool.free_queue),
        cache={str(names[b[0].block_id]): ids_of(b) for _, b in pool.cache},
        sequences={name: v for name, v in views.items() if name not in swapped},
        host_ref_cnt=_ref_cnt(host) if host else (),
        host_free_queue=ids_of(host.free_queue) if host else (),
        host_sequences=swapped,
    )


def _ref_cnt(pool: BlockPool) -> tuple[int, ...]:
    return tuple([block.ref_cnt for block in pool.blocks])


def view_of(seq: Sequence, block_size: int) -> SequenceView:
    """A sequence as a snapshot shows it: its tables, the tokens that have a slot."""
    with_slot = tuple(seq.token_ids[: seq.num_computed_tokens])
    length = -(-seq.num_computed_tokens // block_size)
    tables = [_each_once(t.logical_ids(length, block_size)) for t in seq.tables]
    status, more = seq.status.value, tuple(tables[1:])
    return SequenceView(seq.seq_id, tables[0], with_slot, status, more)


def _each_once(ids: tuple[int, ...]) -> tuple[int, ...]:
    """A ring's block stands in its table many times; its newest place is what it holds
    now, and the null block stands for the others."""
    newest = {block_id: i for i, block_id in enumerate(ids)}
    if len(newest) == len(ids):
        return ids
    return tuple(b if newest[b] == i else NULL_BLOCK_ID for i, b in enumerate(ids))


def event_of(
    manager: BlockManager, op: str, answer: Allocation, sequences: tuple[Sequence, ...]
) -> Event:
    """The event for an operation just done on `sequences`, with the changes that the
    pools collected."""
    pool, host = manager.pool, manager.host
    changes: tuple[Change, ...] = tuple(pool.changes or ())
    pool.changes = []
    if host is not None:
        there = (
            c for c in host.changes or () if isinstance(c, Taken | Touched | Released)
        )
        changes += tuple(OnHost(change) for change in there)
        host.changes = []
    changed: dict[str, SequenceView | None] = {}
    if answer or changes:
        for seq in sequences:
            known = seq.seq_id in manager.sequences
            view = view_of(seq, manager.block_size) if known else None
            changed[seq.seq_id] = view
    first = sequences[0] if sequences else None
    return Event(
        op=op,
        seq_id=first.seq_id if first else None,
        status=answer.status,
        token_ids=_tokens_asked(first, answer) if first else (),
        hits=answer.hit_blocks,
        new=answer.new_blocks,
        needed=answer.needed,
        free=answer.free,
        changes=changes,
        sequences=changed,
        copies=answer.copies,
    )


def stats_of(manager: BlockManager) -> Stats:
    """The gauges and counters of this moment."""
    pool = manager.pool
    cached = sum(block.block_hash is not None for block in pool.free_queue)
    return Stats(
        usable=pool.num_usable_blocks,
        live=pool.num_usable_blocks - pool.num_free_blocks,
        cached=cached,
        empty=pool.num_free_blocks - cached,
        evictions=pool.num_evictions,
        queried_tokens=manager.queried_tokens,
        hit_tokens=manager.hit_tokens,
    )


def _tokens_asked(seq: Sequence, answer: Allocation) -> tuple[int, ...]:
    """The tokens that got a slot in this call or, if it was refused, asked for one."""
    n = answer.num_scheduled_tokens
    start = seq.num_computed_tokens
    start += -n if answer else answer.num_cached_tokens
    return tuple(seq.token_ids[start : start + n])


def note_of(
    seq: Sequence, first: int, last: int, block_size: int, group: int = 0
) -> StoredNote:
    """What outsiders want to know about blocks `first..last-1` as they are stored."""
    return StoredNote(
        parent=seq.block_hashes[first - 1].in_group(group).hex() if first else None,
        token_ids=tuple(seq.token_ids[first * block_size : last * block_size]),
        extra_keys=tuple(
            seq.extra.of_block(i * block_size, (i + 1) * block_size)
            for i in range(first, last)
        ),
    )
