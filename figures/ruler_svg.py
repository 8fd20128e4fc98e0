"""The pool with a byte ruler: the budget, its first blocks and one slot, to scale.

Three strips, each magnifying the left end of the one above it, with a ruler in bytes
under each, and the arithmetic beneath. A pure function of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from figures.ruler_marks import LEFT, ROOM, STRIP, box, cuts, ruler, said
from figures.ruler_sums import PoolSums, size_text
from figures.sheet import frame, one_line
from figures.words import clip, esc, plural, width

WIDTH = 880
_BLOCKS = 8  # blocks of the second strip
_DRAWN = 60  # most blocks that the first strip draws one by one
_RULE, _LINE = 322, 26  # column of the rules, height of a line of arithmetic

_HALVES = ("K", "V")


def ruler_svg(sums: PoolSums, name: str, words: str, prefix: str = "kruler") -> str:
    """Draw the pool of `sums` for the model called `name`; `words` tell the picture
    to those who can't see it."""
    picture = _Picture(sums)
    body = "".join(picture.draw())
    return frame(
        body,
        WIDTH,
        picture.height,
        name=f"The memory pool of {name}",
        words=words,
        prefix=prefix,
        owners=(),
        kind="kvruler",
        css=_CSS,
    )


# --- the picture ----------------------------------------------------------------------


