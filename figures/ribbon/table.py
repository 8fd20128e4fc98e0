"""The ribbon without a picture: the queue, place by place, as HTML tables."""

from __future__ import annotations

from collections.abc import Sequence

from figures.film import Frame
from figures.ribbon.moves import EVICTED, HEAD, HIT, TAIL, TAKEN, Moves, moves
from figures.tables import html_table
from figures.text import MOST_ROWS

SUMMARY = "The same queue as tables"

_LEFT = {
    TAKEN: "taken from the head",
    EVICTED: "taken from the head, its content forgotten",
    HIT: "found again and pulled out",
}
_CAME = {HEAD: "came to the head", TAIL: "came to the tail"}


def ribbon_tables(frame: Frame) -> str:
    """The queue after `frame`, and what left it; of very long queues, their heads."""
    told, queue = moves(frame), frame.after.free_queue
    rows = [_row(frame, told, i, b) for i, b in enumerate(queue[:MOST_ROWS])]
    caption = f"Free queue after step {frame.step}, head first"
    head = ("place", "block", "content", "place before", "in this step")
    tables = html_table(caption, head, rows, count=len(queue), one="block")
    if not told.left:
        return tables
    gone = [_gone(told, b) for b in list(told.left)[:MOST_ROWS]]
    caption = "What left the queue in this step"
    return tables + html_table(
        caption, ("block", "how"), gone, count=len(told.left), one="block"
    )


def _row(frame: Frame, told: Moves, place: int, block_id: int) -> Sequence[str]:
    key, places = frame.after.block_hash[block_id], told.before
    old, what = "–", "–"
    if places is not None:
        old = str(places.index(block_id) + 1) if block_id in places else "not in it"
        what = _CAME.get(told.came.get(block_id, ""), "stayed")
    if block_id in told.forgot:
        what += f", forgot {told.forgot[block_id][:4]}"
    content = "blank" if key is None else f"remembered, {key[:4]}"
    return str(place + 1), str(block_id), content, old, what


def _gone(told: Moves, block_id: int) -> Sequence[str]:
    lost = told.forgot.get(block_id)
    how = _LEFT[told.left[block_id]] + (f" ({lost[:4]})" if lost else "")
    return str(block_id), how
