"""The one renderer: `block_map` turns a snapshot into a picture, as an SVG string.

It is a pure function: the same arguments give the same string, in every run and on
every machine. Everything else in this package places what it returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from zlib import crc32

from blockmgr.events import Event, Snapshot
from figures.captions import summary
from figures.draw_pool import draw_pool
from figures.draw_queue import draw_queue, queue_height
from figures.draw_rows import draw_asker, draw_row
from figures.heat import draw_heat, heat_height
from figures.keys import logical_key
from figures.layout import (
    LEFT,
    MARGIN,
    ROW_GAP,
    WIDTH,
    Grid,
    Row,
    box_shape,
    grid,
    in_detail,
    row_gap,
    rows,
)
from figures.legend import LEGEND_HEIGHT, draw_legend
from figures.lines import Line, lines, path, zone_height
from figures.marks import Mark
from figures.scene import Plan, Scene, scene
from figures.sheet import hatch, map_css
from figures.theme import owner_rules
from figures.words import Labels, esc, plural, wrap

__all__ = ["block_map", "map_css"]

TITLE_SIZE = 17


def block_map(
    snapshot: Snapshot,
    *,
    event: Event | None = None,
    before: Snapshot | None = None,
    labels: Labels = None,
    selected: str | None = None,
    plan: Plan | None = None,
    title: str = "",
    legend: bool = False,
    prefix: str | None = None,
    interactive: bool = False,
) -> str:
    """Draw the state `snapshot`: sequences, mapping, pool and free queue.

    `event` is what has just happened: its blocks get a thick edge and a word. `before`
    is the state it happened to. `labels` gives tokens their text. `selected` is
    `"block:5"`, `"seq:r0"` or `"seq:r0:logical:1"`. `plan` keeps colours and sizes the
    same through the frames of one run. `title` is drawn above, in as many lines as it
    needs. `prefix` begins every id (without it, one is computed from the content, so
    that pictures on one page don't mix). `interactive` adds keys and focus for
    `BlockMap`.
    """
    what = scene(
        snapshot,
        event=event,
        before=before,
        labels=labels,
        selected=selected,
        plan=plan,
    )
    prefix = prefix or _prefix(what, title)
    picture = _Picture(what, prefix, interactive)
    body = "".join(picture.draw(title, legend))
    return _frame(what, body, picture.height, title, prefix, interactive)


def _prefix(what: Scene, title: str) -> str:
    """A start for ids that two different pictures on one page will not share."""
    s, event = what.snapshot, what.event
    tables = [(v.seq_id, v.block_table, len(v.token_ids)) for v in s.sequences.values()]
    done = event and (event.op, event.seq_id, event.token_ids, event.new)
    content = (s.free_queue, s.block_hash, tables, done, title, what.selected)
    return f"k{crc32(repr(content).encode('utf-8', 'replace')):08x}"


class _Picture:
    """One picture being laid out from top to bottom; `height` grows as it goes."""

    def __init__(self, what: Scene, prefix: str, interactive: bool) -> None:
        self.scene = what
        self.mark = Mark(what, prefix, interactive)
        self.shape = box_shape(what)
        self.height: float = MARGIN

    def draw(self, title: str, legend: bool) -> Iterator[str]:
        yield from self.title(title)
        placed = rows(self.scene, self.shape, self.height)
        if not in_detail(self.scene):
            yield from self.rows(placed)
            yield from self.heat()
        else:
            pool = grid(self.scene)
            found = lines(self.scene, placed, self.shape, pool)
            drawn = "".join(self.rows(placed))
            pool = replace(pool, top=self.height + zone_height(found))
            yield from self.lines(found, pool)
            yield drawn
            yield from self.pool(pool)
        yield from self.queue()
        if legend:
            yield from self.legend()

    def title(self, title: str) -> Iterator[str]:
        if not title:
            return
        for line in wrap(title, WIDTH - 2 * MARGIN, TITLE_SIZE, bold=True):
            self.height += TITLE_SIZE + 6
            yield (
                f"<text class='title' x='{MARGIN}' y='{self.height - 8:g}'>"
                f"{esc(line)}</text>"
            )
        self.height += 14

    def rows(self, placed: Sequence[Row]) -> Iterator[str]:
        """The sequences, each a list of its own for the keyboard."""
        for row in placed:
            inside = "".join(draw_row(self.scene, self.mark, self.shape, row))
            yield self.listed(inside, f"logical blocks of {row.seq_id}")
            self.height = row.y + row.height + row_gap(self.scene)
        yield from self.others(len(placed))

    def others(self, drawn: int) -> Iterator[str]:
        what = self.scene
        left_out = len(what.snapshot.sequences) - drawn
        if left_out:
            text = f"… and {plural(left_out, 'more sequence')}"
            yield self.note(text)
        if what.refused() and what.event is not None:
            if what.event.seq_id not in what.snapshot.sequences:
                yield draw_asker(what, self.shape, self.height)
                self.height += self.shape.height + ROW_GAP
        elif not what.snapshot.sequences:
            yield self.note("No sequence is here: every block is free.")

    def note(self, text: str) -> str:
        self.height += 30
        return f"<text class='note' x='{LEFT}' y='{self.height - 12:g}'>{text}</text>"

    def listed(self, inside: str, name: str) -> str:
        if not self.mark.interactive:
            return inside
        return f"<g role='listbox' aria-label='{esc(name[:80])}'>{inside}</g>"

    def lines(self, found: Sequence[Line], pool: Grid) -> Iterator[str]:
        """Quiet lines first, so that those of this event lie on top."""
        top = self.height - ROW_GAP
        for line in sorted(found, key=lambda m: _loud(self.scene, m)):
            yield _line(self.scene, self.mark.prefix, line, path(line, top, pool), pool)

    def pool(self, pool: Grid) -> Iterator[str]:
        inside = "".join(draw_pool(self.scene, self.mark, pool))
        yield self.listed(inside, "physical blocks")
        self.height = pool.top + pool.height + 12

    def heat(self) -> Iterator[str]:
        yield from draw_heat(self.scene, self.height)
        self.height += heat_height(self.scene.snapshot.num_blocks) + 18

    def queue(self) -> Iterator[str]:
        yield from draw_queue(self.scene, self.mark, self.height)
        self.height += queue_height(self.scene) + MARGIN

    def legend(self) -> Iterator[str]:
        yield draw_legend(self.height)
        self.height += LEGEND_HEIGHT + MARGIN


def _loud(what: Scene, line: Line) -> bool:
    event = what.event
    if what.lit:
        return logical_key(line.seq_id, line.index) in what.lit
    if event is None or event.seq_id != line.seq_id:
        return False
    return line.block_id in event.new or line.block_id in event.hits


def _line(what: Scene, prefix: str, line: Line, data: str, pool: Grid) -> str:
    loud = _loud(what, line)
    quiet = " dim" if what.lit and not loud else ""
    name = f"{prefix}-m{what.colours[line.seq_id]}-{line.index}"
    return (
        f"<g id='{name}' class='line {what.owner(line.seq_id)}"
        f"{' chg' if loud else ''}{quiet}' data-b='{line.block_id}'>"
        f"<path d='{data}'/>"
        f"<circle cx='{line.enter:.1f}' cy='{pool.y(line.block_id):.1f}' r='3.5'/></g>"
    )


# --- the frame around it ------------------------------------------------------------


def _frame(
    what: Scene, body: str, height: float, title: str, prefix: str, interactive: bool
) -> str:
    name = esc(title[:300]) or "Block map"
    if interactive:
        start = f"role='group' aria-label='{name}'"
        words = ""
    else:
        start = f"role='img' aria-labelledby='{prefix}-t {prefix}-d'"
        words = (
            f"<title id='{prefix}-t'>{name}</title>"
            f"<desc id='{prefix}-d'>{esc(summary(what))}</desc>"
        )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='kvfig kvmap' {start} "
        f"viewBox='0 0 {WIDTH} {height:g}' width='{WIDTH}' height='{height:g}'>"
        f"{words}<style>{map_css()}{owner_rules(what.colours.values())}</style>{hatch(prefix)}"
        f"<rect class='paper' width='{WIDTH}' height='{height:g}' rx='8'/>"
        f"<g style='--hatched:url(#{prefix}-h)'>{body}</g></svg>"
    )
