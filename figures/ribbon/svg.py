"""Drawing a ribbon: the queue before and after a step, and what moved between them.

What left goes up from the upper ribbon, what came goes up into the lower one, and a
line joins each block that stayed. Those lines never cross: nobody in the queue ever
overtakes. Below stand the blocks in use, so that every block of the pool is in sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from blockmgr.block import NULL_BLOCK_ID
from figures.captions import block_caption
from figures.draw_pool import heading, short_names
from figures.film import Frame
from figures.keys import block_key
from figures.layout import WIDTH
from figures.marks import Mark, checked
from figures.ribbon.arrows import ARROWS_CSS, FORGOTTEN, arrows
from figures.ribbon.cells import bands, edge, free_cell, gap, head, number
from figures.ribbon.layout import (
    AFTER,
    BAND,
    BEFORE,
    COMING,
    IN_USE,
    LEAVING,
    TOTAL,
    Line,
    line,
)
from figures.ribbon.moves import Moves, moves
from figures.ribbon.story import block_of
from figures.scene import Plan, Scene, scene
from figures.sheet import frame as sheet
from figures.sheet import one_line
from figures.words import esc


def ribbon_svg(
    frame: Frame,
    *,
    plan: Plan | None = None,
    selected: str | None = None,
    prefix: str | None = None,
    interactive: bool = False,
    words: str = "",
) -> str:
    """Draw the queue before and after `frame`'s event. `words` tell the picture to
    those who can't see it; the rest is as for `block_map`."""
    now = scene(
        frame.after,
        event=frame.event,
        before=frame.before,
        selected=selected,
        plan=plan,
    )
    old = now
    if frame.before is not None:
        old = scene(frame.before, selected=selected, plan=plan)
    start = checked(prefix) or f"kr{frame.step}"
    picture = _Picture(
        moves(frame),
        now,
        old,
        Mark(now, start, interactive),
        Mark(old, start, interactive),
    )
    return sheet(
        "".join(picture.draw()),
        WIDTH,
        TOTAL,
        name="Free queue, before and after",
        words=None if interactive else words,
        prefix=start,
        owners=now.colours.values(),
        kind="kvribbon",
        css=_CSS + ARROWS_CSS,
    )


