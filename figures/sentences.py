"""Every event as one sentence in plain words.

The sentence says what happened and why: which rule of the manager decided it. It is
made from the event and the state before it, so it can't say what did not happen.
"""

from __future__ import annotations

from collections.abc import Callable

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.events import Cleared, Event, OnHost, Released, Removed, Snapshot
from figures.phrases import (
    HOST,
    blocks,
    capital,
    copied,
    fell_out,
    found,
    from_the_queue,
    numbers,
    placed,
    stored,
    stored_pairs,
    taken,
    tokens,
    view_after,
    wants,
    went,
    who,
)
from figures.words import Labels, isolate, listed, plural


def describe(event: Event, before: Snapshot, labels: Labels = None) -> str:
    """What `event` did to the state `before`, in words. `labels` gives tokens text."""
    return _TELLERS.get(event.op, _other)(event, before, labels)


# --- coming in ----------------------------------------------------------------------


def _allocate(event: Event, before: Snapshot, labels: Labels) -> str:
    if event.status != "OK":
        return _refused(event, before, f"{who(event)} asked to come in")
    return _admitted(event, before, f"{who(event)} arrived")


def _resume(event: Event, before: Snapshot, labels: Labels) -> str:
    if event.status != "OK":
        return _refused(event, before, f"{who(event)} asked to come back")
    return _admitted(event, before, f"{who(event)} is back")


def _admitted(event: Event, before: Snapshot, opening: str) -> str:
    rest = plural(len(event.token_ids), "token")
    if not event.hits:
        none = f"{opening} with {rest}: nothing of it was cached, so"
        return f"{none} {taken(event)}.{stored(event)}"
    text = f"{opening}: {found(event, before)}"
    if not event.new:
        return f"{text}.{stored(event)}"
    return f"{text}; for {rest} more, {taken(event)}.{stored(event)}"


def _refused(event: Event, before: Snapshot, opening: str) -> str:
    why = wants(event)
    if event.status == "NEVER":
        why = f"could not fit even alone into the pool of {_usable(before)}"
    nothing = "Nothing else" if event.changes else "Nothing"
    return f"{opening}{_but(event, before, why)} {nothing} has changed."


def _but(event: Event, before: Snapshot, why: str) -> str:
    """The reason after an opening. What a window let go of is gone all the same."""
    fell = fell_out(event, before)
    if not fell:
        return f", but {why}: {event.status}."
    it = "it " if why.startswith("could") else ""
    return f": {fell}; still, {it}{why}: {event.status}."


def _usable(before: Snapshot) -> str:
    return plural(before.num_usable, "block")


def _fork(event: Event, before: Snapshot, labels: Labels) -> str:
    child = view_after(event)
    if child is None:
        return _other(event, before, labels)
    held = [b for table in child.tables for b in table if b != NULL_BLOCK_ID]
    # The event does not name the parent: who has the same tokens in the same blocks?
    parents = [
        isolate(name)
        for name, view in before.sequences.items()
        if view.token_ids == child.token_ids
        and all(
            a[: len(b)] == b for a, b in zip(view.tables, child.tables, strict=True)
        )
    ]
    whose = f" of {' or '.join(parents[:4])}" if parents else ""
    same = " (they hold the same blocks)" if len(parents) > 1 else ""
    text = f"{who(event)} is a fork{whose}{same}"
    if not held:
        return f"{text}. No blocks were held, and nothing was copied."
    shared = f"{plural(len(held), 'block')}, {numbers(held)}"
    return f"{text}: it shares {shared}, and nothing was copied."


# --- growing ------------------------------------------------------------------------


def _append(event: Event, before: Snapshot, labels: Labels) -> str:
    opening = f"{who(event)} got {tokens(event, labels)}"
    if event.status == "OK":
        return _grown(event, before, opening)
    keeps = "the token is" if len(event.token_ids) == 1 else "the tokens are"
    why, until = wants(event), " until there is room"
    if event.status == "NEVER":
        why = f"the pool of {_usable(before)} is too small for all tokens so far"
        until = ""
    no = "No other block" if event.changes else "No block"
    return (
        f"{opening}{_but(event, before, why)} {no} has changed; "
        f"{keeps} kept without a slot{until}."
    )


def _allocate_slots(event: Event, before: Snapshot, labels: Labels) -> str:
    more = plural(len(event.token_ids), "more token")
    if event.status != "OK":
        return _refused(event, before, f"{who(event)} asked for slots for {more}")
    return _grown(event, before, f"{who(event)} got slots for {more}")


def _grown(event: Event, before: Snapshot, opening: str) -> str:
    """Tokens went into slots that were there, into a copy, into new blocks."""
    parts = fell_out(event, before), copied(event, before), placed(event, before)
    return f"{opening}: {'; '.join(filter(None, parts))}.{stored(event)}"


# --- leaving ------------------------------------------------------------------------


def _free(event: Event, before: Snapshot, labels: Labels) -> str:
    return f"{who(event)} has finished{_released(event, before)}"


