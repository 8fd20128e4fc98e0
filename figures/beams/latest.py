"""One event for a whole move of a beam search: the map marks what it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from blockmgr.events import Change, Event, Ids, Released, Touched
from figures.beams.search import Search


def latest(search: Search) -> Event | None:
    """The events of the latest move as one, so that the map marks all they changed.

    Folding it into the state before the move gives the state after it. A user that a
    block won and one that it lost in the same move cancel out: there is nothing to see.
    """
    events = search.events
    if not search.moves or not events:
        return None
    if len(events) == 1:
        return events[0]
    grown = [event for event in events if event.op == "append"]
    return Event(
        "fork" if any(event.op == "fork" for event in events) else "append",
        token_ids=grown[-1].token_ids if grown else (),
        changes=tuple(_net(change for event in events for change in event.changes)),
        sequences={k: v for event in events for k, v in event.sequences.items()},
        copies=tuple(pair for event in events for pair in event.copies),
    )


def _net(changes: Iterable[Change]) -> Iterator[Change]:
    """The changes, without the references that were won and lost again."""
    changes = list(changes)
    won = Counter(b for c in changes if isinstance(c, Touched) for b in c.block_ids)
    lost = Counter(b for c in changes if isinstance(c, Released) for b in c.block_ids)
    spare = {Touched: won & lost, Released: won & lost}
    for change in changes:
        if isinstance(change, Touched | Released):
            change = change._replace(
                block_ids=_without(change.block_ids, spare[type(change)])
            )
        yield change


def _without(block_ids: Ids, spare: Counter[int]) -> Ids:
    kept = []
    for block_id in block_ids:
        if spare[block_id]:
            spare[block_id] -= 1
        else:
            kept.append(block_id)
    return tuple(kept)
