"""Drawing what the device has: the pool, and one block's slots in a row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from operator import add

from blockmgr.block import NULL_BLOCK_ID
from figures.address.layout import (
    BLOCK_HEAD,
    CELL,
    GAP,
    PAD,
    SIDE,
    SLOT,
    Pool,
    Strip,
)
from figures.address.pen import Pen, word
from figures.address.trail import Quantity
from figures.captions import block_caption
from figures.words import clip, esc, token_text, tooltip, width


def draw_pool(pen: Pen, pool: Pool) -> Iterator[str]:
    """The physical blocks that are in the picture."""
    for block_id in pool.shown(pen.scene.snapshot.num_blocks):
        yield _block(pen, pool, block_id)


def _block(pen: Pen, pool: Pool, block_id: int) -> str:
    x, y = pool.spot(block_id)
    kind, inside = _content(pen, pool, block_id)
    lit = ""
    if block_id == pen.way.address.block_id:
        lit = _lit(pen, pool)
    return (
        f"<g class='blk {kind}' data-b='{block_id}' "
        f"transform='translate({x:.1f} {y:.1f})'>"
        f"<title>{tooltip(block_caption(pen.scene, block_id))}</title>"
        f"<rect class='edge' width='{pool.width:.1f}' height='{pool.height:g}' rx='6'/>"
        f"{inside}{lit}</g>"
    )


def _content(pen: Pen, pool: Pool, block_id: int) -> tuple[str, str]:
    """CSS classes and inside of a block: whose it is, and how full."""
    number = f"<text class='id' x='7' y='18'>{block_id}</text>"
    right = f"x='{pool.width - 8:.1f}' y='18'"
    if block_id == NULL_BLOCK_ID:
        return "null", f"{number}<text class='sign small right' {right}>∅</text>"
    if not pen.scene.free(block_id):
        return _used(pen, pool, block_id)
    if pen.scene.digits(block_id):
        wide = 10 + 9 * len(str(block_id))
        plate = f"<rect class='plate' x='3' y='4' width='{wide}' height='20' rx='4'/>"
        return "free kept", plate + number
    fits = pool.width > _number_room(pen.way.num_blocks - 1) + 26
    state = f"<text class='note right' {right}>free</text>" if fits else ""
    return "free", number + state


def _used(pen: Pen, pool: Pool, block_id: int) -> tuple[str, str]:
    """In its owner's colour if that is the chosen sequence, else in grey."""
    name, more = _owner(pen, block_id)
    room = pool.width - _number_room(block_id) - width(more, 13, bold=True)
    shown = clip(name, room, 13, bold=True)
    text = esc((shown if len(shown) > 1 or shown == name else "") + more)
    inside = (
        f"<text class='id' x='7' y='18'>{block_id}</text>"
        f"<text class='owner right' x='{pool.width - 6:.1f}' y='18'>{text}</text>"
        f"{_slots(pool, pen.way.block_size, pen.scene.filled[block_id])}"
    )
    mine = name == pen.way.seq_id
    return f"used {pen.scene.owner(name) if mine else 'other'}", inside


def _owner(pen: Pen, block_id: int) -> tuple[str, str]:
    """The chosen sequence if it is one of the owners, and how many others there are."""
    owners = pen.scene.owners[block_id]
    name = pen.way.seq_id if pen.way.seq_id in owners else (*owners, "")[0]
    return name, f" +{len(owners) - 1}" if len(owners) > 1 else ""


def _number_room(block_id: int) -> float:
    """What a block's number and the margins take away from its owner's name."""
    return 18 + 9 * len(str(block_id))


def wanted_block(pen: Pen) -> float:
    """Width that a block should have, so that most owners' names fit."""
    used = [b for b, owners in enumerate(pen.scene.owners) if owners]
    names = ("".join(_owner(pen, b)) for b in used[:200])
    widths = map(width, names, repeat(13), repeat(True))
    return max(map(add, widths, map(_number_room, used)), default=0.0)


