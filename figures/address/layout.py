"""Where everything stands in an address picture: geometry only, nothing is drawn.

From top to bottom: the sequence's logical blocks, then its block table beside the pool,
then the chosen block's slots as they lie in memory, then the arithmetic. Connections
run in strips that hold nothing else: one at each edge of the picture, one between the
table and the pool, and one above every row of blocks.

What is too long is shown as a window around the chosen token, and the picture says how
much it leaves out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from blockmgr.table import Address

WIDTH = 640
LEFT, RIGHT = 30, 610
ROOM = RIGHT - LEFT
EDGE = 15  # the strips at the edges, from either side
GAP = 3  # between two slots
PAD = 8  # inside a box
HEAD = 29  # the line of text on top of a box
BLOCK_HEAD = 25  # the same in the pool
CELL = 42  # height of a token's cell: its text, and its position
BOX_GAP = 10
STRIP = 14  # above every row of blocks, for connections
TABLE_WIDTH = 138
TABLE_ROW = 26
POOL_LEFT = LEFT + TABLE_WIDTH + 26
POOL_GAP = 8
SLOT = 13  # height of a slot in the pool
SIDE = 66  # the neighbours of the chosen block in memory
MOST_LINES = 6


@dataclass(frozen=True, slots=True)
class Window:
    """A run of `count` things of which `first` to `last - 1` are shown."""

    first: int
    last: int
    count: int

    @classmethod
    def around(cls, chosen: int, count: int, room: int) -> Window:
        """At most `room` of `count` things, the chosen one as near to the middle as the
        ends allow."""
        first = max(0, min(chosen - room // 2, count - room))
        return cls(first, min(first + room, count), count)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last))

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def after(self) -> int:
        """How many are left out behind the last one shown."""
        return self.count - self.last


class Rows(ABC):
    """Rows of boxes of one size, `columns` in a row; `rows` says which are drawn."""

    __slots__ = ()
    left: ClassVar[float]
    gap: ClassVar[float]
    columns: int
    top: float
    rows: Window

    @property
    @abstractmethod
    def width(self) -> float:
        """Width of a box."""

    @property
    @abstractmethod
    def height(self) -> float:
        """Height of a box."""

    @property
    def bottom(self) -> float:
        """Where the last row ends."""
        return self.top + len(self.rows) * (self.height + STRIP) - STRIP

    def shown(self, count: int) -> range:
        """Which of `count` boxes are in the picture."""
        first, last = self.rows.first * self.columns, self.rows.last * self.columns
        return range(first, min(last, count))

    def spot(self, index: int) -> tuple[float, float]:
        """Top left corner of a box."""
        row, column = divmod(index, self.columns)
        y = self.top + (row - self.rows.first) * (self.height + STRIP)
        return self.left + column * (self.width + self.gap), y


@dataclass(frozen=True, slots=True)
class Boxes(Rows):
    """The logical blocks: rows of equal boxes with `per_line` cells a line.

    A box shows `lines` lines. Of a block with more lines, the chosen box shows those
    around the chosen cell, every other box its first ones.
    """

    left: ClassVar[float] = LEFT
    gap: ClassVar[float] = BOX_GAP
    size: int
    per_line: int
    lines: int
    columns: int
    cell: float
    top: float
    rows: Window
    logical_block: int
    offset: int

    @classmethod
    def fit(
        cls, top: float, size: int, count: int, cell: float, where: Address
    ) -> Boxes:
        """Boxes for `count` blocks of `size` slots, cells of at least `cell` px; the
        box of `where` is in the picture."""
        full = ceil(size / _most(ROOM - 2 * PAD, cell))
        per_line, lines = ceil(size / full), min(full, MOST_LINES)
        columns = _most_boxes(per_line, cell)
        room = max(MOST_LINES // lines, 1)
        rows = Window.around(
            where.logical_block // columns, ceil(count / columns), room
        )
        return cls(
            size=size,
            per_line=per_line,
            lines=lines,
            columns=columns,
            cell=min(_cell(per_line, columns), 72.0),
            top=top,
            rows=rows,
            logical_block=where.logical_block,
            offset=where.offset,
        )

    def slots(self, index: int) -> Window:
        """The slots of a box that are in the picture: whole lines."""
        line = self.offset // self.per_line if index == self.logical_block else 0
        window = Window.around(line, ceil(self.size / self.per_line), self.lines)
        last = min(window.last * self.per_line, self.size)
        return Window(window.first * self.per_line, last, self.size)

    def left_out(self, count: int, tokens: int) -> int:
        """How many of `tokens` in `count` blocks are not in the picture."""
        shown = 0
        for index in self.shown(count):
            slots, first = self.slots(index), index * self.size
            shown += max(min(slots.last, tokens - first) - slots.first, 0)
        return tokens - shown

    @property
    def width(self) -> float:
        """Width of a box."""
        return self.per_line * (self.cell + GAP) - GAP + 2 * PAD

    @property
    def height(self) -> float:
        """Height of a box."""
        return HEAD + self.lines * (CELL + GAP) - GAP + PAD

    def cell_spot(self, index: int, offset: int) -> tuple[float, float]:
        """Top left corner of a cell, from that of its box."""
        line, column = divmod(offset - self.slots(index).first, self.per_line)
        return PAD + column * (self.cell + GAP), HEAD + line * (CELL + GAP)


def _most(room: float, wanted: float) -> int:
    return max(int((room + GAP) // (wanted + GAP)), 1)


def _cell(per_line: int, columns: int) -> float:
    box = (ROOM + BOX_GAP) / columns - BOX_GAP
    return (box - 2 * PAD + GAP) / per_line - GAP


def _most_boxes(per_line: int, wanted: float) -> int:
    box = per_line * (wanted + GAP) - GAP + 2 * PAD
    return max(int((ROOM + BOX_GAP) // (box + BOX_GAP)), 1)


@dataclass(frozen=True, slots=True)
class Pool(Rows):
    """The pool: rows of physical blocks with `per_line` slots a line."""

    left: ClassVar[float] = POOL_LEFT
    gap: ClassVar[float] = POOL_GAP
    columns: int
    per_line: int
    lines: int
    top: float
    rows: Window

    @classmethod
    def fit(cls, top: float, size: int, count: int, wanted: float, chosen: int) -> Pool:
        """Up to `MOST_LINES` rows of blocks, that of block `chosen` among them. In a
        large pool the blocks are smaller, but not under `wanted` px if 4 fit so."""
        room = int((RIGHT - POOL_LEFT + POOL_GAP) // (wanted + POOL_GAP))
        columns = 4 if count <= 12 else max(4, min(room, 6))
        per_line = size if size <= 4 else min(ceil(size / ceil(size / 8)), 8)
        lines = ceil(size / per_line) if size <= 32 else 1
        rows = Window.around(chosen // columns, ceil(count / columns), MOST_LINES)
        return cls(columns, per_line, lines, top, rows)

    @property
    def width(self) -> float:
        """Width of a block."""
        return (RIGHT - POOL_LEFT + POOL_GAP) / self.columns - POOL_GAP

    @property
    def height(self) -> float:
        """Height of a block."""
        return BLOCK_HEAD + self.lines * (SLOT + 2) + 5

    def slot_width(self) -> float:
        """Width of one slot."""
        return (self.width - 2 * PAD + 2) / self.per_line - 2

    def slot_spot(self, offset: int) -> tuple[float, float]:
        """Top left corner of a slot, from that of its block."""
        line, column = divmod(offset, self.per_line)
        return PAD + column * (self.slot_width() + 2), BLOCK_HEAD + line * (SLOT + 2)


@dataclass(frozen=True, slots=True)
class Strip:
    """One block's slots side by side, with room for its neighbours at both ends."""

    cell: float
    top: float
    slots: Window

    @classmethod
    def fit(cls, top: float, size: int, wanted: float, chosen: int) -> Strip:
        """As many of the block's slots as fit, the chosen one among them."""
        room = ROOM - 2 * (SIDE + GAP)
        slots = Window.around(chosen, size, _most(room, wanted))
        cell = min((room + GAP) / len(slots) - GAP, 96.0)
        return cls(cell, top, slots)

    @property
    def left(self) -> float:
        """Left edge of the first slot shown; the strip as a whole is centred."""
        wide = len(self.slots) * (self.cell + GAP) - GAP
        return LEFT + (ROOM - wide) / 2

    @property
    def right(self) -> float:
        """Right edge of the last slot shown."""
        return self.left + len(self.slots) * (self.cell + GAP) - GAP

    def x(self, offset: int) -> float:
        """Left edge of a slot."""
        return self.left + (offset - self.slots.first) * (self.cell + GAP)
