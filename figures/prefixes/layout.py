"""Where everything stands in a picture of chains: geometry only."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from figures.layout import MARGIN, WIDTH

LEFT = 116  # where the blocks begin; the names of the prompts stand before it
ROOM = WIDTH - MARGIN - LEFT
TAG = 80  # width of a name tag
GAP = 24  # between two blocks, for the arrow
HEAD, BAND = 22, 19  # of a block: its numbers, its owners
SLOT = 24  # height of a line of tokens
CHIP = 22  # height of a hash
PILL = 24  # under a block, for the word that says what became of it
NOTE = 22  # under a prompt, for the line that counts
NARROWEST = 78.0
_CELLS = {"words": 46.0, "characters": 17.0}
_WIDEST = {"words": 84.0, "characters": 30.0}


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of all blocks of one picture."""

    columns: int
    per_line: int
    lines: int
    cell: float
    width: float

    @property
    def height(self) -> float:
        """Of a block, without the word under it."""
        return HEAD + BAND + 5 + self.lines * SLOT + CHIP + 6

    @property
    def pitch(self) -> float:
        """From one line of blocks to the next."""
        return self.height + PILL + 6

    @property
    def chip_y(self) -> float:
        """Middle of the hash, where the arrows run."""
        return self.height - 4 - CHIP / 2

    def spot(self, place: int) -> tuple[float, float]:
        """Top left corner of the block at this place, from the first one's."""
        line, column = divmod(place, self.columns)
        return LEFT + column * (self.width + GAP), line * self.pitch

    def cell_spot(self, slot: int) -> tuple[float, float]:
        """Top left corner of a token, from that of its block."""
        line, column = divmod(slot, self.per_line)
        return 6 + column * (self.cell + 2), HEAD + BAND + 5 + line * SLOT


def shape(block_size: int, tokens: str) -> Shape:
    """Blocks as wide as their tokens need, and as many in a line as fit."""
    wanted, widest = _CELLS[tokens], _WIDEST[tokens]
    most = 4 if tokens == "words" else 16
    lines = ceil(block_size / most)
    per_line = ceil(block_size / lines)
    box = max(per_line * (wanted + 2) + 10, NARROWEST)
    columns = max(int((ROOM + GAP) // (box + GAP)), 1)
    box = min((ROOM + GAP) / columns - GAP, per_line * (widest + 2) + 10)
    box = max(box, NARROWEST)
    cell = (box - 12 + 2) / per_line - 2
    return Shape(columns, per_line, lines, cell, box)


def fitting(count: int, room: int) -> list[int | None]:
    """Which of `count` blocks to draw in `room` places: the first ones, a gap (None)
    for those left out, the last one."""
    if count <= room:
        return list(range(count))
    return [*range(room - 2), None, count - 1]
