"""Drawing the free queue: a ribbon, with the block that is taken next at its head."""

from __future__ import annotations

from collections.abc import Iterator

from blockmgr.events import Released
from figures.draw_pool import heading, plate
from figures.keys import block_key
from figures.layout import LEFT, QUEUE_CELL, QUEUE_GAP, QUEUE_HEIGHT, ROOM
from figures.marks import Mark
from figures.scene import Scene
from figures.words import plural

_ENDS = 54  # room for the words "head" and "tail"
_PITCH = QUEUE_HEIGHT + 12


def _cell_width(num_blocks: int) -> float:
    return max(QUEUE_CELL, 10 + 9 * len(str(num_blocks)))


def _columns(num_blocks: int) -> int:
    """Cells in one line of the ribbon."""
    return int((ROOM - 2 * _ENDS + QUEUE_GAP) // (_cell_width(num_blocks) + QUEUE_GAP))


def queue_height(scene: Scene) -> float:
    """Height of the ribbon, up to three lines of it."""
    columns = _columns(scene.snapshot.num_blocks)
    count = min(scene.snapshot.num_free, 3 * columns)
    return max(-(-count // columns), 1) * _PITCH + 4


def draw_queue(scene: Scene, mark: Mark, top: float) -> Iterator[str]:
    """The free queue as a ribbon, head at the left; long ones with a gap inside."""
    queue = scene.snapshot.free_queue
    cached = sum(scene.snapshot.block_hash[b] is not None for b in queue)
    notes = [plural(len(queue), "block")]
    if cached:
        notes.append(f"{cached:,} cached")
    first = "head" if queue else "empty: no block is free"
    yield mark.fixed(
        "queue",
        top,
        f"{heading('Free queue', *notes)}{_ribbon(queue_height(scene))}"
        f"<text class='end' x='{LEFT + 16}' y='29'>{first}</text>",
    )
    if queue:
        yield from _queue_cells(scene, mark, top, queue)


def _ribbon(height: float) -> str:
    """A band with its point at the left, where blocks are taken."""
    x, right = LEFT, LEFT + ROOM
    return (
        f"<path class='ribbon' d='M{x + 12} 0H{right}v{height:g}H{x + 12}"
        f"L{x} {height / 2:g}z'/>"
    )


def _queue_cells(
    scene: Scene, mark: Mark, top: float, queue: tuple[int, ...]
) -> Iterator[str]:
    columns = _columns(scene.snapshot.num_blocks)
    wide = _cell_width(scene.snapshot.num_blocks)
    room = 3 * columns
    cut = len(queue) > room
    shown = [*queue[: room - 9], None, *queue[-8:]] if cut else list(queue)
    back = _gone_back(scene)
    x = y = 0.0
    for i, block_id in enumerate(shown):
        x = LEFT + _ENDS + i % columns * (wide + QUEUE_GAP)
        y = top + 8 + i // columns * _PITCH
        if block_id is None:
            yield f"<text class='note mid' x='{x + 20:g}' y='{y + 20:g}'>…</text>"
        else:
            start = mark.bare(f"q{block_id}", block_id, x, y)
            yield start + _queue_cell(scene, block_id, wide, block_id in back)
    tail = f"<text class='end' x='{wide + 8:g}' y='21'>tail</text>"
    yield mark.fixed("tail", y, tail, x)


def _gone_back(scene: Scene) -> frozenset[int]:
    """Blocks that this event put into the queue."""
    changes = scene.event.changes if scene.event is not None else ()
    released = (c for c in changes if isinstance(c, Released))
    return frozenset(b for c in released for b in (*c.head, *c.tail))


def _queue_cell(scene: Scene, block_id: int, wide: float, changed: bool) -> str:
    """The rest of a cell's group, from its classes on."""
    kept = scene.snapshot.block_hash[block_id] is not None
    classes = "blk free kept" if kept else "blk free"
    classes += " chg" if changed else ""
    classes += " lit" if block_key(block_id) in scene.lit else ""
    middle = wide / 2
    ground = plate(middle - 4 - 4.5 * len(str(block_id)), 7, block_id) if kept else ""
    return (
        f" class='{classes}'><rect class='edge' width='{wide:g}' "
        f"height='{QUEUE_HEIGHT}' rx='5'/>{ground}"
        f"<text class='id mid' x='{middle:g}' y='21'>{block_id}</text></g>"
    )
