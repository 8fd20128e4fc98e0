"""`address_svg`: one token's way from its position to its bytes, as an SVG string.

Everything that belongs to the token lights up together: its cell in the row of tokens,
the entry of the block table, the block and the slot in the pool, the slot's bytes. The
arithmetic stands beneath, each number in the outline of the thing it lights. It is a
pure function: the same arguments give the same string everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from blockmgr.events import Snapshot
from figures.address.layout import (
    CELL,
    EDGE,
    LEFT,
    POOL_LEFT,
    ROOM,
    SLOT,
    STRIP,
    TABLE_ROW,
    TABLE_WIDTH,
    WIDTH,
    Boxes,
    Pool,
    Strip,
    Window,
)
from figures.address.memory import (
    draw_pool,
    draw_strip,
    lit_slot,
    wanted_block,
    wanted_slot,
)
from figures.address.pen import PEN_CSS, Pen
from figures.address.rows import (
    draw_boxes,
    draw_table,
    draw_title,
    left_out,
    wanted_cell,
)
from figures.address.sums import Sums, sentence
from figures.address.tensor import BAR, draw_bytes, draw_tensor, tensor_note
from figures.address.trail import Quantity, trail
from figures.lines import Point
from figures.marks import Mark, checked
from figures.scene import scene
from figures.sheet import frame, one_line
from figures.words import Labels, esc, isolate, plural


def address_svg(
    snapshot: Snapshot,
    seq_id: str,
    position: int,
    *,
    labels: Labels = None,
    spec: object = None,
    layer: int = 0,
    half: int = 0,
    prefix: str | None = None,
    interactive: bool = False,
) -> str:
    """Draw the address of the token at `position` of sequence `seq_id`.

    `labels` gives tokens their text. `spec` (a `KVShape`, `KVCacheSpec` or `KVCache`)
    adds the bytes: those of K (`half` 0) or V (1) in `layer`. `prefix` begins every id
    and `interactive` adds keys and focus, both as in `block_map`.

    Raises `UnknownSequence` or `InvalidRequest`, saying what there is to choose from.
    """
    way = trail(snapshot, seq_id, position, spec=spec, layer=layer, half=half)
    what = scene(snapshot, labels=labels, selected=f"token:{position}")
    pen = Pen(way, what, Mark(what, checked(prefix) or "\0", interactive))
    picture = _Picture(pen)
    body = "".join(picture.draw())
    whole = frame(
        body,
        WIDTH,
        picture.height,
        name=f"The address of one token of {isolate(way.seq_id)}",
        words=None if interactive else sentence(way, labels),
        prefix=prefix or "\0",
        owners=pen.colours(),
        kind="kvaddr",
        css=_CSS,
    )
    # The prefix is computed from what was drawn: two different pictures never share it.
    return whole if prefix else whole.replace("\0", f"a{crc32(whole.encode()):08x}")


class _Picture:
    """One picture being laid out from top to bottom; `height` grows as it goes."""

    def __init__(self, pen: Pen) -> None:
        self.pen = pen
        self.where = pen.way.address
        self.height: float = 8

    def draw(self) -> Iterator[str]:
        yield from self.sequence()
        yield from self.table_and_pool()
        yield from self.memory()
        yield from self.arithmetic()

    def head(self, text: str, x: float = LEFT, note: str = "") -> str:
        """A heading at the present height, a quiet note behind it."""
        beside = f"<tspan class='note' dx='10'>{note}</tspan>" if note else ""
        return f"<text class='head' x='{x}' y='{self.height:g}'>{text}{beside}</text>"

    def note(self, text: str, x: float = LEFT) -> str:
        return f"<text class='note' x='{x}' y='{self.height:g}'>{text}</text>"

    # --- the sequence ---

    def sequence(self) -> Iterator[str]:
        pen, table = self.pen, self.table
        self.height += 22
        yield draw_title(pen, self.height)
        self.height += 18
        wanted = wanted_cell(pen)
        size = pen.way.block_size
        boxes = Boxes.fit(self.height, size, len(table), wanted, self.where)
        inside = "".join(draw_boxes(pen, boxes))
        yield self.listed(inside)
        self.height = boxes.bottom
        tokens = pen.scene.snapshot.sequences[pen.way.seq_id].token_ids
        hidden = boxes.left_out(len(table), len(tokens))
        if hidden:
            self.height += 23
            yield self.note(f"… {plural(hidden, 'more token')}")
        x, y = boxes.spot(self.where.logical_block)
        self.start: Point = (x + 22, y + boxes.height)

    @property
    def table(self) -> tuple[int, ...]:
        return self.pen.scene.snapshot.sequences[self.pen.way.seq_id].block_table

    def listed(self, inside: str) -> str:
        if not self.pen.mark.interactive:
            return inside
        name = esc(f"tokens of {self.pen.way.seq_id[:80]}")
        return f"<g role='listbox' aria-label='{name}'>{inside}</g>"

    # --- the table and the pool ---

    def table_and_pool(self) -> Iterator[str]:
        pen, way = self.pen, self.pen.way
        self.height += STRIP + 24
        yield self.head("Block table")
        yield self.head(
            "Pool",
            POOL_LEFT,
            f"{way.num_blocks} physical blocks of {plural(way.block_size, 'slot')}",
        )
        top = self.height + STRIP
        pool = Pool.fit(
            top,
            way.block_size,
            way.num_blocks,
            wanted_block(pen),
            self.where.block_id,
        )
        room = max(int((pool.bottom - top) // TABLE_ROW) - 1, 4)
        rows = Window.around(self.where.logical_block, len(self.table), room)
        yield from self.ways(pool, rows)
        yield from draw_table(pen, top, rows)
        yield from draw_pool(pen, pool)
        table_bottom = top + (len(rows) + 1) * TABLE_ROW
        yield from self.hidden(rows, table_bottom, pool)

    def hidden(self, rows: Window, table_bottom: float, pool: Pool) -> Iterator[str]:
        """What table and pool leave out, each under its own."""
        ends = [table_bottom, pool.bottom]
        notes = (_short(rows), left_out(pool.rows, "row"))
        for i, (text, x) in enumerate(zip(notes, (LEFT, POOL_LEFT), strict=True)):
            if text:
                ends[i] += 20
                yield f"<text class='note' x='{x}' y='{ends[i]:g}'>{text}</text>"
        self.height = max(ends)

    def ways(self, pool: Pool, rows: Window) -> Iterator[str]:
        """Logical block -> table entry -> physical block."""
        pen, (x, y) = self.pen, self.start
        line = self.where.logical_block - rows.first + 1
        entry = pool.top + (line + 0.5) * TABLE_ROW
        down = y + STRIP / 2
        yield pen.path(
            Quantity.LOGICAL,
            [(x, y), (x, down), (EDGE, down), (EDGE, entry), (LEFT, entry)],
        )
        left, top = pool.spot(self.where.block_id)
        lane, middle = POOL_LEFT - EDGE, left + 20
        yield pen.path(
            Quantity.BLOCK,
            [
                (LEFT + TABLE_WIDTH, entry),
                (lane, entry),
                (lane, top - STRIP / 2),
                (middle, top - STRIP / 2),
                (middle, top),
            ],
        )
        slot_x, slot_y, wide = lit_slot(pen, pool)
        self.start = (left + slot_x + wide / 2, top + slot_y + SLOT + 2)
        self.under = top + pool.height

    # --- memory ---

    def memory(self) -> Iterator[str]:
        pen, way = self.pen, self.pen.way
        size, block_id = way.block_size, self.where.block_id
        self.height += STRIP + 22
        first, last = block_id * size, (block_id + 1) * size - 1
        slots = f"slot {first}" if size == 1 else f"slots {first} to {last}"
        yield self.head(f"Block {block_id} in memory", note=slots)
        top = self.height + STRIP
        strip = Strip.fit(top, size, wanted_slot(pen), self.where.offset)
        yield self.to_strip(strip)
        yield from draw_strip(pen, strip)
        self.height = top + CELL
        if way.shape is not None:
            self.height += 53
            yield from draw_tensor(pen, self.height, way.shape)
            yield draw_bytes(pen, strip, way.shape)
            self.height += BAR + 3
            for line in tensor_note(way, way.shape):
                self.height += 17
                yield self.note(line)

    def to_strip(self, strip: Strip) -> str:
        """From the slot in the pool, along the right edge, to the slot in the strip."""
        x, y = self.start
        middle = strip.x(self.where.offset) + strip.cell / 2
        out, over, edge = self.under + 7, strip.top - 9, WIDTH - EDGE
        return self.pen.path(
            Quantity.SLOT,
            [
                (x, y),
                (x, out),
                (edge, out),
                (edge, over),
                (middle, over),
                (middle, strip.top),
            ],
        )

    def arithmetic(self) -> Iterator[str]:
        self.height += 34
        yield self.head("The arithmetic")
        self.height += 12
        sums = Sums(self.pen, self.height + 6)
        lines = list(sums.draw())
        bottom = sums.height + 8
        yield (
            f"<rect class='panel' x='{LEFT - 14}' y='{self.height:g}' "
            f"width='{ROOM + 28}' height='{bottom - self.height:g}' rx='8'/>"
        )
        yield from lines
        self.height = bottom + 14


def _short(rows: Window) -> str:
    """What the table leaves out, in as few words as its column has room for."""
    left = len(rows)
    return f"{left} of {rows.count} entries" if left < rows.count else ""


_CSS = PEN_CSS + one_line("""
.kvaddr .pos{fill:var(--muted);text-anchor:middle}
.kvaddr .tag .own{fill:var(--on);font-size:14px;font-weight:700;text-anchor:middle}
.kvaddr .cell.here .slot{fill:var(--mark);stroke:var(--mark)}
.kvaddr .cell.here text{fill:var(--on-mark)}
.kvaddr .grid,.kvaddr .plane{fill:var(--paper);stroke:var(--edge);stroke-width:1.2}
.kvaddr .head-row{fill:var(--inset)}
.kvaddr .panel{fill:none;stroke:var(--line)}
.kvaddr .rule{stroke:var(--line);fill:none}
.kvaddr .num,.kvaddr .sum{font-size:14px}
.kvaddr .sum{font-family:var(--mono)}
.kvaddr .strong{font-weight:700}
.kvaddr .head .note{font-size:13px;font-weight:400}
.kvaddr .right{text-anchor:end}
.kvaddr .owner{font-weight:700;fill:var(--text,var(--muted))}
.kvaddr .other .edge{stroke:var(--edge)}
.kvaddr .other .bar{fill:var(--edge);stroke:var(--edge)}
.kvaddr .other .bar.none{fill:none}
.kvaddr .blk .mark{fill:var(--mark)}
""")
