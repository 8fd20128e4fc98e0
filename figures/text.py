"""The same state without a picture: small HTML tables that every reader can read.

They stand below each picture, folded away. Screen readers, text browsers and pages
that show no pictures get the whole state here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.events import Ids, Snapshot
from figures.heat import ranges
from figures.scene import Scene, scene
from figures.tables import html_table
from figures.words import Labels, esc, isolate, listed, plural, token_texts

MOST_ROWS = 100
"""Longer tables end with the number of rows left out."""

SUMMARY = "The same state as tables"


def state_details(snapshot: Snapshot, labels: Labels = None) -> str:
    """The tables of a state in a folded `<details>`."""
    tables = state_tables(snapshot, labels)
    return f"<details class='kvtables'><summary>{SUMMARY}</summary>{tables}</details>"


def state_tables(snapshot: Snapshot, labels: Labels = None) -> str:
    """Sequences, physical blocks and the free queue, as HTML; then, if there is a host
    pool, the same for what is swapped out to it."""
    slots = plural(snapshot.block_size, "slot")
    tables = _tier(
        scene(snapshot, labels=labels),
        "Sequences and their block tables",
        f"Physical blocks of {slots}",
        "Free queue",
    )
    host = snapshot.host_side()
    if host is None:
        return tables
    return tables + _tier(
        scene(host, labels=labels),
        "Sequences on the host, with blocks of the host",
        f"Host blocks of {slots}",
        "Free queue of the host",
    )


def _tier(what: Scene, sequences: str, blocks: str, queue: str) -> str:
    """The tables of one pool, under these captions."""
    return (
        _table(
            sequences,
            ("sequence", "status", "tokens", "logical → physical block", "text"),
            _sequence_rows(what),
        )
        + _table(
            blocks,
            ("block", "state", "ref count", "used by", "filled", "hash"),
            _block_rows(what),
        )
        + f"<p><b>{queue}</b>, head to tail: {_queue(what.snapshot)}</p>"
    )


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    all_rows = list(rows)
    return html_table(caption, head, all_rows[:MOST_ROWS], count=len(all_rows))


def _sequence_rows(what: Scene) -> Iterable[Sequence[str]]:
    for seq_id, view in what.snapshot.sequences.items():
        entries = _entries(view.block_table)
        for table in view.more_tables:
            entries += f"; layers with a window: {_entries(table)}"
        words = token_texts(view.token_ids[:64], what.labels)
        text = " ".join(isolate(word, 24) for word in words)
        more = " …" if len(view.token_ids) > 64 else ""
        yield (
            f"<bdi>{esc(isolate(seq_id))}</bdi>",
            view.status,
            str(len(view.token_ids)),
            entries,
            f"<bdi>{esc(text)}</bdi>{more}",
        )


def _entries(table: Ids) -> str:
    """A block table in one line: each entry, or the ranges of a long one."""
    if len(table) > 24:
        return f"0 … {len(table) - 1} → {', '.join(list(ranges(table))[:60])}"
    entries = (f"{i} → {_physical(b)}" for i, b in enumerate(table))
    return ", ".join(entries) or "none"


def _physical(block_id: int) -> str:
    return "null" if block_id == NULL_BLOCK_ID else str(block_id)


def _block_rows(what: Scene) -> Iterable[Sequence[str]]:
    s = what.snapshot
    for block_id in range(s.num_blocks):
        if s.num_blocks > MOST_ROWS and not s.ref_cnt[block_id]:
            continue  # of a large pool, those in use
        owners = listed(tuple(map(isolate, what.owners[block_id][:8])))
        used = not what.free(block_id) and block_id != NULL_BLOCK_ID
        yield (
            str(block_id),
            _state(what, block_id),
            str(s.ref_cnt[block_id]),
            f"<bdi>{esc(owners)}</bdi>",
            f"{what.filled[block_id]} of {s.block_size}" if used else "",
            what.digits(block_id),
        )


def _state(what: Scene, block_id: int) -> str:
    if block_id == NULL_BLOCK_ID:
        return "null"
    if not what.free(block_id):
        return "in use" if what.snapshot.ref_cnt[block_id] == 1 else "shared"
    return "free, cached" if what.digits(block_id) else "free"


def _queue(snapshot: Snapshot) -> str:
    queue = snapshot.free_queue
    shown = [
        f"{b} (cached)" if snapshot.block_hash[b] is not None else str(b)
        for b in queue[:MOST_ROWS]
    ]
    more = f", … and {len(queue) - MOST_ROWS} more" if len(queue) > MOST_ROWS else ""
    return (", ".join(shown) + more) or "empty"
