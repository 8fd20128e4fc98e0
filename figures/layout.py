"""Where everything stands: the geometry of a block map, without any drawing.

From top to bottom: one row of logical blocks per sequence, a zone kept free for the
mapping lines, the pool of physical blocks, the free queue. On the left, a column of
headings. All lengths are px at normal zoom.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from figures.scene import Scene
from figures.words import width

WIDTH = 880
MARGIN = 16
LEFT = 112  # where the content begins; the headings stand before it
ROOM = WIDTH - MARGIN - LEFT

BOX_HEAD = 20  # line of text at the top of a logical block
SLOT = 24  # height of a slot in a logical block
LINE_GAP, ROW_GAP = 8, 14
STRIP_HEIGHT = 32  # of a sequence's row above a heat strip
CELL_HEIGHT = 78
TAG_ROOM = 20  # under a physical block, for the word that says what happened to it
QUEUE_CELL, QUEUE_HEIGHT, QUEUE_GAP = 40, 32, 8

ALL_LINES_UP_TO = 17
"""Largest pool whose lines are all drawn (16 blocks and the null block)."""

DETAIL_UP_TO = 65
"""Largest pool whose blocks are drawn one by one (64 and the null block)."""

MAX_ROWS = 12
"""Most sequences that are drawn in full."""


@dataclass(frozen=True, slots=True)
class Place:
    """A logical block's box: its index in the table, and its top left corner."""

    index: int
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence: its top, its height, its boxes, and how many don't fit."""

    seq_id: str
    y: float
    height: float
    places: tuple[Place, ...]
    gap: Place | None = None
    """Where boxes are left out: `gap.index` of them."""


@dataclass(frozen=True, slots=True)
class BoxShape:
    """The form of all logical blocks of one picture."""

    columns: int
    per_line: int
    lines: int
    lane: float
    """Free strip at the right of each column, for lines."""
    width: float
    height: float
    cell: float
    """Width of one slot."""
    texts: bool
    """Whether a slot has room for its token."""


@dataclass(frozen=True, slots=True)
class Room:
    """Room that all frames of a run keep: then pool and queue stand still in them."""

    pool: float = 0.0
    """Where the pool begins, at least."""
    queue: float = 0.0
    """Height of the free queue, at least."""

    def joined(self, other: Room) -> Room:
        """Room for both."""
        return Room(max(self.pool, other.pool), max(self.queue, other.queue))


NO_ROOM = Room()


def in_detail(scene: Scene) -> bool:
    """Whether every block is drawn by itself."""
    return scene.snapshot.num_blocks <= DETAIL_UP_TO


def box_shape(scene: Scene) -> BoxShape:
    """Boxes as large as the block size and the longest table allow."""
    if not in_detail(scene):
        return BoxShape(1, 1, 0, 0, ROOM, STRIP_HEIGHT, ROOM, texts=False)
    return _box_shape(scene.snapshot.block_size, scene.longest > 3, _lane(scene))


@lru_cache(maxsize=64)
def _box_shape(block_size: int, many: bool, lane: float) -> BoxShape:
    texts = block_size <= 16
    if not texts:
        columns, per_line = 4, 1
    elif block_size <= 4:
        columns = 5 if block_size <= 2 else 4 if many else 3
        per_line = block_size
    else:
        columns, per_line = 2, min(block_size, 8)
    lines = ceil(block_size / per_line) if texts else 1
    box = ROOM / columns - lane
    return BoxShape(
        columns,
        per_line,
        lines,
        lane,
        width=box,
        height=BOX_HEAD + lines * SLOT + 6,
        cell=(box - 10 + 2) / per_line - 2,
        texts=texts,
    )


def _lane(scene: Scene) -> float:
    """Wide enough to tell the lines of all rows apart."""
    few = scene.snapshot.num_blocks > ALL_LINES_UP_TO
    return 24.0 if few else 10.0 + 4 * min(max(scene.most, 3), 9)


