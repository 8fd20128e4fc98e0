"""One line of plain words for each thing in a picture: tooltips and screen readers."""

from __future__ import annotations

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.events import SequenceView
from figures.scene import Scene
from figures.words import listed, plural


def block_caption(scene: Scene, block_id: int) -> str:
    """What a physical block is, whose, how full and under which hash it is found."""
    if block_id == NULL_BLOCK_ID:
        return "block 0, the null block: stands in tables where nothing is stored"
    digits = scene.digits(block_id)
    if scene.free(block_id):
        state = f"free, still cached under hash {digits}" if digits else "free"
        place = scene.snapshot.free_queue.index(block_id) + 1
        return f"block {block_id}: {state}, number {place} in the free queue"
    size, filled = scene.snapshot.block_size, scene.filled[block_id]
    owners = listed(scene.owners[block_id]) or "nobody known"
    shared = scene.snapshot.ref_cnt[block_id]
    refs = f" ({plural(shared, 'reference')})" if shared > 1 else ""
    cached = f", hash {digits}" if digits else ", no hash"
    return (
        f"block {block_id}: in use by {owners}{refs}, "
        f"{filled} of {plural(size, 'slot')} filled{cached}"
    )


def logical_caption(
    seq_id: str, index: int, block_id: int, texts: tuple[str, ...]
) -> str:
    """Where a logical block lies, and the tokens in it."""
    words = " ".join([text[:40] for text in texts])
    where = "the null block" if block_id == NULL_BLOCK_ID else f"block {block_id}"
    return f"{seq_id}, logical block {index}, in {where}: {words or 'no token yet'}"


def summary(scene: Scene) -> str:
    """The whole state in two sentences, for those who can't see the picture."""
    s = scene.snapshot
    cached = sum(s.block_hash[b] is not None for b in s.free_queue)
    views = list(s.sequences.values())[:16]
    tables = "; ".join(f"{v.seq_id[:40]}: {_places(v, 'blocks')}" for v in views)
    there = list(s.host_sequences.values())[:16]
    host = "; ".join(f"{v.seq_id[:40]}: {_places(v, 'host blocks')}" for v in there)
    if there:
        count = plural(len(s.host_sequences), "sequence")
        tables = f"{tables}{'. ' if tables else ''}{count} on the host. {host}"
    return (
        f"{s.num_usable} usable blocks of {plural(s.block_size, 'slot')}: "
        f"{s.num_used} in use, {s.num_free} free, {cached} of them cached. "
        f"{plural(len(s.sequences), 'sequence')}. {tables}"
    ).strip()


def _places(view: SequenceView, kind: str) -> str:
    """`blocks 1, 2`, with a second table for the layers with a window."""
    texts = [
        ", ".join("null" if b == NULL_BLOCK_ID else str(b) for b in table[:32])
        for table in view.tables
    ]
    return f"{kind} {' and, with a window, '.join(text or 'none' for text in texts)}"
