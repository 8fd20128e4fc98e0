"""The marks of a pool with its ruler: boxes, words in them, and the ruler in bytes."""

from __future__ import annotations

from collections.abc import Iterator

from figures.ruler_sums import UNITS
from figures.words import esc, width

LEFT, ROOM = 20, 840
"""Where strips begin, and how long they are, in px."""

STRIP = 46
"""Height of a strip."""

_TICKS = 7  # most ticks of a ruler


# --- rulers ---------------------------------------------------------------------------


def tick_step(num_bytes: float) -> int:
    """The distance of a ruler's ticks in bytes: a power of two, at most `_TICKS` of
    them in `num_bytes`."""
    step = 1
    while num_bytes / step > _TICKS:
        step *= 2
    return step


def tick_text(num_bytes: int) -> str:
    """A tick's number, in the largest unit that divides it."""
    for name, size in reversed(UNITS.items()):
        if num_bytes and num_bytes % size == 0:
            return f"{num_bytes // size:,} {name}"
    return f"{num_bytes:,} B" if num_bytes else "0"


def ruler(num_bytes: float, y: float) -> Iterator[str]:
    """A ruler over the whole width; its end has no number, a strip says how long."""
    step = tick_step(num_bytes)
    scale = ROOM / num_bytes
    yield f"<path class='rule' d='M{LEFT} {y:g}h{ROOM}'/>"
    for n in range(int(num_bytes // step) + 1):
        x = LEFT + n * step * scale
        text = tick_text(n * step)
        half = width(text) / 2
        at = min(max(x, LEFT + half), LEFT + ROOM - half)
        yield f"<path class='rule' d='M{x:.1f} {y:g}v7'/>"
        yield f"<text class='note mid' x='{at:.1f}' y='{y + 21:g}'>{text}</text>"


# --- strips ---------------------------------------------------------------------------


def box(kind: str, x: float, top: float, wide: float) -> str:
    """A piece of a strip, `wide` px of it."""
    return (
        f"<rect class='{kind}' x='{x:.1f}' y='{top:g}' width='{wide:.1f}' "
        f"height='{STRIP}'/>"
    )


def said(text: str, x: float, wide: float, top: float, plate: bool = False) -> str:
    """Words in the middle of a strip; none where they have no room."""
    long = width(text, 13) + 16
    if long > wide:
        return ""
    middle = x + wide / 2
    ground = ""
    if plate:
        ground = (
            f"<rect class='plate' x='{middle - long / 2:.1f}' y='{top + 12:g}' "
            f"width='{long:.1f}' height='22' rx='5'/>"
        )
    return (
        f"{ground}<text class='mid' x='{middle:.1f}' y='{top + 28:g}'>"
        f"{esc(text)}</text>"
    )


def cuts(x: float, top: float, each: float, count: int) -> str:
    """Where each of `count` equal pieces ends and the next begins."""
    marks = (f"M{x + i * each:.1f} {top:g}v{STRIP}" for i in range(1, count))
    return f"<path class='cut' d='{''.join(marks)}'/>"
