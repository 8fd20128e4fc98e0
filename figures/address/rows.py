"""Drawing what the sequence sees: its tokens in logical blocks, and its block table."""

from __future__ import annotations

from collections.abc import Iterator

from blockmgr.block import NULL_BLOCK_ID
from figures.address.layout import (
    CELL,
    LEFT,
    TABLE_ROW,
    TABLE_WIDTH,
    WIDTH,
    Boxes,
    Window,
)
from figures.address.pen import Pen, chip_width, fitting, word
from figures.address.trail import Quantity
from figures.marks import group
from figures.words import clip, esc, plural, token_text, width

NARROWEST_CELL, WIDEST_WANTED = 33.0, 60.0


def wanted_cell(pen: Pen) -> float:
    """Width that a token's cell should have: that of the widest text, within limits."""
    tokens = pen.scene.snapshot.sequences[pen.way.seq_id].token_ids
    texts = (token_text(token, pen.scene.labels)[:20] for token in set(tokens))
    widest = max(map(width, texts)) * 0.8 + 4
    last = width(str(len(tokens) - 1)) + 6
    return max(NARROWEST_CELL, last, min(widest, WIDEST_WANTED))


def draw_title(pen: Pen, y: float) -> str:
    """The sequence's name in its colour, and what it has."""
    way, view = pen.way, pen.scene.snapshot.sequences[pen.way.seq_id]
    name = clip(way.seq_id, 180, 14, bold=True)
    wide = width(name, 14, bold=True) + 18
    text = (
        f"{plural(len(view.token_ids), 'token')} in "
        f"{plural(len(view.block_table), 'logical block')} of {way.block_size}"
    )
    hint = "; under each token its position"
    if LEFT + wide + 10 + width(text + hint) < WIDTH:
        text += hint
    return (
        f"<g class='tag {pen.scene.owner(way.seq_id)}'><rect x='{LEFT}' y='{y - 17:g}' "
        f"width='{wide:.1f}' height='24' rx='6'/><path class='stripe' "
        f"d='M{LEFT + 6} {y + 4:g}h{wide - 12:.1f}'/>"
        f"<text class='own' x='{LEFT + wide / 2:.1f}' y='{y:g}'>{esc(name)}</text></g>"
        f"<text class='note' x='{LEFT + wide + 10:.1f}' y='{y:g}'>{text}</text>"
    )


def draw_boxes(pen: Pen, boxes: Boxes) -> Iterator[str]:
    """The logical blocks that are in the picture, their tokens in them."""
    count = len(pen.scene.snapshot.sequences[pen.way.seq_id].block_table)
    for index in boxes.shown(count):
        yield _box(pen, boxes, index)


def _box(pen: Pen, boxes: Boxes, index: int) -> str:
    x, y = boxes.spot(index)
    lit = index == pen.way.address.logical_block
    block_id = pen.scene.snapshot.sequences[pen.way.seq_id].block_table[index]
    start = (
        f"<g class='box {pen.scene.owner(pen.way.seq_id)}' data-b='{block_id}'>"
        f"<rect class='edge' x='{x:.1f}' y='{y:.1f}' width='{boxes.width:.1f}' "
        f"height='{boxes.height:.1f}' rx='7'/>"
    )
    head = _lit_head(pen, boxes, x, y) if lit else _head(boxes, index, x, y)
    cells = (_cell(pen, boxes, index, offset) for offset in boxes.slots(index))
    return group(start, head + "".join(cells))


def _head(boxes: Boxes, index: int, x: float, y: float) -> str:
    name = f"logical {index}"
    if width(name) > boxes.width - 14:
        name = str(index)
    return f"<text class='cap' x='{x + 9:.1f}' y='{y + 18:.1f}'>{name}</text>"


def _lit_head(pen: Pen, boxes: Boxes, x: float, y: float) -> str:
    """The chosen block says its own number and the token's offset, if there is room."""
    where, room = pen.way.address, boxes.width - 12
    logical = fitting("logical", where.logical_block, room)
    offset = fitting("offset", where.offset, room - chip_width(logical) - 6)
    parts = [
        pen.ring(Quantity.LOGICAL, x, y, boxes.width, boxes.height, 9),
        pen.chip(Quantity.LOGICAL, logical, x + 6, y + 15),
    ]
    if offset:
        right = x + boxes.width - 6 - chip_width(offset)
        parts.append(pen.chip(Quantity.OFFSET, offset, right, y + 15))
    return "".join(parts)