def _slots(pool: Pool, size: int, filled: int) -> str:
    if size > 32:
        room = pool.width - 2 * PAD
        return "".join(
            f"<rect class='{kind}' x='{PAD}' y='{BLOCK_HEAD}' width='{wide:.1f}' "
            f"height='{SLOT}'/>"
            for kind, wide in (("bar none", room), ("bar", room * filled / size))
        )
    wide = pool.slot_width()
    spots = ((i, *pool.slot_spot(i)) for i in range(size))
    return "".join(
        f"<rect class='bar{'' if i < filled else ' none'}' x='{x:.1f}' y='{y:g}' "
        f"width='{wide:.1f}' height='{SLOT}'/>"
        for i, x, y in spots
    )


def lit_slot(pen: Pen, pool: Pool) -> tuple[float, float, float]:
    """The chosen slot in its block: left, top and width."""
    where, size = pen.way.address, pen.way.block_size
    if size <= 32:
        return *pool.slot_spot(where.offset), pool.slot_width()
    room = pool.width - 2 * PAD
    return PAD + (room - 5) * where.offset / (size - 1), BLOCK_HEAD, 5.0


def _lit(pen: Pen, pool: Pool) -> str:
    x, y, wide = lit_slot(pen, pool)
    return (
        pen.ring(Quantity.BLOCK, 0, 0, pool.width, pool.height, 3)
        + f"<rect class='mark' x='{x:.1f}' y='{y:g}' width='{wide:.1f}' "
        f"height='{SLOT}'/>"
        + pen.ring(Quantity.SLOT, x - 2, y - 2, wide + 4, SLOT + 4, 3)
    )


# --- one block's slots in memory ----------------------------------------------------


def wanted_slot(pen: Pen) -> float:
    """Width that a slot should have in the strip: for its number, and for its token."""
    last = (pen.way.address.block_id + 1) * pen.way.block_size - 1
    return max(33.0, width(str(last)) + 8)


def draw_strip(pen: Pen, strip: Strip) -> Iterator[str]:
    """The chosen block's slots, tokens above and slot numbers below."""
    for offset in strip.slots:
        yield _slot(pen, strip, offset)
    block_id, hidden = pen.way.address.block_id, strip.slots
    before = f"{hidden.first} more" if hidden.first else f"block {block_id - 1}"
    last = block_id + 1 == pen.way.num_blocks
    after = "the end" if last else f"block {block_id + 1}"
    if hidden.after:
        after = f"{hidden.after} more"
    yield _neighbour(strip.left - GAP - SIDE, strip.top, before)
    yield _neighbour(strip.right + GAP, strip.top, after)


def _neighbour(x: float, y: float, text: str) -> str:
    return (
        f"<rect class='slot none' x='{x:.1f}' y='{y:g}' width='{SIDE}' "
        f"height='{CELL}' rx='4'/>"
        + word(text, x + SIDE / 2, y + 26, SIDE - 6, "tok note")
    )


def _slot(pen: Pen, strip: Strip, offset: int) -> str:
    where, size = pen.way.address, pen.way.block_size
    tokens = pen.scene.snapshot.sequences[pen.way.seq_id].token_ids
    position = where.logical_block * size + offset
    x, y, wide = strip.x(offset), strip.top, strip.cell
    lit = offset == where.offset
    used = position < len(tokens)
    text = token_text(tokens[position], pen.scene.labels) if used else ""
    token = word(text, x + wide / 2, y + 18, wide - 4) if used else ""
    ring = pen.ring(Quantity.SLOT, x - 1, y - 1, wide + 2, CELL + 2) if lit else ""
    return (
        f"<g class='cell{' here' if lit else ''}'>"
        f"<rect class='slot{'' if used else ' none'}' x='{x:.1f}' y='{y:g}' "
        f"width='{wide:.1f}' height='{CELL}' rx='4'/>{ring}{token}"
        f"<text class='pos' x='{x + wide / 2:.1f}' y='{y + 35:g}'>"
        f"{where.block_id * size + offset}</text></g>"
    )
