"""One command as one frame: its events put together, and told in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from blockmgr.events import Event, EventLog, OnHost, SequenceView, Snapshot
from figures.sentences import describe
from figures.words import Labels, isolate, listed, plural

START = "A new pool: every block is free. Send a request, or choose a scenario."


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after a command, what led to it, and what there is to say about it.

    `told` has a sentence for every event. `lengths` counts all tokens of each sequence,
    with those that have no slot yet; a snapshot knows only those that have one.
    """

    state: Snapshot
    event: Event | None = None
    said: str = START
    told: tuple[str, ...] = ()
    lengths: Mapping[str, int] = field(default_factory=dict)

    @property
    def sequences(self) -> dict[str, SequenceView]:
        """Everybody who is there, on the device or on the host."""
        return {**self.state.sequences, **self.state.host_sequences}

    def waiting(self, name: str) -> int:
        """Tokens of a running sequence that have no slot yet."""
        view = self.sequences[name]
        if view.status != "running":
            return 0
        return self.lengths[name] - len(view.token_ids)


def following(
    before: Moment, events: Sequence[Event], lengths: Mapping[str, int], labels: Labels
) -> Moment:
    """The moment after these events of one command."""
    log = EventLog(before.state, events)
    states = log.snapshots()
    told = tuple(describe(e, s, labels) for e, s in zip(log, states, strict=False))
    said = told[0] if len(told) == 1 else _step(events, before.state)
    return Moment(
        states[-1], merged(events), said + _advice(events, before.state), told, lengths
    )


def merged(events: Sequence[Event]) -> Event:
    """All events of one command as one, for the picture: every change, in order.

    Of the tokens, so many count as new as every sequence got.
    """
    good = [event for event in events if event.status == "OK"]
    if len(events) == 1 or not good:
        return events[-1]
    sequences: dict[str, SequenceView | None] = {}
    for event in events:
        sequences.update(event.sequences)
    return good[0]._replace(
        token_ids=min((event.token_ids for event in good), key=len),
        new=tuple(b for event in good for b in event.new),
        copies=tuple(pair for event in good for pair in event.copies),
        changes=tuple(change for event in events for change in event.changes),
        sequences=sequences,
    )


def on_host(event: Event) -> Event | None:
    """The part of an event that happened to the host's pool; None if it was refused for
    want of other blocks than these."""
    if event.status != "OK" and event.op != "swap_out":
        return None
    inner = tuple(c.change for c in event.changes if isinstance(c, OnHost))
    return event._replace(changes=inner, token_ids=(), hits=(), new=(), copies=())


# --- a step in one sentence ---------------------------------------------------------


def _step(events: Sequence[Event], before: Snapshot) -> str:
    """`Decode step: Cleo took block 7; Ada and Ben had room; Dev got no slot.`"""
    room, parts, none = [], [], []
    for event in events:
        who = isolate(event.seq_id or "")
        if event.status != "OK":
            none.append(event)
        elif event.copies:
            old, own = event.copies[0]
            parts.append(f"{who} took block {own}, as a copy of the shared {old}")
        elif event.new:
            taken = listed([str(b) for b in event.new], 4)
            parts.append(f"{who} took block{'s' * (len(event.new) > 1)} {taken}")
        else:
            room.append(who)
    first = [f"{listed(room)} had room in the last block"] if room else []
    last = [_left_out(none)] if none else []
    return f"Decode step: {'; '.join([*parts, *first, *last])}."


def _left_out(events: Sequence[Event]) -> str:
    """Who got no slot, and why."""
    names = listed([isolate(event.seq_id or "") for event in events])
    answers = listed(list(dict.fromkeys(event.status.value for event in events)))
    free = events[-1].free
    there = f"only {plural(free, 'block')} {'is' if free == 1 else 'are'}"
    return f"{names} got no slot, as {there if free else 'no block is'} free: {answers}"


def _advice(events: Sequence[Event], before: Snapshot) -> str:
    """What to do now about somebody who got nothing."""
    grows = {"append", "allocate_slots"}
    refused = [event for event in events if event.status != "OK"]
    if any(e.op in grows and e.status == "NEVER" for e in refused):
        return " Finish it, or undo: it can't go on in this pool."
    if any(e.op in grows for e in refused):
        host = before.host_side() is not None
        ways = "Preempt, finish or swap out" if host else "Preempt or finish"
        return f" {ways} somebody, then step again."
    if any(e.op in {"allocate", "resume", "swap_in"} for e in refused):
        never = any(e.status == "NEVER" for e in refused)
        return " It needs a larger pool." if never else " Make room, then ask again."
    return ""
