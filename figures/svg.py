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
    NO_ROOM,
    ROW_GAP,
    WIDTH,
    Grid,
    Room,
    Row,
    box_shape,
    grid,
    in_detail,
    row_gap,
    rows,
)
from figures.legend import draw_legend, legend_height
from figures.lines import Line, lines, path, zone_height
from figures.marks import Mark, checked
from figures.scene import Plan, Scene, scene
from figures.sheet import frame
from figures.words import Labels, esc, plural, visible, wrap

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
    room: Room = NO_ROOM,
) -> str:
    """Draw the state `snapshot`: sequences, mapping, pool and free queue.

    `event` is what has just happened: its blocks get a thick edge and a word. `before`
    is the state it happened to. `labels` gives tokens their text. `selected` is
    `"block:5"`, `"seq:r0"` or `"seq:r0:logical:1"`. `plan` keeps colours and sizes the
    same through the frames of one run. `title` is drawn above, in as many lines as it
    needs. `prefix` begins every id (without it, one is computed from the content, so
    that pictures on one page don't mix). `interactive` adds keys and focus for
    `BlockMap`. `room` keeps pool and queue in their places through a run.
    """
    what = scene(
        snapshot,
        event=event,
        before=before,
        labels=labels,
        selected=selected,
        plan=plan,
    )
    prefix = checked(prefix) or _prefix(what, title)
    picture = _Picture(what, prefix, interactive, room)
    body = "".join(picture.draw(title, legend))
    return frame(
        body,
        WIDTH,
        picture.height,
        name=visible(title[:300]) or "Block map",
        words=None if interactive else summary(what),
        prefix=prefix,
        owners=what.colours.values(),
    )


def room_of(
    snapshot: Snapshot,
    event: Event | None,
    before: Snapshot | None,
    plan: Plan,
) -> Room:
    """The room that the picture of this frame takes."""
    what = scene(snapshot, event=event, before=before, plan=plan)
    picture = _Picture(what, "k", False)
    for _ in picture.upper():
        pass
    return Room(picture.height, queue_height(what))


def _prefix(what: Scene, title: str) -> str:
    """A start for ids that two different pictures on one page will not share."""
    s, event = what.snapshot, what.event
    tables = [(v.seq_id, v.block_table, len(v.token_ids)) for v in s.sequences.values()]
    done = event and (event.op, event.seq_id, event.token_ids, event.new)
    content = (s.free_queue, s.block_hash, tables, done, title, what.selected)
    return f"k{crc32(repr(content).encode('utf-8', 'replace')):08x}"


class _Picture:
    """One picture being laid out from top to bottom; `height` grows as it goes."""

    def __init__(
        self, what: Scene, prefix: str, interactive: bool, room: Room = NO_ROOM
    ) -> None:
        self.scene = what
        self.room = room
        self.mark = Mark(what, prefix, interactive)
        self.shape = box_shape(what)
        self.height: float = MARGIN

    def draw(self, title: str, legend: bool) -> Iterator[str]:
        yield from self.title(title)
        yield from self.upper()
        if in_detail(self.scene):
            yield from self.pool(replace(grid(self.scene), top=self.height))
        else:
            yield from self.heat()
        yield from self.queue()
        if legend:
            yield from self.legend()

    def upper(self) -> Iterator[str]:
        """The sequences and the zone of the lines, down to where the pool begins."""
        placed = rows(self.scene, self.shape, self.height)
        if not in_detail(self.scene):
            yield from self.rows(placed)
            self.height = max(self.height, self.room.pool)
            return
        pool = grid(self.scene)
        found = lines(self.scene, placed, self.shape, pool)
        drawn = "".join(self.rows(placed))
        zone = zone_height(found)
        self.height = max(self.height + zone, self.room.pool)
        yield from self.lines(found, replace(pool, top=self.height), zone)
        yield drawn

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
            away = len(what.snapshot.host_sequences)
            there = f" {plural(away, 'sequence')} on the host." if away else ""
            yield self.note(f"No sequence is here: every block is free.{there}")

    def note(self, text: str) -> str:
        self.height += 30
        return f"<text class='note' x='{LEFT}' y='{self.height - 12:g}'>{text}</text>"

    def listed(self, inside: str, name: str) -> str:
        if not self.mark.interactive:
            return inside
        return f"<g role='listbox' aria-label='{esc(name[:80])}'>{inside}</g>"

    def lines(self, found: Sequence[Line], pool: Grid, zone: float) -> Iterator[str]:
        """Quiet lines first, so that those of this event lie on top."""
        top = pool.top - zone - ROW_GAP
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
        self.height += max(queue_height(self.scene), self.room.queue) + MARGIN

    def legend(self) -> Iterator[str]:
        yield draw_legend(self.height)
        self.height += legend_height() + MARGIN


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