def rows(scene: Scene, shape: BoxShape, top: float) -> list[Row]:
    """The rows of the sequences, from `top` down."""
    placed = []
    for seq_id in _shown(scene):
        row = _row(scene, seq_id, shape, top)
        placed.append(row)
        top += row.height + row_gap(scene)
    return placed


def row_gap(scene: Scene) -> float:
    """Between two sequences."""
    return ROW_GAP if in_detail(scene) else 6


def _shown(scene: Scene) -> list[str]:
    """All sequences or, if they are too many, the first ones and those concerned."""
    names = list(scene.snapshot.sequences)
    if len(names) <= MAX_ROWS:
        return names
    asked = scene.event.seq_id if scene.event is not None else None
    concerned = [n for n in names if n == asked or f"seq:{n}" in _prefixes(scene)]
    first = [n for n in names if n not in concerned][: MAX_ROWS - len(concerned)]
    return [n for n in names if n in {*first, *concerned[:MAX_ROWS]}]


def _prefixes(scene: Scene) -> set[str]:
    selected = scene.selected or ""
    return {selected, selected.rpartition(":logical:")[0]}


def _row(scene: Scene, seq_id: str, shape: BoxShape, top: float) -> Row:
    if not in_detail(scene):
        return Row(seq_id, top, shape.height, ())
    count = len(scene.snapshot.sequences[seq_id].block_table)
    indices, left_out = _fitting(count, 3 * shape.columns)
    spots = [_spot(i, shape, top) for i in range(len(indices))]
    places = [
        Place(index, x, y)
        for index, (x, y) in zip(indices, spots, strict=True)
        if index is not None
    ]
    gap = None
    if left_out:
        gap = Place(left_out, *spots[indices.index(None)])
    height = (spots[-1][1] if spots else top) + shape.height - top
    return Row(seq_id, top, height, tuple(places), gap)


def _fitting(count: int, room: int) -> tuple[list[int | None], int]:
    """Which of `count` boxes to draw in `room`: the first ones, a gap, the last one."""
    if count <= room:
        return list(range(count)), 0
    return [*range(room - 2), None, count - 1], count - room + 1


def _spot(i: int, shape: BoxShape, top: float) -> tuple[float, float]:
    line, column = divmod(i, shape.columns)
    return LEFT + column * (shape.width + shape.lane), top + line * (
        shape.height + LINE_GAP
    )


# --- the pool -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grid:
    """The pool: where each physical block stands. `top` is set when it is known."""

    columns: int
    cell: float
    gap: float
    rows: int
    top: float = 0.0

    @property
    def pitch(self) -> float:
        """From one row of blocks to the next."""
        return CELL_HEIGHT + TAG_ROOM + 6

    @property
    def height(self) -> float:
        """Of the whole grid, with room for the words under the last row."""
        return self.rows * self.pitch - 6

    def x(self, block_id: int) -> float:
        """Left edge of a block."""
        return LEFT + block_id % self.columns * (self.cell + self.gap)

    def y(self, block_id: int) -> float:
        """Top edge of a block."""
        return self.top + block_id // self.columns * self.pitch


def grid(scene: Scene) -> Grid:
    """One row for up to 16 blocks if the owners' names fit, else balanced rows."""
    count = scene.snapshot.num_blocks
    names = max((width(name, 13, True) for name in scene.colours), default=0)
    smallest = min(max(40.0, names + 12), 72.0) if count <= 24 else 40.0
    gap = 6.0 if smallest == 40.0 else 10.0
    most = int((ROOM + gap) // (smallest + gap))
    lines = ceil(count / most)
    columns = ceil(count / lines)
    if lines > 1 and columns % 2:
        columns += 1 if columns < most else 0
    cell = min((ROOM + gap) / columns - gap, 90.0)
    return Grid(columns, cell, gap, ceil(count / columns))