@dataclass(frozen=True, slots=True)
class _Picture:
    moves: Moves
    now: Scene
    old: Scene
    mark: Mark
    old_mark: Mark

    def draw(self) -> Iterator[str]:
        count = self.now.snapshot.num_blocks
        chosen = block_of(self.now.selected or "", self.now.snapshot)
        wanted = self.moves.changed() | {chosen or NULL_BLOCK_ID}
        above = line(self.moves.before or (), wanted, count)
        below = line(self.moves.after, wanted, count)
        yield from self.joins(above, below)
        yield from self.ribbon("Before", "p", above, BEFORE, self.old, self.old_mark)
        yield from self.ribbon("After", "q", below, AFTER, self.now, self.mark)
        for words, cells, top, pill in (
            (self.moves.left, above, BEFORE, LEAVING),
            (self.came(), below, AFTER, COMING),
        ):
            yield from arrows(words, self.moves.forgot, cells, top, pill, self.owner())
        yield from self.in_use(wanted)

    # --- ribbons ------------------------------------------------------------------

    def ribbon(
        self, title: str, kind: str, cells: Line, top: float, what: Scene, mark: Mark
    ) -> Iterator[str]:
        nothing = kind == "p" and self.moves.before is None
        queue = () if nothing else what.snapshot.free_queue
        notes = () if nothing else _notes(what, queue)
        yield mark.fixed(f"head-{kind}", top, head(title, notes, nothing))
        drawn = "".join(self.cells(kind, cells, top + 8, what, mark))
        yield _listed(mark, drawn, f"the free queue {title.lower()}, head to tail")

    def cells(
        self, kind: str, cells: Line, top: float, what: Scene, mark: Mark
    ) -> Iterator[str]:
        moved = self.moves.left if kind == "p" else self.moves.came
        for spot in cells.spots:
            if spot.block_id is None:
                yield gap(spot.x + cells.cell / 2, top, spot.skipped)
                continue
            b, digits = spot.block_id, what.digits(spot.block_id)
            classes = f"blk free{' kept' if digits else ''}"
            changed = b in moved or (kind == "q" and b in self.moves.forgot)
            start = mark.attributes(
                f"{kind}{b}",
                block_key(b),
                f"{classes} chg" if changed else classes,
                spot.x,
                top,
                block_caption(what, b),
                block=b,
            )
            yield f"{start}{free_cell(cells.cell, b, digits)}</g>"

    def joins(self, above: Line, below: Line) -> Iterator[str]:
        """A line for each block that is shown in both ribbons."""
        first, second = above.middles(), below.middles()
        for b in self.moves.stayed():
            if b in first and b in second:
                loud = " lit" if block_key(b) in self.now.lit else ""
                y, end = BEFORE + BAND - 8, AFTER + 8
                yield (
                    f"<g id='{self.mark.prefix}-j{b}' class='join{loud}' data-b='{b}'>"
                    f"<path d='M{first[b]:.1f} {y}V{y + 16}L{second[b]:.1f} {end - 16}"
                    f"V{end}'/></g>"
                )

    def came(self) -> dict[int, str]:
        """What stands under the lower ribbon."""
        stayed = (b for b in self.moves.stayed() if b in self.moves.forgot)
        return {**self.moves.came, **dict.fromkeys(stayed, FORGOTTEN)}

    def owner(self) -> str:
        """The colour of whoever did it."""
        event = self.now.event
        known = event is not None and event.seq_id in self.now.colours
        return self.now.owner(str(event.seq_id)) if event is not None and known else ""

    # --- the rest of the pool -------------------------------------------------------

    def in_use(self, wanted: Iterable[int]) -> Iterator[str]:
        s = self.now.snapshot
        used = [b for b, count in enumerate(s.ref_cnt) if count]
        cells = line(used, frozenset(wanted), s.num_blocks)
        note = f"{s.num_used} of {s.num_usable}"
        yield self.mark.fixed("head-b", IN_USE, heading("In use", note, "blocks"))
        drawn = "".join(self.used_cells(cells))
        yield _listed(self.mark, drawn, "blocks in use")

    def used_cells(self, cells: Line) -> Iterator[str]:
        for spot in cells.spots:
            if spot.block_id is None:
                yield gap(spot.x + cells.cell / 2, IN_USE, spot.skipped)
                continue
            b = spot.block_id
            names = self.now.owners[b]
            owners = [self.now.owner(name) for name in names]
            kind = owners[0] if len(owners) == 1 else "many"
            start = self.mark.attributes(
                f"b{b}",
                block_key(b),
                f"blk used {kind}{' chg' if b in self.now.marks else ''}",
                spot.x,
                IN_USE,
                block_caption(self.now, b),
                block=b,
            )
            texts = short_names(names, (cells.cell - 4) / max(len(names), 1))
            inside = f"{edge(cells.cell, 44)}{number(cells.cell, b, 17)}"
            inside += bands(cells.cell, owners, texts)
            yield f"{start}{inside}</g>"


def _notes(what: Scene, queue: Sequence[int]) -> tuple[str, ...]:
    kept = sum(what.snapshot.block_hash[b] is not None for b in queue)
    return f"{len(queue) - kept} blank", f"{kept} remembered"


def _listed(mark: Mark, inside: str, name: str) -> str:
    if not mark.interactive or not inside:
        return inside
    return f"<g role='listbox' aria-label='{esc(name)}'>{inside}</g>"


_CSS = one_line("""
.kvribbon .join path{fill:none;stroke:var(--edge);stroke-width:1.4}
.kvribbon .join.lit path,.kvribbon .join.hot path{stroke:var(--ink);stroke-width:3}
.kvribbon .end.last{text-anchor:end}
.kvribbon .ribbon.none{fill:none;stroke-dasharray:4 4}
""")