def _cell(pen: Pen, boxes: Boxes, index: int, offset: int) -> str:
    view = pen.scene.snapshot.sequences[pen.way.seq_id]
    position = index * boxes.size + offset
    dx, dy = boxes.cell_spot(index, offset)
    x, y = boxes.spot(index)
    x, y = round(x + dx, 1), round(y + dy, 1)
    if position >= len(view.token_ids):
        return (
            f"<rect class='slot none' x='{x}' y='{y}' width='{boxes.cell:.1f}' "
            f"height='{CELL}' rx='4'/>"
        )
    return _token(pen, boxes.cell, view.token_ids[position], position, x, y)


def _token(
    pen: Pen, wide: float, token_id: int, position: int, x: float, y: float
) -> str:
    """A token with its position; it can be chosen."""
    text = token_text(token_id, pen.scene.labels)
    chosen = position == pen.way.address.position
    start = pen.mark.attributes(
        f"t{position}",
        token_key(position),
        "cell here" if chosen else "cell",
        x,
        y,
        f"position {position}: {text[:80]}",
    )
    ring = pen.ring(Quantity.OFFSET, -1, -1, wide + 2, CELL + 2) if chosen else ""
    return group(
        start,
        f"<rect class='slot' width='{wide:.1f}' height='{CELL}' rx='4'/>{ring}"
        f"{word(text, wide / 2, 18, wide - 4)}"
        f"<text class='pos' x='{wide / 2:.1f}' y='35'>{position}</text>",
    )


def token_key(position: int) -> str:
    """The name of a token in `selected`: `token:9`."""
    return f"token:{position}"


# --- the block table ----------------------------------------------------------------


def draw_table(pen: Pen, top: float, rows: Window) -> Iterator[str]:
    """The entries of the block table that are in the picture, as two columns."""
    table = pen.scene.snapshot.sequences[pen.way.seq_id].block_table
    height = (len(rows) + 1) * TABLE_ROW
    yield (
        f"<rect class='grid' x='{LEFT}' y='{top:g}' width='{TABLE_WIDTH}' "
        f"height='{height}' rx='4'/><path class='head-row' "
        f"d='M{LEFT} {top + 4:g}q0 -4 4 -4h{TABLE_WIDTH - 8}q4 0 4 4v{TABLE_ROW - 4}"
        f"h-{TABLE_WIDTH}z'/>"
    )
    yield _entry(top, "logical", "physical", "note")
    for line, index in enumerate(rows, start=1):
        y = top + line * TABLE_ROW
        yield f"<path class='rule' d='M{LEFT} {y:g}h{TABLE_WIDTH}'/>"
        if index == pen.way.address.logical_block:
            yield _lit_entry(pen, y)
        else:
            block_id = table[index]
            physical = "null" if block_id == NULL_BLOCK_ID else str(block_id)
            yield _entry(y, str(index), physical, "num")
    middle = LEFT + TABLE_WIDTH / 2
    yield f"<path class='rule' d='M{middle:g} {top:g}v{height}'/>"


def _entry(y: float, logical: str, physical: str, classes: str) -> str:
    return "".join(
        f"<text class='{classes} mid' x='{LEFT + TABLE_WIDTH * part:g}' "
        f"y='{y + 18:g}'>{text}</text>"
        for part, text in ((0.25, logical), (0.75, physical))
    )


def _lit_entry(pen: Pen, y: float) -> str:
    where = pen.way.address
    pairs = (
        (0.25, Quantity.LOGICAL, str(where.logical_block)),
        (0.75, Quantity.BLOCK, str(where.block_id)),
    )
    return "".join(
        pen.chip(
            quantity,
            text,
            LEFT + TABLE_WIDTH * part - chip_width(text) / 2,
            y + TABLE_ROW / 2,
        )
        for part, quantity, text in pairs
    )


def left_out(rows: Window, one: str) -> str:
    """What a window leaves out, in words; nothing if it leaves nothing out."""
    above, below = rows.first, rows.after
    if above and below:
        return f"… {plural(above, f'more {one}')} above, {below:,} below"
    if above or below:
        return (
            f"… {plural(above + below, f'more {one}')} {'above' if above else 'below'}"
        )
    return ""
