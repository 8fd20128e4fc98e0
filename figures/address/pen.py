"""How the stations of an address look: each one has a colour, an outline and a name.

The number in an equation and the thing it stands for are drawn with the same outline
(round, square, dotted, dashed, ...) in the same colour, so that they find each other
without colours too. The chosen sequence keeps its own colour: a station that would have
the same one takes blue instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from figures.address.trail import Quantity, Trail
from figures.lines import Point, rounded
from figures.marks import Mark
from figures.scene import Scene
from figures.sheet import one_line
from figures.theme import COLOURS
from figures.words import fitted, width

_PALETTE = {
    Quantity.LOGICAL: "purple",
    Quantity.OFFSET: "orange",
    Quantity.BLOCK: "green",
    Quantity.SLOT: "vermilion",
    Quantity.BYTE: "sky",
}
_SPARE = "blue"
_RADIUS = {Quantity.LOGICAL: 11, Quantity.BLOCK: 2}
_NAMES = [colour.name for colour in COLOURS]

CHIP = 22  # height of a number's outline


@dataclass(frozen=True, slots=True)
class Pen:
    """Draws the marks of one picture."""

    way: Trail
    scene: Scene
    mark: Mark

    def colour(self, quantity: Quantity) -> int | None:
        """The station's place in the palette; the position is black on white."""
        name = _PALETTE.get(quantity)
        if name is None:
            return None
        own = self.scene.colours[self.way.seq_id] % len(COLOURS)
        return _NAMES.index(_SPARE if _NAMES[own] == name else name)

    def classes(self, quantity: Quantity) -> str:
        """CSS classes of a station: its outline and its colour."""
        index = self.colour(quantity)
        return f"q-{quantity.name.lower()}" + ("" if index is None else f" o{index}")

    def colours(self) -> list[int]:
        """Every place in the palette that this picture uses."""
        found = (self.colour(quantity) for quantity in Quantity)
        own = self.scene.colours[self.way.seq_id] % len(COLOURS)
        return [own, *(index for index in found if index is not None)]

    def ring(
        self,
        quantity: Quantity | None,
        x: float,
        y: float,
        w: float,
        h: float,
        rx: float = 6,
    ) -> str:
        """The outline around the thing that lights up; a plain one for no station."""
        station = f" {self.classes(quantity)}" if quantity else ""
        return (
            f"<rect class='ring{station}' x='{x:.1f}' y='{y:.1f}' "
            f"width='{w:.1f}' height='{h:.1f}' rx='{rx:g}'/>"
        )

    def path(self, quantity: Quantity, points: Sequence[Point]) -> str:
        """A connection that arrives at the last of `points`, with a dot there."""
        x, y = points[-1]
        name = f"{self.mark.prefix}-way-{quantity.name.lower()}"
        return (
            f"<g id='{name}' class='way {self.classes(quantity)}'>"
            f"<path d='{rounded(points)}'/>"
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5'/></g>"
        )

    def chip(self, quantity: Quantity, text: str, x: float, y: float) -> str:
        """A number (or a name and a number) in its outline, its middle line at `y`."""
        wide = chip_width(text)
        rx = _RADIUS.get(quantity, 6)
        return (
            f"<g class='chip {self.classes(quantity)}'><title>{quantity}</title>"
            f"<rect x='{x:.1f}' y='{y - CHIP / 2:.1f}' width='{wide:.1f}' "
            f"height='{CHIP}' rx='{rx}'/>"
            f"<text x='{x + wide / 2:.1f}' y='{y + 5:.1f}'>{text}</text></g>"
        )


def chip_width(text: str) -> float:
    """Width of a chip around `text`; 0 for no text."""
    return max(width(text, 14, bold=True) + 12, CHIP) if text else 0.0


def fitting(name: str, number: int, room: float) -> str:
    """`name number` if a chip of that fits into `room` px, else the number, else ''."""
    texts = (f"{name} {number}", str(number))
    return next((text for text in texts if chip_width(text) <= room), "")


@lru_cache(maxsize=4096)
def word(text: str, x: float, y: float, room: float, classes: str = "tok") -> str:
    """Text centred at `x`, made to fit into `room` px."""
    squeeze, inside = fitted(text, room)
    return f"<text class='{classes}' x='{x:.1f}' y='{y:.1f}'{squeeze}>{inside}</text>"


PEN_CSS = one_line("""
.kvaddr .ring{fill:none;stroke:var(--own,var(--ink));stroke-width:3.2}
.kvaddr .way path{fill:none;stroke:var(--own);stroke-width:2.4}
.kvaddr .way circle{fill:var(--own);stroke:none}
.kvaddr .chip rect{fill:var(--paper);stroke:var(--own,var(--ink));stroke-width:2}
.kvaddr .chip text{fill:var(--text,var(--ink));font-size:14px;font-weight:700;
text-anchor:middle}
.kvaddr .chip.q-position rect{fill:var(--mark);stroke:var(--mark)}
.kvaddr .chip.q-position text{fill:var(--on-mark)}
.kvaddr .chip.q-block rect{stroke-width:3}
.kvaddr .name-q{fill:var(--text,var(--ink));font-weight:700}
.kvaddr .q-offset:is(.ring,.chip rect),.kvaddr .q-offset rect{
stroke-dasharray:.1 4.5;stroke-linecap:round}
.kvaddr .q-slot:is(.ring),.kvaddr .q-slot :is(rect,path){stroke-dasharray:7 3.5}
.kvaddr .q-byte:is(.ring),.kvaddr .q-byte :is(rect,path){stroke-dasharray:9 3 2 3}
""")
"""Rules for what is drawn here."""