@dataclass(slots=True)
class _Picture:
    """One picture being laid out from top to bottom; `height` grows as it goes."""

    sums: PoolSums
    height: float = 6
    slot_width: float = 0.0
    """Of a slot in the second strip, in px."""

    def draw(self) -> Iterator[str]:
        yield from self.budget()
        yield from self.blocks()
        yield from self.slot()
        yield from self.arithmetic()

    def head(self, text: str, note: str) -> str:
        self.height += 20
        room = ROOM - width(text, 14, True) - 12
        return (
            f"<text class='head' x='{LEFT}' y='{self.height:g}'>{esc(text)}"
            f"<tspan class='note' dx='10'>{esc(clip(note, room))}</tspan></text>"
        )

    def zoom(self, part: float) -> str:
        """From the left end of the strip above (`part` px of it) to the whole of the
        next one."""
        y, x = self.height, LEFT + min(max(part, 2), ROOM)
        self.height += 16
        return (
            f"<path class='zoom' d='M{LEFT} {y:g}H{x:.1f}L{LEFT + ROOM} {y + 16:g}"
            f"H{LEFT}z'/>"
        )

    # --- the budget ---

    def budget(self) -> Iterator[str]:
        s = self.sums
        yield self.head(
            f"The budget: {size_text(s.memory_bytes)}", f"{s.memory_bytes:,} bytes"
        )
        top = self.height + 8
        scale = ROOM / s.memory_bytes
        pool = s.num_blocks * s.block_bytes * scale
        yield box("left-over", LEFT, top, ROOM)
        if s.num_blocks:
            null = max(s.block_bytes * scale, 2)
            yield box("pool", LEFT, top, pool)
            if s.num_blocks <= _DRAWN:
                yield cuts(LEFT, top, s.block_bytes * scale, s.num_blocks)
            yield box("none", LEFT, top, null)
            yield from self.budget_texts(top, null, pool)
        else:
            yield said("no pool fits into it", LEFT, ROOM, top)
        yield from ruler(s.memory_bytes, top + STRIP)
        self.height = top + STRIP + 30

    def budget_texts(self, top: float, null: float, pool: float) -> Iterator[str]:
        s = self.sums
        free = f"{plural(s.usable, 'block')} for requests, {plural(s.tokens, 'token')}"
        yield said(free, LEFT + null, pool - null, top, plate=True)
        left = size_text(s.left_over)
        yield said(f"{left} left over", LEFT + pool, ROOM - pool, top)

    # --- its first blocks ---

    def blocks(self) -> Iterator[str]:
        s = self.sums
        shown = min(s.num_blocks, _BLOCKS) or 2
        yield self.zoom(shown * s.block_bytes * ROOM / s.memory_bytes)
        yield self.head(
            f"Its first {shown} blocks" if s.num_blocks else "The smallest pool",
            f"{size_text(s.block_bytes)} each: "
            f"{plural(s.spec.block_size, 'slot')} of {size_text(s.token_bytes)}",
        )
        top, each = self.height + 8, ROOM / shown
        for i in range(shown):
            yield from self.block(i, LEFT + i * each, top, each)
        yield from ruler(shown * s.block_bytes, top + STRIP)
        self.height = top + STRIP + 30
        self.slot_width = each / s.spec.block_size

    def block(self, i: int, x: float, top: float, wide: float) -> Iterator[str]:
        yield box("none" if i == 0 else "pool", x, top, wide)
        classes = "id on" if i == 0 else "id"
        text = "0 ∅" if i == 0 else str(i)
        yield f"<text class='{classes}' x='{x + 7:.1f}' y='{top + 18:g}'>{text}</text>"
        size = self.sums.spec.block_size
        gap = 2 if size <= 16 else 1
        cell = (wide - 12 + gap) / size - gap
        if cell >= 1.5 and i:
            cells = "".join(
                f"M{x + 6 + n * (cell + gap):.1f} {top + 26:g}h{cell:.1f}v13"
                f"h-{cell:.1f}z"
                for n in range(size)
            )
            yield f"<path class='bar none' d='{cells}'/>"
        elif i:
            yield (
                f"<text class='note' x='{x + 7:.1f}' y='{top + 38:g}'>"
                f"{plural(size, 'slot')}</text>"
            )

    # --- one slot ---

    def slot(self) -> Iterator[str]:
        s, spec = self.sums, self.sums.spec
        yield self.zoom(self.slot_width)
        layers = plural(spec.num_layers, "layer")
        yield self.head(
            "One slot, one token: K and V in every layer",
            f"2 × {layers} = {2 * spec.num_layers} pieces of "
            f"{size_text(s.token_bytes // (2 * spec.num_layers))}",
        )
        top, half = self.height + 8, ROOM / 2
        for i, name in enumerate(_HALVES):
            x = LEFT + i * half
            yield box("pool", x, top, half)
            if spec.num_layers <= half / 3:
                yield cuts(x, top, half / spec.num_layers, spec.num_layers)
            one = f"{name} of {layers}"
            yield said(one, x, half, top, plate=True)
        yield from ruler(s.token_bytes, top + STRIP)
        self.height = top + STRIP + 30
        for line in _NOTE:
            self.height += 17
            yield f"<text class='note' x='{LEFT}' y='{self.height:g}'>{line}</text>"

    # --- the arithmetic ---

    def arithmetic(self) -> Iterator[str]:
        self.height += 32
        yield f"<text class='head' x='{LEFT}' y='{self.height:g}'>The arithmetic</text>"
        self.height += 10
        top = self.height
        for one in self.sums.equations():
            self.height += _LINE
            y = self.height - 5
            yield f"<text class='note' x='{LEFT + 12}' y='{y:g}'>{one.rule}</text>"
            yield (
                f"<text class='sum' x='{LEFT + _RULE}' y='{y:g}'>{one.text}"
                f"<tspan class='what' dx='12'>{one.outcome}</tspan></text>"
            )
        self.height = top + 6 * _LINE + 12  # the same for a budget that is too small
        yield (
            f"<rect class='panel' x='{LEFT}' y='{top:g}' width='{ROOM}' "
            f"height='{self.height - top:g}' rx='8'/>"
        )
        self.height += 14


_NOTE = (
    "To scale, and no map of addresses: in the tensor, the K of one layer lie together "
    "for all blocks,",
    "then the K of the next, and then all V. One block id stands for its piece in each "
    "of them.",
)

_CSS = one_line("""
.kvruler .rule{stroke:var(--edge);fill:none}
.kvruler .zoom{fill:var(--inset);stroke:var(--line)}
.kvruler .pool{fill:var(--paper);stroke:var(--edge);stroke-width:1.6}
.kvruler rect.none{fill:var(--null);stroke:var(--null)}
.kvruler .left-over{fill:var(--inset);stroke:var(--edge);stroke-dasharray:4 3}
.kvruler .cut{stroke:var(--line);fill:none}
.kvruler .on{fill:var(--on-null)}
.kvruler .panel{fill:none;stroke:var(--line)}
.kvruler .head .note{font-size:13px;font-weight:400}
.kvruler .sum{font-family:var(--mono);font-size:14px}
.kvruler .what{font-family:var(--sans);font-size:13px;font-weight:700}
""")
