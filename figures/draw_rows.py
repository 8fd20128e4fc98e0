"""Drawing the sequences: a name tag and a row of logical blocks each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.events import SequenceView
from figures.captions import logical_caption
from figures.heat import table_line
from figures.keys import logical_key, sequence_key
from figures.layout import (
    BOX_HEAD,
    LEFT,
    MARGIN,
    SLOT,
    STRIP_HEIGHT,
    BoxShape,
    Place,
    Row,
    in_detail,
)
from figures.marks import Mark, group
from figures.scene import Scene
from figures.words import clip, esc, fitted, plural, token_texts, width

TAG = LEFT - MARGIN - 10  # width of a name tag


def draw_row(scene: Scene, mark: Mark, shape: BoxShape, row: Row) -> Iterator[str]:
    """One sequence: the tag, its boxes, and what its row says when it has none."""
    view = scene.snapshot.sequences[row.seq_id]
    yield _tag(scene, mark, shape, row, view)
    if not in_detail(scene):
        yield table_line(row, view)
        return
    for place in row.places:
        yield _box(scene, mark, shape, view, place)
    if row.gap is not None:
        yield _left_out(row.gap, shape)
    if not view.block_table:
        yield _without_blocks(row, shape, view)


def _tag(
    scene: Scene, mark: Mark, shape: BoxShape, row: Row, view: SequenceView
) -> str:
    name = clip(row.seq_id, TAG - 16, 15, bold=True)
    middle = shape.height / 2
    tokens = _count(len(view.token_ids))
    text = (
        f"<text class='name' x='10' y='{middle - 3}'>{esc(name)}</text>"
        f"<text x='10' y='{middle + 15}'>{tokens}</text>"
    )
    if shape.height == STRIP_HEIGHT or not view.block_table:
        text = f"<text class='name' x='10' y='{middle + 5}'>{esc(name)}</text>"
    return group(
        mark.attributes(
            f"s{scene.colours[row.seq_id]}",
            sequence_key(row.seq_id),
            f"tag {scene.owner(row.seq_id)}",
            MARGIN,
            row.y,
            f"sequence {row.seq_id}: {plural(len(view.token_ids), 'token')}, "
            f"{plural(len(view.block_table), 'block')}, {view.status}",
        ),
        f"<rect width='{TAG}' height='{shape.height}' rx='7'/>"
        f"<path class='stripe' d='M8 {shape.height - 5}h{TAG - 16}'/>"
        f"{text}",
    )


def _count(tokens: int) -> str:
    """How many tokens, as a whole number in any case."""
    forms = (plural(tokens, "token"), f"{tokens:,} tok.", f"{tokens:,}")
    return next((text for text in forms if width(text) <= TAG - 16), forms[-1])


def _box(
    scene: Scene, mark: Mark, shape: BoxShape, view: SequenceView, place: Place
) -> str:
    index, size = place.index, scene.snapshot.block_size
    block_id = view.block_table[index]
    texts = token_texts(view.token_ids[index * size : (index + 1) * size], scene.labels)
    if block_id == NULL_BLOCK_ID:
        classes, target, inside = "box void", "null", ""
    else:
        changed = " chg" if _changed(scene, view, index, block_id) else ""
        classes, target = f"box {scene.owner(view.seq_id)}{changed}", str(block_id)
        old = scene.fresh.get(view.seq_id, len(view.token_ids)) - index * size
        inside = _slots(shape, size, texts, min(len(texts), max(old, 0)))
    start = mark.attributes(
        f"s{scene.colours[view.seq_id]}-l{index}",
        logical_key(view.seq_id, index),
        classes,
        place.x,
        place.y,
        logical_caption(view.seq_id, index, block_id, texts),
        block=block_id,
    )
    return f"{start}{_box_head(shape, index, target)}{inside}</g>"


@lru_cache(maxsize=4096)
def _box_head(shape: BoxShape, index: int, target: str) -> str:
    """The edge of a box, its index and where it leads."""
    caption = f"logical {index}"
    if width(caption) + width(f"→ {target}", 14, True) > shape.width - 20:
        caption = f"log. {index}"
    return (
        f"<rect class='edge' width='{shape.width:.1f}' height='{shape.height}' rx='7'/>"
        f"<text class='cap' x='9' y='16'>{caption}</text>"
        f"<text class='to' x='{shape.width - 8:.1f}' y='16'>→ {target}</text>"
    )


def _changed(scene: Scene, view: SequenceView, index: int, block_id: int) -> bool:
    """Whether this entry is what the event was about (not its sharers')."""
    event = scene.event
    if event is None or event.seq_id != view.seq_id:
        return False
    size = scene.snapshot.block_size
    first = scene.fresh.get(view.seq_id, len(view.token_ids))
    start, end = max(index * size, first), min((index + 1) * size, len(view.token_ids))
    return start < end or block_id in event.new or block_id in event.hits


@lru_cache(maxsize=4096)
def _slots(shape: BoxShape, size: int, texts: tuple[str, ...], old: int) -> str:
    """The slots of a block: the first `old` tokens were there before this event."""
    if not shape.texts:
        return _gauge(shape, len(texts), size)
    parts = [
        _cells(shape, 0, old, "slot"),
        _cells(shape, old, len(texts), "slot new"),
        _cells(shape, len(texts), size, "slot none"),
    ]
    for i, text in enumerate(texts):
        x, y = _slot_spot(shape, i)
        parts.append(_token(text, x + shape.cell / 2, y + 16, shape.cell - 3))
    return "".join(parts)


def _slot_spot(shape: BoxShape, i: int) -> tuple[float, float]:
    line, column = divmod(i, shape.per_line)
    return 5 + column * (shape.cell + 2), BOX_HEAD + 2 + line * SLOT


def _cells(shape: BoxShape, first: int, last: int, classes: str) -> str:
    """Slots `first..last-1` as one path: one element instead of many."""
    if first >= last:
        return ""
    w, h = shape.cell, SLOT - 3
    path = "".join(
        f"M{x:.1f} {y}h{w:.1f}v{h}h-{w:.1f}z"
        for x, y in (_slot_spot(shape, i) for i in range(first, last))
    )
    return f"<path class='{classes}' d='{path}'/>"


def _token(text: str, x: float, y: float, room: float) -> str:
    squeeze, inside = fitted(text, room)
    return f"<text class='tok' x='{x:.1f}' y='{y}'{squeeze}>{inside}</text>"


def _gauge(shape: BoxShape, filled: int, size: int) -> str:
    """A block of many slots: how many are filled, as a bar and as text."""
    w, h = shape.width - 12, SLOT - 3
    return (
        f"<path class='slot none' d='M6 {BOX_HEAD + 2}h{w:.1f}v{h}h-{w:.1f}z'/>"
        f"<path class='slot' d='M6 {BOX_HEAD + 2}h{w * filled / size:.1f}v{h}H6z'/>"
        f"<text class='tok' x='{shape.width / 2:.1f}' y='{BOX_HEAD + 18}'>"
        f"{filled} of {size}</text>"
    )


def _left_out(gap: Place, shape: BoxShape) -> str:
    text = f"… {plural(gap.index, 'block')} more …"
    return (
        f"<text class='note mid' x='{gap.x + shape.width / 2:.1f}' "
        f"y='{gap.y + shape.height / 2 + 5:.1f}'>{text}</text>"
    )


def _without_blocks(row: Row, shape: BoxShape, view: SequenceView) -> str:
    return f"<g class='ghost'>{_ghost(row.y, shape, view.status, 'holds no block')}</g>"


def _ghost(y: float, shape: BoxShape, first: str, second: str) -> str:
    """Two lines of text in place of a box, no wider than one: lines pass beside it."""
    middle = y + shape.height / 2
    first, second = (clip(text, shape.width - 16) for text in (first, second))
    return (
        f"<rect x='{LEFT}' y='{y:g}' width='{shape.width:.1f}' "
        f"height='{shape.height}' rx='7'/>"
        f"<text class='note' x='{LEFT + 10}' y='{middle - 4:g}'>{first}</text>"
        f"<text class='note' x='{LEFT + 10}' y='{middle + 14:g}'>{second}</text>"
    )


def draw_asker(scene: Scene, shape: BoxShape, y: float) -> str:
    """The row of a sequence that asked to come in and was turned away."""
    event = scene.event
    if event is None or event.seq_id is None:
        return ""
    name = clip(event.seq_id, TAG - 16, 15, bold=True)
    middle = y + shape.height / 2
    needs = f"needs {plural(event.needed, 'block')},"
    there = f"{event.free or 'none'} {'is' if event.free < 2 else 'are'} free"
    return (
        f"<g class='ghost asks {scene.owner(event.seq_id)}'>"
        f"<rect x='{MARGIN}' y='{y:g}' width='{TAG}' height='{shape.height}' rx='7'/>"
        f"<text class='name' x='{MARGIN + 10}' y='{middle - 3:g}'>{esc(name)}</text>"
        f"<text class='note' x='{MARGIN + 10}' y='{middle + 15:g}'>"
        f"{event.status}</text>{_ghost(y, shape, needs, there)}</g>"
    )