def _preempt(event: Event, before: Snapshot, labels: Labels) -> str:
    return (
        f"{who(event)} is preempted and has to wait; the tokens will be computed "
        f"again{_released(event, before)}"
    )


def _released(event: Event, before: Snapshot) -> str:
    """Where each block went, in the pool or on the host."""
    parts = _went(event, before) + _went_on_host(event, before)
    return f". {capital('; '.join(parts))}." if parts else ". No blocks were held."


def _went(event: Event, before: Snapshot) -> list[str]:
    gone = [change for change in event.changes if isinstance(change, Released)]
    return went(gone, [event.seq_id, *event.sequences], before)


def _went_on_host(event: Event, before: Snapshot) -> list[str]:
    host = before.host_side()
    inner = [change.change for change in event.changes if isinstance(change, OnHost)]
    gone = [change for change in inner if isinstance(change, Released)]
    if host is None:
        return []
    return went(gone, [event.seq_id, *event.sequences], host, HOST)


# --- swap ---------------------------------------------------------------------------


def _swap_out(event: Event, before: Snapshot, labels: Labels) -> str:
    opening = f"{who(event)} was to be swapped out"
    if event.status == "NEVER":
        need = f"{plural(event.needed, 'block')} {_are(event.needed)} needed"
        room = plural(len(before.host_ref_cnt) - 1, "block")
        why = f"{need} on the host, which has {room} in all"
        return f"{opening}, but {why}: NEVER. Nothing has changed."
    if event.status == "LATER":
        why = wants(event, " on the host")
        return f"{opening}, but {why}: LATER. Nothing has changed."
    text = f"{_group(event)} swapped out"
    if not event.copies:
        return f"{text}. No blocks were held, so nothing was copied."
    gone = capital("; ".join(_went(event, before)))
    return f"{text}: {_moved(event, '', HOST)}. {gone}."


def _swap_in(event: Event, before: Snapshot, labels: Labels) -> str:
    if event.status != "OK":
        return _refused(event, before, f"{who(event)} asked to come from the host")
    text = f"{_group(event)} back from the host"
    if not event.copies:
        return f"{text}. No blocks were held, so nothing was copied."
    new = from_the_queue(event, [target for _, target in event.copies])
    text += f": {_moved(event, HOST, '')}, which {new}."
    full = [block_id for block_id, _ in stored_pairs(event)]
    if full:
        text += f" {capital(blocks(full))} {_are(len(full))} full and cached again."
    return f"{text} {capital('; '.join(_went_on_host(event, before)))}."


def _group(event: Event) -> str:
    """`A is`, `A and B are`: who was swapped together."""
    names = list(map(isolate, event.sequences))
    return f"{listed(names, 4)} {_are(len(names))}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _moved(event: Event, home: str, to: str) -> str:
    """What was copied where, and that what they share went once."""
    sources, targets = zip(*event.copies, strict=True)
    were = "was" if len(sources) == 1 else "were"
    text = f"{blocks(sources, home)} {were} copied to {blocks(targets, to)}"
    tables = [t for v in event.sequences.values() if v is not None for t in v.tables]
    shared = [a for a, b in event.copies if sum(b in table for table in tables) > 1]
    once = f" ({blocks(shared, home)}, which they share, only once)"
    return text + once if shared else text


# --- the cache ----------------------------------------------------------------------


def _reset(event: Event, before: Snapshot, labels: Labels) -> str:
    if event.status != "OK":
        used = plural(before.num_used, "block")
        return (
            f"The prefix cache can't be reset while {used} {_are(before.num_used)} in "
            "use. Nothing has changed."
        )
    hashes = sum(key is not None for key in before.block_hash)
    cleared = any(isinstance(change, Cleared) for change in event.changes)
    count = plural(hashes if cleared else 0, "hash", "hashes")
    return f"The prefix cache was reset: {count} forgotten, the queue stays as it is."


def _evict(event: Event, before: Snapshot, labels: Labels) -> str:
    pairs = [p for c in event.changes if isinstance(c, Removed) for p in c.removed]
    if not pairs:
        return "The cache was told to forget blocks, but none of them had a hash."
    ids = blocks([block_id for block_id, _ in pairs])
    digits = ", ".join(key[:4] for _, key in pairs[:6])
    what = "hash" if len(pairs) == 1 else "hashes"
    whose = "its users and its place" if len(pairs) == 1 else "users and places"
    return f"The cache forgot {ids} ({what} {digits}); {whose} in the queue stay."


def _other(event: Event, before: Snapshot, labels: Labels) -> str:
    whom = f" of {who(event)}" if event.seq_id else ""
    return f"{event.op.capitalize()}{whom}: {event.status}."


_TELLERS: dict[str, Callable[[Event, Snapshot, Labels], str]] = {
    "allocate": _allocate,
    "append": _append,
    "allocate_slots": _allocate_slots,
    "fork": _fork,
    "free": _free,
    "preempt": _preempt,
    "resume": _resume,
    "swap_out": _swap_out,
    "swap_in": _swap_in,
    "reset": _reset,
    "evict": _evict,
}
