"""The small things that a ribbon is made of: its band, its cells, its gaps."""

from __future__ import annotations

from collections.abc import Sequence

from figures.draw_pool import heading, plate
from figures.layout import LEFT, ROOM
from figures.ribbon.layout import BAND, HEIGHT
from figures.words import esc

NOTHING_BEFORE = "the record begins here"


def head(title: str, notes: Sequence[str], nothing: bool) -> str:
    """Heading and ribbon: a band with its point at the left, where blocks are taken."""
    x, right = LEFT, LEFT + ROOM
    band = (
        f"<path class='ribbon{' none' if nothing else ''}' d='M{x + 16} 0H{right}"
        f"v{BAND}H{x + 16}L{x} {BAND / 2:g}z'/>"
    )
    text = (
        f"<text class='end' x='{x + 18}' y='39'>head</text>"
        f"<text class='end last' x='{right - 10}' y='39'>tail</text>"
    )
    if nothing:
        text = f"<text class='note' x='{x + 30}' y='39'>{NOTHING_BEFORE}</text>"
    return f"{heading(title, *notes)}{band}{text}"


def edge(w: float, h: float) -> str:
    """The outline of a cell."""
    return f"<rect class='edge' width='{w:.1f}' height='{h:g}' rx='6'/>"


def number(w: float, block_id: int, y: float) -> str:
    """The block's number, in the middle of its cell."""
    return f"<text class='id mid' x='{w / 2:.1f}' y='{y:g}'>{block_id}</text>"


def free_cell(w: float, block_id: int, digits: str) -> str:
    """A free block: blank, or hatched with the digits of what it remembers."""
    if not digits:
        return f"{edge(w, HEIGHT)}{number(w, block_id, 31)}"
    ground = plate(w / 2 - 4 - 4.5 * len(str(block_id)), 5, block_id)
    return (
        f"{edge(w, HEIGHT)}{ground}{number(w, block_id, 19)}"
        f"<rect class='plate' x='{w / 2 - 18:.1f}' y='26' width='36' height='19' "
        f"rx='4'/><text class='hash' x='{w / 2:.1f}' y='40'>{digits}</text>"
    )


def gap(x: float, top: float, skipped: int) -> str:
    """The sign for blocks that are left out, and how many they are."""
    return (
        f"<text class='note mid' x='{x:.1f}' y='{top + 22:g}'>…</text>"
        f"<text class='note mid' x='{x:.1f}' y='{top + 40:g}'>{skipped:,}</text>"
    )


def bands(w: float, owners: Sequence[str], texts: Sequence[str]) -> str:
    """Who uses a block: a band for each, in its colour and with its name."""
    share = (w - 4) / max(len(owners), 1)
    return "".join(
        f"<g class='{owner}'><rect class='band' x='{2 + i * share:.1f}' y='23' "
        f"width='{share:.1f}' height='19'/>"
        f"<path class='stripe' d='M{4 + i * share:.1f} 40.5h{share - 4:.1f}'/>"
        f"<text class='who' x='{2 + (i + 0.5) * share:.1f}' y='37'>{esc(text)}</text>"
        "</g>"
        for i, (owner, text) in enumerate(zip(owners, texts, strict=True))
    )
