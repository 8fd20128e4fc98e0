"""Taking the picture: from the living pool and sequences to snapshots and events.

Nothing here decides anything or changes a block.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockmgr.answers import Allocation
from blockmgr.block import ids_of
from blockmgr.events import Event, SequenceView, Snapshot, StoredNote
from blockmgr.pool import BlockPool
from blockmgr.sequence import Sequence


def snapshot_of(
    pool: BlockPool, block_size: int, sequences: Iterable[Sequence]
) -> Snapshot:
    """The whole state as one value that never changes. Costs O(blocks + tokens)."""
    names = (block.block_hash for block in pool.blocks)
    return Snapshot(
        block_size=block_size,
        num_blocks=len(pool.blocks),
        ref_cnt=tuple(block.ref_cnt for block in pool.blocks),
        block_hash=tuple(name and name.hex() for name in names),
        free_queue=ids_of(pool.free_queue),
        cache={digest.hex(): ids_of(blocks) for digest, blocks in pool.cache},
        sequences={seq.seq_id: view_of(seq) for seq in sequences},
    )


def view_of(seq: Sequence) -> SequenceView:
    """A sequence as a snapshot shows it: its table, and the tokens that have a slot."""
    with_slot = seq.token_ids[: seq.num_computed_tokens]
    return SequenceView(seq.seq_id, seq.block_ids, tuple(with_slot), seq.status.value)


def event_of(
    pool: BlockPool, op: str, seq: Sequence | None, gone: bool, answer: Allocation
) -> Event:
    """The event for an operation just done, with the changes that the pool collected.

    `gone` says that the manager no longer knows the sequence (or never did).
    """
    changes, pool.changes = tuple(pool.changes or ()), []
    changed: dict[str, SequenceView | None] = {}
    if seq is not None and answer:
        changed[seq.seq_id] = None if gone else view_of(seq)
    return Event(
        op=op,
        seq_id=seq.seq_id if seq is not None else None,
        status=answer.status,
        token_ids=_tokens_asked(seq, answer) if seq is not None else (),
        hits=answer.hit_blocks,
        new=answer.new_blocks,
        needed=answer.needed,
        free=answer.free,
        changes=changes,
        sequences=changed,
    )


def _tokens_asked(seq: Sequence, answer: Allocation) -> tuple[int, ...]:
    """The tokens that got a slot in this call or, if it was refused, asked for one."""
    n = answer.num_scheduled_tokens
    start = seq.num_computed_tokens
    start += -n if answer else answer.num_cached_tokens
    return tuple(seq.token_ids[start : start + n])


def note_of(seq: Sequence, first: int, last: int, block_size: int) -> StoredNote:
    """What outsiders want to know about blocks `first..last-1` as they are stored."""
    return StoredNote(
        parent=seq.block_hashes[first - 1].hex() if first else None,
        token_ids=tuple(seq.token_ids[first * block_size : last * block_size]),
        extra_keys=tuple(
            seq.extra.of_block(i * block_size, (i + 1) * block_size)
            for i in range(first, last)
        ),
    )
