"""Where the cells of a ribbon stand: which blocks are shown, and at which x.

A queue of any length fits into one line: what changed in the step is shown, then the
head and the tail, and each gap says how many blocks are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from figures.layout import LEFT, MARGIN, ROOM

GAP = 8
SMALLEST, LARGEST = 42.0, 60.0
INSET, OUTSET = 62, 42  # before the first cell and behind the last: "head", "tail"
HEIGHT = 52  # of a cell
BAND = HEIGHT + 16  # of a ribbon
MOST = 13
"""Most cells in a line, the gaps among them."""

LEAVING, BEFORE, AFTER, COMING, IN_USE = 16, 70, 216, 300, 364
"""Top edges, from top to bottom: words for who leaves, the queue before, the queue
after, words for who comes, the blocks in use."""

TOTAL = IN_USE + 60 + MARGIN


@dataclass(frozen=True, slots=True)
class Spot:
    """One place of a line: a block, or a gap of `skipped` blocks."""

    x: float
    block_id: int | None
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """The cells of one ribbon."""

    cell: float
    spots: tuple[Spot, ...]

    def middles(self) -> dict[int, float]:
        """Block -> the middle of its cell."""
        spots = ((s.block_id, s.x + self.cell / 2) for s in self.spots)
        return {block_id: x for block_id, x in spots if block_id is not None}


def cell_width(num_blocks: int) -> float:
    """As wide as a pool of this size allows, the same in all its frames."""
    count = min(max(num_blocks - 1, 1), MOST)
    room = ROOM - INSET - OUTSET
    return min(max((room + GAP) / count - GAP, SMALLEST), LARGEST)


def line(queue: Sequence[int], wanted: Collection[int], num_blocks: int) -> Line:
    """A line for `queue` in which the `wanted` blocks are shown, as far as they fit."""
    cell, spots, last = cell_width(num_blocks), list[Spot](), -1
    shown = _shown(queue, wanted)
    for place in shown:
        x = LEFT + INSET + len(spots) * (cell + GAP)
        if place > last + 1:
            spots.append(Spot(x, None, place - last - 1))
            x += cell + GAP
        spots.append(Spot(x, queue[place]))
        last = place
    return Line(cell, tuple(spots))


def _shown(queue: Sequence[int], wanted: Collection[int]) -> list[int]:
    """Places of the queue to show: both ends, the wanted, then more of the head."""
    if len(queue) <= MOST:
        return list(range(len(queue)))
    kept = {0, 1, len(queue) - 2, len(queue) - 1}
    ends = [i for i, b in enumerate(queue) if b in wanted]
    for place in (*ends, *range(len(queue))):
        if len(kept) >= MOST:
            break
        if _cells(kept | {place}) <= MOST:
            kept.add(place)
        elif place not in ends:
            break
    return sorted(kept)


def _cells(places: Collection[int]) -> int:
    """Cells for these places: one each, and one for each gap between them."""
    order = sorted(places)
    return len(order) + sum(b > a + 1 for a, b in pairwise(order))
