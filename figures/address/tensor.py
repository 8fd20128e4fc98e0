"""Drawing the bytes of one token, and the tensor that they lie in."""

from __future__ import annotations

from collections.abc import Iterator

from figures.address.layout import CELL, LEFT, RIGHT, ROOM, Strip
from figures.address.pen import Pen, chip_width
from figures.address.shape import KVShape
from figures.address.trail import HALVES, Quantity, Trail
from figures.words import plural, width, wrap

BAR = 24  # height of the tensor


def draw_bytes(pen: Pen, strip: Strip, shape: KVShape) -> str:
    """The token's bytes, under its slot, and the way from there into the tensor."""
    way, y = pen.way, strip.top + CELL + 22
    last = way.byte + shape.row_bytes - 1
    text = f"bytes {way.byte:,} to {last:,}" if last > way.byte else f"byte {last:,}"
    middle = strip.x(way.address.offset) + strip.cell / 2
    wide = chip_width(text)
    x = max(LEFT, min(middle - wide / 2, RIGHT - wide))
    here = _bar_x(way)
    points = [(x + wide / 2, y + 11), (x + wide / 2, y + 21), (here, y + 21)]
    return (
        pen.path(Quantity.BYTE, [*points, (here, y + 31)])
        + f"<g class='way {pen.classes(Quantity.BYTE)}'><path d='M{middle:.1f} "
        f"{strip.top + CELL + 2:g}V{y - 11:g}'/></g>"
        + pen.chip(Quantity.BYTE, text, x, y)
    )


def _bar_x(way: Trail) -> float:
    return LEFT + ROOM * (way.byte / way.total_bytes)


def draw_tensor(pen: Pen, y: float, shape: KVShape) -> Iterator[str]:
    """The whole tensor as a bar: K's layers, then V's; the token's plane is lit."""
    way, wide = pen.way, ROOM / (2 * shape.layers)
    for half in range(2):
        yield from _half(way, half, y, shape.layers)
    yield pen.ring(None, LEFT + way.plane * wide, y, wide, BAR, 3)


def tensor_note(way: Trail, shape: KVShape) -> list[str]:
    """The size of the tensor in words, in lines that fit."""
    layers = plural(shape.layers, "layer")
    text = (
        f"The whole tensor: {way.total_bytes:,} bytes. K of {layers}, then V; "
        f"{plural(way.num_slots, 'slot')} of {plural(shape.row_bytes, 'byte')} in each."
    )
    return wrap(text, ROOM + 20)


def _half(way: Trail, half: int, y: float, layers: int) -> Iterator[str]:
    """One half of the bar, its layers apart if their names fit."""
    x, wide = LEFT + half * ROOM / 2, ROOM / 2 / layers
    yield (
        f"<rect class='plane' x='{x:.1f}' y='{y:g}' width='{ROOM / 2}' height='{BAR}'/>"
    )
    names = _layer_names(HALVES[half], layers, wide)
    if not names:
        yield _half_name(way, half, y, layers)
    for i, name in enumerate(names):
        lit = " strong" if (half, i) == (way.half, way.layer) else ""
        left = x + i * wide
        yield f"<path class='rule' d='M{left:.1f} {y:g}v{BAR}'/>" if i else ""
        yield (
            f"<text class='tok{lit}' x='{left + wide / 2:.1f}' y='{y + 17:g}'>"
            f"{name}</text>"
        )


def _layer_names(half: str, layers: int, wide: float) -> list[str]:
    """A name for each layer, as long as there is room for; none if there is none."""
    for form in (f"{half}, layer ", f"{half} "):
        if width(f"{form}{layers - 1}", 13, bold=True) + 8 <= wide:
            return [f"{form}{i}" for i in range(layers)]
    return []


def _half_name(way: Trail, half: int, y: float, layers: int) -> str:
    """One name for all layers, kept clear of the lit one."""
    share = 0.5
    if half == way.half:
        share = 0.75 if way.layer < layers / 2 else 0.25
    x = LEFT + (half + share) * ROOM / 2
    name = f"{HALVES[half]} of {layers} layers"
    return f"<text class='tok' x='{x:.1f}' y='{y + 17:g}'>{name}</text>"
