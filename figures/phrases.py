"""Parts of sentences: which blocks were taken, found, copied, let go of, and why.

`sentences.py` puts them together. Each is made from an event and the state before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.events import Event, Released, SequenceView, Snapshot, Stored, Taken
from figures.words import Labels, isolate, listed, plural, token_name

Names = Sequence[str | None]
HOST = "host "


def blocks(ids: Sequence[int], kind: str = "") -> str:
    """`block 5`, `blocks 5 and 6`, `blocks 5, 6 and 9`; `kind` is `HOST` for those of
    the host."""
    what = "block" if len(ids) == 1 else "blocks"
    return f"{kind}{what} {numbers(ids)}"


def numbers(ids: Sequence[int]) -> str:
    """`5`, `5 and 6`, `5, 6 and 9`; of very many, the first ones."""
    return listed(list(map(str, ids)), 11 if len(ids) > 12 else None)


def who(event: Event) -> str:
    """The sequence that the event is about."""
    return isolate(event.seq_id or "somebody")


def capital(text: str) -> str:
    """A capital at the start, the rest as it is: names keep theirs."""
    return text[:1].upper() + text[1:]


def tokens(event: Event, labels: Labels) -> str:
    """`token 17`, `“cat”`, `4 tokens`."""
    if len(event.token_ids) == 1:
        return token_name(event.token_ids[0], labels)
    return plural(len(event.token_ids), "token")


def wants(event: Event, where: str = "") -> str:
    """Needed and free, as numbers."""
    are, is_are = ("is" if n == 1 else "are" for n in (event.needed, event.free))
    there = f"only {event.free} {is_are} free" if event.free else "none is free"
    return f"{plural(event.needed, 'free block')} {are} needed{where} and {there}"


def view_after(event: Event) -> SequenceView | None:
    """The sequence that the event is about, as it is afterwards."""
    return event.sequences.get(event.seq_id or "")


# --- found and taken ----------------------------------------------------------------


def found(event: Event, before: Snapshot) -> str:
    """Where the beginning was found, and what that means for these blocks."""
    hits = [b for b in event.hits if b != NULL_BLOCK_ID]
    revived = [b for b in hits if not before.ref_cnt[b]]
    text = f"the first {plural(_num_cached(event, before), 'token')} "
    if len(hits) == len(event.hits):
        text += f"were found in {blocks(hits)}"
    else:  # a window does not reach back to the beginning
        text += "need not be computed: what is still seen of them was found in "
        text += blocks(hits)
    if len(revived) == len(hits):
        return f"{text}, free but not forgotten, and back in use now"
    text += f", which {'is' if len(hits) == 1 else 'are'} shared now"
    return f"{text} ({blocks(revived)} came out of the queue)" if revived else text


def _num_cached(event: Event, before: Snapshot) -> int:
    """Tokens that need not be computed. The hits are those of every group of layers,
    so their number alone does not tell."""
    view = view_after(event)
    if view is None:
        return len(event.hits) * before.block_size
    return len(view.token_ids) - len(event.token_ids)


def taken(event: Event) -> str:
    """Which blocks were taken, from where, and what they forgot for it."""
    return f"{blocks(event.new)} {from_the_queue(event, event.new, _whose(event))}"


def from_the_queue(event: Event, ids: Sequence[int], whose: str = "") -> str:
    """`was taken from the head of the queue`, and what these blocks forgot."""
    were = "was" if len(ids) == 1 else "were"
    text = f"{were} taken from the head of the queue{whose}"
    takes = [change for change in event.changes if isinstance(change, Taken)]
    lost = [pair for change in takes for pair in change.evicted if pair[0] in ids]
    if not lost:
        return text
    if len(lost) == 1 and len(ids) == 1:
        it = "it still held a cached block's contents"
        return f"{text} ({it}: hash {lost[0][1][:4]} is now forgotten)"
    held = ", ".join(f"{b} ({key[:4]})" for b, key in lost[:6])
    more = f" and {len(lost) - 6} more" if len(lost) > 6 else ""
    return f"{text}; cached contents are forgotten for it: {held}{more}"


def _whose(event: Event) -> str:
    """In a hybrid model: which of the new blocks are for which layers."""
    view = view_after(event)
    if view is None or not view.more_tables:
        return ""
    full = [b for b in event.new if b in view.block_table]
    window = [b for b in event.new if b not in view.block_table]
    parts = (
        f"{numbers(full)} for the layers with full attention" if full else "",
        f"{numbers(window)} for those with a window" if window else "",
    )
    return f" ({', '.join(filter(None, parts))})"


def stored_pairs(event: Event) -> list[tuple[int, str]]:
    """The blocks that can be found from now on, each with its hash."""
    return [
        pair
        for change in event.changes
        if isinstance(change, Stored)
        for pair in zip(change.block_ids, change.hashes, strict=True)
    ]


def stored(event: Event) -> str:
    """A sentence on the blocks that became full and can be found from now on."""
    pairs = stored_pairs(event)
    if not pairs:
        return ""
    if len(pairs) == 1:
        block_id, key = pairs[0]
        return f" Block {block_id} is full now and is cached under hash {key[:4]}."
    ids = blocks([block_id for block_id, _ in pairs])
    return f" {capital(ids)} are full now and are cached."


# --- written ------------------------------------------------------------------------


def placed(event: Event, before: Snapshot) -> str:
    """In which slots the tokens are; nothing to add if they all are in a copy."""
    view = before.sequences.get(event.seq_id or "")
    tables = view.tables if view is not None else ((),)
    held = len(view.token_ids) if view is not None else 0
    first = held // before.block_size
    room = len(tables[0]) * before.block_size - held
    begun = [b for table in tables for b in table[first:]]
    if not event.new:
        return "" if event.copies else _in_place(event, begun, first, len(tables))
    if room <= 0:
        were = "last block was" if len(tables) == 1 else "last blocks were"
        full = f"the {were} full, so" if tables[0] else "there was no block yet, so"
        return f"{full} {taken(event)}"
    copies = "it" if len(event.copies) == 1 else "them"
    where = copies if event.copies else blocks(begun)
    return f"{room} fitted into {where}, and for the rest {taken(event)}"


def _in_place(event: Event, begun: Sequence[int], first: int, groups: int) -> str:
    """There were enough slots: `begun` are the blocks that had them."""
    if not event.token_ids:
        return "every token has one already"
    if not begun:  # a ring of blocks: the newest tokens lie where the oldest were
        view = view_after(event)
        over = view.block_table[first:] if view is not None else ()
        return f"the oldest ones were overwritten, in {blocks(over)}"
    if len(begun) == 1:
        return f"there was still room in the last block, {begun[0]}"
    if len(begun) == groups:
        return f"there was still room in the last blocks, {numbers(begun)}"
    return f"there was room in {blocks(begun[:: len(begun) // groups])}"


def copied(event: Event, before: Snapshot) -> str:
    """Copy-on-write: `block 3 is shared with b, so a gets a copy in block 7`."""
    if not event.copies:
        return ""
    shared, own = zip(*event.copies, strict=True)
    users = listed(_others([event.seq_id], before, shared), 4)
    are, copy = ("is", "a copy") if len(shared) == 1 else ("are", "copies")
    return (
        f"{blocks(shared)} {are} shared with {users}, so {who(event)} gets {copy} in "
        f"{blocks(own)}, which {from_the_queue(event, own)}"
    )


# --- let go of ----------------------------------------------------------------------


def went(
    gone: Sequence[Released], names: Names, before: Snapshot, kind: str = ""
) -> list[str]:
    """Where each block went: head, tail, or nowhere because others use it.

    `names` are those who let go. For the host, `before` is its side of the state.
    """
    parts = []
    head, tail, shared = _heads(gone), _tails(gone), _staying(gone)
    queue = "the host's queue" if kind else "the queue"
    if head:
        parts.append(
            f"{blocks(head, kind)} had no hash and went to the head of {queue}"
        )
    if tail:
        each = " of each table" if len(gone) > 1 else ""
        one = len(tail) == 1
        its, order = ("its", "") if one else ("their", f", last block{each} first")
        parts.append(f"{blocks(tail)} kept {its} contents and went to the tail{order}")
    if shared:
        it = "it" if len(shared) == 1 else "them"
        users = _users(names, before, shared)
        parts.append(f"{blocks(shared, kind)} stayed, because {users} {it}")
    return parts


def fell_out(event: Event, before: Snapshot) -> str:
    """Blocks that a window let go of, before the call counted what is free."""
    copied = {source for source, _ in event.copies}
    released = [change for change in event.changes if isinstance(change, Released)]
    gone = [change for change in released if not copied.issuperset(change.block_ids)]
    fell, parts = "fell out of the window", []
    head, tail, shared = _heads(gone), _tails(gone), _staying(gone)
    if head:
        where = "had no hash and went to the head of the queue"
        parts.append(f"{blocks(head)} {fell}, {where}")
    if tail:
        its = "its" if len(tail) == 1 else "their"
        where = f"kept {its} contents and went to the tail"
        parts.append(f"{blocks(tail)} {fell}, {where}")
    if shared:
        it = "it" if len(shared) == 1 else "them"
        users = _users([event.seq_id], before, shared)
        parts.append(f"{blocks(shared)} {fell} and stayed, because {users} {it}")
    return "; ".join(parts)


def _heads(gone: Sequence[Released]) -> list[int]:
    """What went to the head of the queue, as it stands there: the last comers first."""
    return [b for change in reversed(gone) for b in change.head]


def _tails(gone: Sequence[Released]) -> list[int]:
    return [b for change in gone for b in change.tail]


def _staying(gone: Sequence[Released]) -> list[int]:
    """What did not become free, because others use it."""
    free = {*_heads(gone), *_tails(gone)}
    ids = dict.fromkeys(b for change in gone for b in change.block_ids)
    return [b for b in ids if b not in free]


def _users(names: Names, before: Snapshot, shared: Sequence[int]) -> str:
    """`B still uses`, `B and C still use`."""
    others = _others(names, before, shared)
    return f"{listed(others, 4)} still {'uses' if len(others) == 1 else 'use'}"


def _others(names: Names, before: Snapshot, shared: Sequence[int]) -> list[str]:
    """Who holds these blocks besides `names`."""
    owners = [name for block_id in shared for name in before.owners(block_id)]
    return list(dict.fromkeys(isolate(n) for n in owners if n not in names))
