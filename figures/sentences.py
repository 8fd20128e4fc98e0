"""Every event as one sentence in plain words.

The sentence says what happened and why: which rule of the manager decided it. It is
made from the event and the state before it, so it can't say what did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blockmgr.events import Cleared, Event, Released, Removed, Snapshot, Stored, Taken
from figures.words import Labels, isolate, listed, plural, token_name


def describe(event: Event, before: Snapshot, labels: Labels = None) -> str:
    """What `event` did to the state `before`, in words. `labels` gives tokens text."""
    return _TELLERS.get(event.op, _other)(event, before, labels)


# --- parts of sentences -------------------------------------------------------------


def blocks(ids: Sequence[int]) -> str:
    """`block 5`, `blocks 5 and 6`, `blocks 5, 6 and 9`."""
    most = 11 if len(ids) > 12 else None
    what = "block" if len(ids) == 1 else "blocks"
    return f"{what} {listed(list(map(str, ids)), most)}"


def _name(event: Event) -> str:
    return isolate(event.seq_id or "somebody")


def _tokens(event: Event, labels: Labels) -> str:
    """`token 17`, `“cat”`, `4 tokens`."""
    if len(event.token_ids) == 1:
        return token_name(event.token_ids[0], labels)
    return plural(len(event.token_ids), "token")


def _taken(event: Event) -> str:
    """Which blocks were taken, from where, and what they forgot for it."""
    were = "was" if len(event.new) == 1 else "were"
    text = f"{blocks(event.new)} {were} taken from the head of the queue"
    lost = [pair for c in event.changes if isinstance(c, Taken) for pair in c.evicted]
    if not lost:
        return text
    if len(lost) == 1 and len(event.new) == 1:
        it = "it still held a cached block's contents"
        return f"{text} ({it}: hash {lost[0][1][:4]} is now forgotten)"
    held = ", ".join(f"{b} ({key[:4]})" for b, key in lost[:6])
    more = f" and {len(lost) - 6} more" if len(lost) > 6 else ""
    return f"{text}; cached contents are forgotten for it: {held}{more}"


def _stored(event: Event) -> str:
    """A sentence on the blocks that became full and can be found from now on."""
    pairs = [
        pair
        for change in event.changes
        if isinstance(change, Stored)
        for pair in zip(change.block_ids, change.hashes, strict=True)
    ]
    if not pairs:
        return ""
    if len(pairs) == 1:
        block_id, key = pairs[0]
        return f" Block {block_id} is full now and is cached under hash {key[:4]}."
    ids = blocks([block_id for block_id, _ in pairs])
    return f" {_capital(ids)} are full now and are cached."


def _found(event: Event, before: Snapshot) -> str:
    """Where the beginning was found, and what that means for these blocks."""
    revived = [b for b in event.hits if not before.ref_cnt[b]]
    count = plural(len(event.hits) * before.block_size, "token")
    text = f"the first {count} were found in {blocks(event.hits)}"
    if len(revived) == len(event.hits):
        return f"{text}, free but not forgotten, and back in use now"
    text += f", which {'is' if len(event.hits) == 1 else 'are'} shared now"
    return f"{text} ({blocks(revived)} came out of the queue)" if revived else text


def _wants(event: Event) -> str:
    """Needed and free, as numbers."""
    are, is_are = ("is" if n == 1 else "are" for n in (event.needed, event.free))
    there = f"only {event.free} {is_are} free" if event.free else "none is free"
    return f"{plural(event.needed, 'free block')} {are} needed and {there}"


# --- one teller per operation -------------------------------------------------------


def _admitted(event: Event, before: Snapshot, opening: str) -> str:
    rest = plural(len(event.token_ids), "token")
    if not event.hits:
        none = f"{opening} with {rest}: nothing of it was cached, so"
        return f"{none} {_taken(event)}.{_stored(event)}"
    found = f"{opening}: {_found(event, before)}"
    if not event.new:
        return f"{found}.{_stored(event)}"
    return f"{found}; for {rest} more, {_taken(event)}.{_stored(event)}"


def _refused(event: Event, before: Snapshot, opening: str) -> str:
    if event.status == "NEVER":
        pool = plural(before.num_usable, "block")
        return (
            f"{opening}, but could not fit even alone into the pool of {pool}: "
            "NEVER. Nothing has changed."
        )
    return f"{opening}, but {_wants(event)}: LATER. Nothing has changed."


def _allocate(event: Event, before: Snapshot, labels: Labels) -> str:
    if event.status != "OK":
        return _refused(event, before, f"{_name(event)} asked to come in")
    return _admitted(event, before, f"{_name(event)} arrived")


def _resume(event: Event, before: Snapshot, labels: Labels) -> str:
    if event.status != "OK":
        return _refused(event, before, f"{_name(event)} asked to come back")
    return _admitted(event, before, f"{_name(event)} is back")


def _append(event: Event, before: Snapshot, labels: Labels) -> str:
    opening = f"{_name(event)} got {_tokens(event, labels)}"
    if event.status == "OK":
        return _grown(event, before, opening)
    keeps = "the token is" if len(event.token_ids) == 1 else "the tokens are"
    why, until = _wants(event), " until there is room"
    if event.status == "NEVER":
        pool = plural(before.num_usable, "block")
        why = f"the pool of {pool} is too small for all tokens so far"
        until = ""
    return (
        f"{opening}, but {why}: {event.status}. No block has changed; "
        f"{keeps} kept without a slot{until}."
    )


def _allocate_slots(event: Event, before: Snapshot, labels: Labels) -> str:
    more = plural(len(event.token_ids), "more token")
    if event.status != "OK":
        return _refused(event, before, f"{_name(event)} asked for slots for {more}")
    return _grown(event, before, f"{_name(event)} got slots for {more}")


def _grown(event: Event, before: Snapshot, opening: str) -> str:
    """Tokens went into slots that were there, into new blocks, or both."""
    view = before.sequences.get(event.seq_id or "")
    table = view.block_table if view is not None else ()
    held = len(view.token_ids) if view is not None else 0
    room = len(table) * before.block_size - held
    if not event.new:
        ids = table[held // before.block_size :]
        had = "there was room in" if len(ids) != 1 else "there was still room in the"
        where = blocks(ids[:1]) if len(ids) != 1 else f"last block, {ids[0]}"
        return f"{opening}: {had} {where}.{_stored(event)}"
    if room <= 0:
        full = "the last block was full, so" if table else "there was no block yet, so"
        return f"{opening}: {full} {_taken(event)}.{_stored(event)}"
    some = f"{room} fitted into {blocks(table[held // before.block_size :])}"
    return f"{opening}: {some}, and for the rest {_taken(event)}.{_stored(event)}"


def _free(event: Event, before: Snapshot, labels: Labels) -> str:
    return f"{_name(event)} has finished{_released(event, before)}"


def _preempt(event: Event, before: Snapshot, labels: Labels) -> str:
    return (
        f"{_name(event)} is preempted and has to wait; the tokens will be computed "
        f"again{_released(event, before)}"
    )


def _released(event: Event, before: Snapshot) -> str:
    """Where each block went: head, tail, or nowhere because others use it."""
    change = next((c for c in event.changes if isinstance(c, Released)), None)
    if change is None:
        return ". No blocks were held."
    parts = []
    if change.head:
        parts.append(
            f"{blocks(change.head)} had no hash and went to the head of the queue"
        )
    if change.tail:
        one = len(change.tail) == 1
        its, order = ("its", "") if one else ("their", ", last block first")
        parts.append(
            f"{blocks(change.tail)} kept {its} contents and went to the tail{order}"
        )
    shared = [b for b in change.block_ids if b not in {*change.head, *change.tail}]
    if shared:
        it = "it" if len(shared) == 1 else "them"
        users = _users(event, before, shared)
        parts.append(f"{blocks(shared)} stayed, because {users} {it}")
    return f". {_capital('; '.join(parts))}."


def _capital(text: str) -> str:
    """A capital at the start, the rest as it is: names keep theirs."""
    return text[:1].upper() + text[1:]


def _users(event: Event, before: Snapshot, shared: Sequence[int]) -> str:
    """`B still uses`, `B and C still use`."""
    names = dict.fromkeys(
        isolate(name)
        for block_id in shared
        for name in before.owners(block_id)
        if name != event.seq_id
    )
    return f"{listed(list(names), 4)} still {'uses' if len(names) == 1 else 'use'}"


def _reset(event: Event, before: Snapshot, labels: Labels) -> str:
    if event.status != "OK":
        used = plural(before.num_used, "block")
        is_are = "is" if before.num_used == 1 else "are"
        return (
            f"The prefix cache can't be reset while {used} {is_are} in use. "
            "Nothing has changed."
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
    whom = f" of {_name(event)}" if event.seq_id else ""
    return f"{event.op.capitalize()}{whom}: {event.status}."


_TELLERS: dict[str, Callable[[Event, Snapshot, Labels], str]] = {
    "allocate": _allocate,
    "append": _append,
    "allocate_slots": _allocate_slots,
    "free": _free,
    "preempt": _preempt,
    "resume": _resume,
    "reset": _reset,
    "evict": _evict,
}
