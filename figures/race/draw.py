"""The picture of a race: three pools beside their time axes, one below the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from blockmgr.contest import Place, Turn
from blockmgr.events import Snapshot
from figures.draw_pool import draw_pool
from figures.layout import CELL_HEIGHT, LEFT, MARGIN, WIDTH, Grid
from figures.marks import Mark
from figures.race.film import RaceFilm
from figures.scene import Plan, scene
from figures.sheet import frame, one_line
from figures.theme import owner_class
from figures.words import clip, esc, width, wrap

TOP = 48  # of the pool in its lane, under the title and what happened
ROW = 19  # of a job on the axis
NUMBERS = TOP + CELL_HEIGHT + 40  # the line of counters
LANE = NUMBERS + 22
CELL, GAP = 38.0, 5.0
AXIS = 604.0  # where step 1 begins; the names stand before it
LAST = 36.0  # free at the right, for the number of the last step

CSS = one_line("""
.kvrace .lane{fill:none;stroke:var(--line)}
.kvrace .did{fill:var(--own);stroke:var(--own)}
.kvrace .idle{fill:none;stroke:var(--muted);stroke-width:1.4;stroke-dasharray:2 2}
.kvrace .stuck{fill:var(--paper);stroke:var(--ink);stroke-width:1.6}
.kvrace .now{stroke:var(--ink);stroke-width:1.5}
.kvrace .base{stroke:var(--line)}
.kvrace .row{font-weight:700}
.kvrace .num{font-weight:700;font-size:15px}
.kvrace .ends{font-weight:700}
""")


def race_svg(film: RaceFilm, step: int, prefix: str = "krace") -> str:
    """The race after `step`, as an SVG string. The same film and step, the same SVG."""
    body = "".join(
        f"<g transform='translate(0 {MARGIN / 2 + lane * LANE:g})'>"
        f"{''.join(_lane(film, lane, step, prefix))}</g>"
        for lane in range(3)
    )
    height = MARGIN / 2 + 3 * LANE + 26
    told = (f"{film.titles[n][0]}: {film.sentence(n, step)}" for n in range(3))
    return frame(
        body + _legend(height - 12),
        WIDTH,
        height,
        name=f"A race of three policies, step {step}",
        words=" ".join(told),
        prefix=prefix,
        owners=range(len(film.jobs)),
        kind="kvrace",
        css=CSS,
    )


def _lane(film: RaceFilm, lane: int, step: int, prefix: str) -> Iterator[str]:
    title, rule = film.titles[lane]
    yield f"<text class='name' x='{MARGIN}' y='18'>{title}</text>"
    yield f"<text class='note' x='{MARGIN}' y='36'>{rule}</text>"
    said = wrap(film.sentence(lane, step), WIDTH - 286 - MARGIN)
    for i, line in enumerate(said[:2]):
        yield f"<text x='286' y='{18 + 18 * i}'>{esc(line)}</text>"
    yield _pool(film, lane, step, f"{prefix}-{lane}")
    yield from _axis(film, lane, step)
    yield from _numbers(film.turn(lane, step))
    if lane < 2:
        yield f"<path class='lane' d='M{MARGIN} {LANE - 7}H{WIDTH - MARGIN}'/>"


# --- the pool -----------------------------------------------------------------------


def _pool(film: RaceFilm, lane: int, step: int, prefix: str) -> str:
    after, before = film.turn(lane, step), film.turn(lane, max(step - 1, 0))
    now = after.snapshot
    plan = Plan(tuple(job.name for job in film.jobs))
    what = scene(now, plan=plan)
    marks = _marks(now, before.snapshot) if step < len(film.turns[lane]) else {}
    what = replace(what, marks=marks)
    grid = Grid(now.num_blocks, min(CELL, _widest(now)), GAP, 1, TOP)
    _heading, *blocks = draw_pool(what, Mark(what, prefix, False), grid)
    move = f"translate({MARGIN - LEFT} 0)"
    return f"<g data-pool='{prefix}' transform='{move}'>{''.join(blocks)}</g>"


def _widest(now: Snapshot) -> float:
    return (AXIS - 40 - MARGIN) / now.num_blocks - GAP


def _marks(now: Snapshot, before: Snapshot) -> dict[int, str]:
    """What this step did to a block: `new`, or tokens in slots that it had."""
    then, words = scene(before), {}
    for block_id, filled in enumerate(scene(now).filled):
        had = then.filled[block_id] if _owner(now, before, block_id) else 0
        if now.ref_cnt[block_id] and not _owner(now, before, block_id):
            words[block_id] = "new"
        elif now.ref_cnt[block_id] and filled > had:
            words[block_id] = f"+{filled - had}"
    return words


def _owner(now: Snapshot, before: Snapshot, block_id: int) -> bool:
    """Whether the same job had this block before the step."""
    return before.owners(block_id) == now.owners(block_id) != ()


# --- the axis -----------------------------------------------------------------------


def _axis(film: RaceFilm, lane: int, step: int) -> Iterator[str]:
    """A row for each job: what it did in every step up to this one."""
    wide = (WIDTH - MARGIN - LAST - AXIS) / max(len(film) - 1, 1)
    bottom = TOP + 4 + ROW * len(film.jobs)
    for index, job in enumerate(film.jobs):
        y = TOP + 4 + ROW * index
        name = esc(clip(job.name, 30, 13, bold=True))
        yield f"<text class='row' x='{AXIS - 36:g}' y='{y + 12:g}'>{name}</text>"
        yield f"<g class='{owner_class(index)}'>"
        for n in range(1, min(step, len(film.turns[lane]) - 1) + 1):
            place = film.turn(lane, n).places[job.name]
            end = film.finish(lane, job.name)
            yield _mark(place, n <= end, AXIS + (n - 1) * wide, y, wide)
        yield "</g>"
        end = film.finish(lane, job.name)
        if end <= step:
            x = AXIS + end * wide + 4
            yield f"<text class='ends' x='{x:.1f}' y='{y + 12:g}'>✓{end}</text>"
    yield f"<path class='base' d='M{AXIS:g} {bottom:g}H{WIDTH - MARGIN - LAST:g}'/>"
    yield f"<text class='note' x='{AXIS - 36:g}' y='{bottom + 15:g}'>step</text>"
    for n in range(5, len(film), 5):
        x = AXIS + (n - 0.5) * wide
        yield f"<text class='note mid' x='{x:.1f}' y='{bottom + 15:g}'>{n}</text>"
    if step < len(film) - 1:
        x = AXIS + step * wide
        yield f"<path class='now' d='M{x:.1f} {TOP - 2}V{bottom:g}'/>"


def _mark(place: Place, before_end: bool, x: float, y: float, wide: float) -> str:
    w, h = wide - 1.5, ROW - 5
    box = f"x='{x:.1f}' y='{y:g}' width='{w:.1f}' height='{h}'"
    if place is Place.WAITING:
        return f"<rect class='idle' {box}/>"
    if place is Place.STALLED:
        cross = f"M{x:.1f} {y:g}l{w:.1f} {h}m0 -{h}l-{w:.1f} {h}"
        return f"<rect class='stuck' {box}/><path class='stuck' d='{cross}'/>"
    if place is Place.RUNNING or (place is Place.DONE and before_end):
        return f"<rect class='did' {box}/>"
    return ""


# --- the counters -------------------------------------------------------------------


def _numbers(turn: Turn) -> Iterator[str]:
    """The bill so far, and who is not served."""
    told = turn.counters
    parts = (
        (told.calls, "calls that take"),
        (told.blocks_taken, "blocks taken"),
        (told.slots_wasted, "slots empty now"),
    )
    for i, (number, words) in enumerate(parts):
        yield (
            f"<text x='{MARGIN + 150 * i}' y='{NUMBERS}'>"
            f"<tspan class='num'>{number}</tspan> {words}</text>"
        )
    waits = [name for name, where in turn.places.items() if where is Place.WAITING]
    stuck = [name for name, where in turn.places.items() if where is Place.STALLED]
    words = (
        f"wait: {', '.join(waits) or 'nobody'} · stall: {', '.join(stuck) or 'nobody'}"
    )
    room = WIDTH - MARGIN - 560
    yield f"<text x='560' y='{NUMBERS}'>{esc(clip(words, room))}</text>"


def _legend(y: float) -> str:
    """What the marks on the axes mean."""
    samples = (
        (Place.RUNNING, "got slots for its tokens"),
        (Place.WAITING, "waits at the door"),
        (Place.STALLED, "stalls inside: no slot for its newest token"),
    )
    x, drawn = float(MARGIN), ""
    for place, text in samples:
        mark = _mark(place, True, x, y - 12, 12)
        drawn += f"{mark}<text class='note' x='{x + 18:g}' y='{y:g}'>{text}</text>"
        x += 34 + width(text)
    end = f"<text class='note' x='{x:g}' y='{y:g}'>✓7 last token in step 7</text>"
    return f"<g class='o0'>{drawn}{end}</g>"
