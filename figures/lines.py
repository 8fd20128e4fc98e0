"""The mapping lines: from each logical block to its physical block, over no text.

A line leaves its box at the right, goes down in the lane beside that column, crosses
over in the zone that is kept free for it, and enters the physical block from above.
Lower rows use the inner tracks of a lane, so lines never cross beside the rows; in the
zone each line has its own track, and lines meet at right angles only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from blockmgr.block import NULL_BLOCK_ID
from figures.keys import block_key, sequence_key
from figures.layout import ALL_LINES_UP_TO, BoxShape, Grid, Row
from figures.scene import Scene

TRACK = 6  # px between two lines in the zone
ZONE_EDGE = 12  # px above the first and under the last track

Point = tuple[float, float]


@dataclass(slots=True)
class Line:
    """One table entry on its way: `x0, y0` where it leaves its box, `lane` where it
    goes down, `track` where it crosses over, `down` where it passes rows of blocks,
    `enter` where it comes in. All but the start is chosen step by step in `lines`."""

    seq_id: str
    index: int
    block_id: int
    x0: float
    y0: float
    lane: float = 0.0
    enter: float = 0.0
    down: float = 0.0
    track: int = 0


def lines(scene: Scene, rows: Sequence[Row], shape: BoxShape, pool: Grid) -> list[Line]:
    """The lines of a picture with their lanes, tracks and entries chosen."""
    found = [
        Line(row.seq_id, place.index, block_id, place.x + shape.width, place.y + 11)
        for row in rows
        for place in row.places
        if (block_id := _table(scene, row.seq_id)[place.index]) != NULL_BLOCK_ID
        and _wanted(scene, row.seq_id, place.index, block_id)
    ]
    _choose_lanes(found, shape.lane)
    _choose_entries(found, pool)
    _choose_tracks(found)
    return found


def _table(scene: Scene, seq_id: str) -> tuple[int, ...]:
    return scene.snapshot.sequences[seq_id].block_table


def _wanted(scene: Scene, seq_id: str, index: int, block_id: int) -> bool:
    """In small pools every line; else those of what is selected, or of the event."""
    if scene.snapshot.num_blocks <= ALL_LINES_UP_TO:
        return True
    if scene.lit:
        return (
            scene.selected == block_key(block_id)
            or scene.selected == sequence_key(seq_id)
            or (scene.selected or "").startswith(sequence_key(seq_id) + ":logical:")
        )
    return scene.event is not None and scene.event.seq_id == seq_id


def _choose_lanes(found: list[Line], room: float) -> None:
    columns: defaultdict[float, list[Line]] = defaultdict(list)
    for line in found:
        columns[line.x0].append(line)
    for x0, members in columns.items():
        step = min(5.0, (room - 10) / len(members))
        for rank, line in enumerate(sorted(members, key=lambda m: -m.y0)):
            line.lane = x0 + 6 + rank * step


def _choose_entries(found: list[Line], pool: Grid) -> None:
    """Lines to one block come in side by side, in the order of their lanes."""
    groups: defaultdict[int, list[Line]] = defaultdict(list)
    for line in sorted(found, key=lambda m: m.lane):
        groups[line.block_id].append(line)
    for block_id, members in groups.items():
        for rank, line in enumerate(members):
            line.enter, line.down = _entry(pool, block_id, rank, len(members))


def _entry(pool: Grid, block_id: int, rank: int, count: int) -> Point:
    left = pool.x(block_id)
    if block_id < pool.columns:
        room = pool.cell - (14 if count > 1 else 0)  # beside the ref count's badge
        step = min(9.0, (room - 8) / count)
        x = left + room / 2 + (rank - (count - 1) / 2) * step
        return x, x
    step = min(3.0, (pool.gap - 2) / count)
    return left + 8 + rank * 5, left - pool.gap / 2 + (rank - (count - 1) / 2) * step


def _choose_tracks(found: list[Line]) -> None:
    """Tracks from the top down. Of two lines that go the same way, the one that starts
    farther ahead is above: then neither crosses the other."""
    left = sorted((m for m in found if m.down < m.lane), key=lambda m: m.lane)
    right = sorted((m for m in found if m.down >= m.lane), key=lambda m: -m.lane)
    taken: list[list[tuple[float, float]]] = []
    for way in (left, right):
        above = 0
        for line in way:
            low, high = sorted((line.lane, line.down))
            above = line.track = _first_free(taken, above, low, high)


def _first_free(
    taken: list[list[tuple[float, float]]], start: int, low: float, high: float
) -> int:
    """The first track from `start` on that is free between `low` and `high`."""
    track = start
    while track < len(taken) and any(
        a - 8 < high and low < b + 8 for a, b in taken[track]
    ):
        track += 1
    if track == len(taken):
        taken.append([])
    taken[track].append((low, high))
    return track


def zone_height(found: Sequence[Line]) -> float:
    """Height of the zone between rows and pool."""
    tracks = max((line.track for line in found), default=-1) + 1
    return 2 * ZONE_EDGE + max(tracks - 1, 0) * TRACK if tracks else ZONE_EDGE


def path(line: Line, zone_top: float, pool: Grid) -> str:
    """The line as path data, its corners rounded."""
    y = zone_top + ZONE_EDGE + line.track * TRACK
    end = pool.y(line.block_id)
    points = [(line.x0, line.y0), (line.lane, line.y0), (line.lane, y), (line.down, y)]
    if line.down != line.enter:
        points += [(line.down, end - 9), (line.enter, end - 9)]
    points.append((line.enter, end))
    return rounded(points)


def rounded(points: Sequence[Point], radius: float = 5.0) -> str:
    """Path data through `points`, along x and y only, with round corners."""
    corners = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        ax, ay = _towards(here, before, radius)
        bx, by = _towards(here, after, radius)
        corners.append(
            f"L{ax:.1f} {ay:.1f}Q{here[0]:.1f} {here[1]:.1f} {bx:.1f} {by:.1f}"
        )
    corners.append(f"L{points[-1][0]:.1f} {points[-1][1]:.1f}")
    return "".join(corners)


def _towards(here: Point, there: Point, radius: float) -> Point:
    """The point `radius` px from `here` on the way to `there`, at most half way."""
    dx, dy = there[0] - here[0], there[1] - here[1]
    length = abs(dx) + abs(dy)
    share = min(radius / length, 0.5) if length else 0.0
    return here[0] + dx * share, here[1] + dy * share
