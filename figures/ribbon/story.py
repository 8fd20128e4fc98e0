"""The story of one block: who had it, what it remembered, when it will be taken."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.events import (
    Cleared,
    Event,
    Released,
    Removed,
    Snapshot,
    Stored,
    Taken,
    Touched,
)
from figures.film import Film
from figures.words import esc, isolate, listed, plural

MOST_FACTS = 3
"""Of a long story, the last facts."""

INVITATION = "Click a block, or walk to one with the arrow keys, to hear its story."

Fact = tuple[int, str]
"""A step of the run, and what happened to the block in it."""


class Chronicle:
    """Every block's facts, collected once from a film. The film may grow."""

    def __init__(self, film: Film) -> None:
        self.film = film
        self._told = 0  # events that have been read
        self._facts: defaultdict[int, list[Fact]] = defaultdict(list)

    def facts(self, block_id: int, step: int) -> list[Fact]:
        """What happened to this block up to and including `step`."""
        self._read_on()
        facts = self._facts[block_id]
        return facts[: bisect_right(facts, step, key=lambda fact: fact[0])]

    def _read_on(self) -> None:
        events = self.film.log.events
        while self._told < len(events):
            event, before = events[self._told], self.film.state(self._told)
            self._told += 1
            told: defaultdict[int, list[str]] = defaultdict(list)
            for block_id, words in _happened(event, before):
                told[block_id].append(words)
            for block_id, parts in told.items():
                self._facts[block_id].append((self._told, "; ".join(parts)))


def _happened(event: Event, before: Snapshot) -> Iterator[tuple[int, str]]:
    who = isolate(event.seq_id or "somebody")
    for change in event.changes:
        match change:
            case Taken(ids, evicted):
                lost = dict(evicted)
                for b in ids:
                    memory = f" and it forgot {lost[b][:4]}" if b in lost else ""
                    yield b, f"{who} took it from the head{memory}"
            case Touched(ids):
                how = "shares it" if event.op == "fork" else "found it in the cache"
                yield from ((b, f"{who} {how}") for b in ids)
            case Released(ids, head, tail):
                ends = dict.fromkeys(head, "no hash, so to the head")
                ends |= dict.fromkeys(tail, "still remembered, so to the tail")
                for b in ids:
                    yield b, f"{who} let go of it: {ends.get(b, 'others still use it')}"
            case Stored(ids, hashes):
                for b, key in zip(ids, hashes, strict=True):
                    yield b, f"full, and remembered as {key[:4]}"
            case Removed(pairs):
                yield from (
                    (b, f"forgot {key[:4]} where it stands") for b, key in pairs
                )
            case Cleared():
                for b, name in enumerate(before.block_hash):
                    if name is not None:
                        yield b, f"forgot {name[:4]}: the cache was reset"


def outlook(snapshot: Snapshot, block_id: int) -> str:
    """What the block is now, and when it will be taken."""
    key = snapshot.block_hash[block_id]
    if snapshot.ref_cnt[block_id]:
        users = listed([isolate(n) for n in snapshot.owners(block_id)], 4)
        count = plural(snapshot.ref_cnt[block_id], "user")
        return f"In use by {users} ({count}), so it stands in no queue."
    place = snapshot.free_queue.index(block_id)
    before = f"{plural(place, 'block')} will be taken before it"
    turn = "It is the next to be taken" if place == 0 else before
    where = f"Number {place + 1} of {snapshot.num_free} in the queue. {turn}"
    if key is None:
        return f"{where}. It is blank: nobody can find what was in it."
    return f"{where}, unless somebody asks for its content, {key[:4]}, first."


def next_of(snapshot: Snapshot) -> str:
    """Who is at the head of the queue, and what that will cost."""
    if not snapshot.free_queue:
        return "The queue is empty: whoever needs a block has to wait."
    block_id = snapshot.free_queue[0]
    key = snapshot.block_hash[block_id]
    cost = "it is blank" if key is None else f"it will forget {key[:4]} then"
    return f"The next to be taken is <b>block {block_id}</b>; {cost}."


def story_html(chronicle: Chronicle, snapshot: Snapshot, step: int, key: str) -> str:
    """The story of the block that `key` names, as HTML; else the invitation."""
    block_id = block_of(key, snapshot)
    if block_id is None:
        return f"<p>{next_of(snapshot)}</p><p>{INVITATION}</p>"
    facts = chronicle.facts(block_id, step)
    told = [f"<li>Step {n}: {esc(words)}.</li>" for n, words in facts[-MOST_FACTS:]]
    early = len(facts) - len(told)
    if early:
        told.insert(0, f"<li>Before: {plural(early, 'step')} more.</li>")
    if not told:
        told = ["<li>Nothing has happened to it yet.</li>"]
    now = esc(outlook(snapshot, block_id))
    return f"<p><b>Block {block_id}.</b> {now}</p><ul>{''.join(told)}</ul>"


def block_of(key: str, snapshot: Snapshot) -> int | None:
    """The block that `selected` names, if this pool gives it out."""
    kind, _, number = key.partition(":")
    if kind != "block" or not (number.isascii() and number.isdigit()):
        return None
    known = NULL_BLOCK_ID < int(number[:9]) < snapshot.num_blocks
    return int(number[:9]) if known else None
