"""A pool of thousands of blocks as a heat strip, with the same colours.

Each block is a small field, read like a page: from the left, line by line. Neighbours
that look alike are drawn as one, so that a pool of 100,000 blocks stays a small file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.events import SequenceView
from figures.draw_pool import heading, slots_each
from figures.layout import LEFT, ROOM, Row
from figures.scene import Scene
from figures.words import clip, plural

_FIELDS = ((256, 23, 15), (1024, 46, 13), (4096, 92, 8), (20_000, 184, 6))
_SCALE = 20  # height of the scale above the strip


def _field(num_blocks: int) -> tuple[int, int]:
    """Blocks in a line and height of a line, for a pool of this size."""
    for most, columns, height in _FIELDS:
        if num_blocks <= most:
            return columns, height
    return int(ROOM), 3


def heat_height(num_blocks: int) -> float:
    """Height of the whole strip."""
    return max(_SCALE + _strip_height(num_blocks), 94)


def _strip_height(num_blocks: int) -> int:
    columns, height = _field(num_blocks)
    return -(-num_blocks // columns) * height


def draw_heat(scene: Scene, top: float) -> Iterator[str]:
    """The heading, a scale and the strip."""
    s = scene.snapshot
    columns, height = _field(s.num_blocks)
    words = heading(
        "Pool",
        f"{s.num_used:,} of",
        f"{s.num_usable:,} in use",
        *slots_each(s.block_size),
    )
    yield f"<g transform='translate(0 {top:g})'>{words}</g>"
    yield (
        f"<text class='note' x='{LEFT}' y='{top + 13:g}'>"
        f"block 0 to {s.num_blocks - 1:,}, {columns} in a line</text>"
    )
    strip = _strip_height(s.num_blocks)
    yield (
        f"<rect class='h-free h-frame' x='{LEFT}' y='{top + _SCALE:g}' "
        f"width='{ROOM}' height='{strip}'/>"
    )
    for line, first in enumerate(range(0, s.num_blocks, columns)):
        y = top + _SCALE + line * height
        ids = range(first, min(first + columns, s.num_blocks))
        yield from _line(scene, ids, y, ROOM / columns, height)


def _line(
    scene: Scene, ids: range, y: float, wide: float, height: int
) -> Iterator[str]:
    x = float(LEFT)
    for classes, run in groupby(ids, lambda b: _look(scene, b)):
        w = len(list(run)) * wide
        if classes:
            yield (
                f"<rect class='{classes}' x='{x:.1f}' y='{y:g}' width='{w:.1f}' "
                f"height='{height}'/>"
            )
        x += w


def _look(scene: Scene, block_id: int) -> str:
    """CSS classes of a field, by owner or state; none where a block is plainly free."""
    changed = " h-chg" if block_id in scene.marks else ""
    if block_id == NULL_BLOCK_ID:
        return "h-null"
    if scene.free(block_id):
        kept = scene.snapshot.block_hash[block_id] is not None
        return ("h-kept" if kept else "h-free" if changed else "") + changed
    owners = scene.owners[block_id]
    if len(owners) != 1:
        return f"h-many{changed}"
    return f"heat {scene.owner(owners[0])}{changed}"


# --- the sequences above it ---------------------------------------------------------


def table_line(row: Row, view: SequenceView) -> str:
    """A sequence in one line of text: its table, neighbours drawn together."""
    table = view.block_table
    text = (
        f"{plural(len(view.token_ids), 'token')} in {plural(len(table), 'block')}: "
        f"{', '.join(ranges(table[:2000]))}"
        if table
        else f"{view.status}: holds no block"
    )
    y = row.y + row.height / 2 + 5
    return f"<text class='note' x='{LEFT}' y='{y:g}'>{clip(text, ROOM)}</text>"


def ranges(table: Sequence[int]) -> Iterator[str]:
    """`(1, 2, 3, 9)` -> `1–3`, `9`; neighbours that are null together as `∅ × 4`."""
    for _, run in groupby(enumerate(table), _run_key):
        ids = [block_id for _, block_id in run]
        if ids[0] == NULL_BLOCK_ID:
            yield f"∅ × {len(ids)}"
        else:
            yield str(ids[0]) if len(ids) == 1 else f"{ids[0]}–{ids[-1]}"


def _run_key(entry: tuple[int, int]) -> int | None:
    """Equal for neighbours that belong together: id and index grow side by side."""
    index, block_id = entry
    return None if block_id == NULL_BLOCK_ID else block_id - index
