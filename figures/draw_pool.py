"""Drawing device memory: the pool of physical blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from blockmgr.block import NULL_BLOCK_ID
from figures.captions import block_caption
from figures.keys import block_key
from figures.layout import (
    CELL_HEIGHT,
    LEFT,
    MARGIN,
    Grid,
)
from figures.marks import Mark
from figures.scene import Scene
from figures.words import clip, esc, named, plural, width

BAND = 19  # height of the owners' band in a block


def draw_pool(scene: Scene, mark: Mark, pool: Grid) -> Iterator[str]:
    """The heading and every physical block."""
    s = scene.snapshot
    words = heading(
        "Pool",
        f"{s.num_used} of {s.num_usable}",
        "blocks in use",
        *slots_each(s.block_size),
    )
    yield mark.fixed("pool", pool.top, words)
    for block_id in range(s.num_blocks):
        yield _block(scene, mark, pool, block_id)


def heading(title: str, *notes: str) -> str:
    """A heading in the left column, with notes under it."""
    lines = "".join(
        f"<text class='note' x='{MARGIN}' y='{16 + 18 * i}'>{note}</text>"
        for i, note in enumerate(notes, start=1)
    )
    return f"<text class='head' x='{MARGIN}' y='16'>{title}</text>{lines}"


def slots_each(block_size: int) -> tuple[str, ...]:
    """The block size as notes no wider than their column."""
    text = f"{plural(block_size, 'slot')} each"
    if width(text) <= LEFT - MARGIN - 4:
        return (text,)
    return clip(f"{block_size:,}", LEFT - MARGIN - 4), "slots each"


def _block(scene: Scene, mark: Mark, pool: Grid, block_id: int) -> str:
    word = scene.marks.get(block_id, "")
    kind, users = _kind(scene, block_id)
    start = mark.attributes(
        f"b{block_id}",
        block_key(block_id),
        f"blk {kind} chg" if word else f"blk {kind}",
        pool.x(block_id),
        pool.y(block_id),
        block_caption(scene, block_id),
        block=block_id,
    )
    inside = _inside(pool.cell, block_id, scene.digits(block_id), users)
    return f"{start}{inside}{_pill(word, pool.cell) if word else ''}</g>"


@dataclass(frozen=True, slots=True)
class _Users:
    """Who uses a block, and how much of it: all that its drawing depends on."""

    names: tuple[str, ...]
    owners: tuple[str, ...]  # CSS classes
    refs: int
    filled: int
    size: int


def _kind(scene: Scene, block_id: int) -> tuple[str, _Users | None]:
    """CSS classes of a block by its state, and its users if it is in use."""
    s = scene.snapshot
    if block_id == NULL_BLOCK_ID:
        return "null", None
    if scene.free(block_id):
        return "free" if s.block_hash[block_id] is None else "free kept", None
    names = scene.owners[block_id]
    owners = tuple([scene.owner(name) for name in names])
    users = _Users(
        names, owners, s.ref_cnt[block_id], scene.filled[block_id], s.block_size
    )
    return f"used {owners[0] if len(owners) == 1 else 'many'}", users


@lru_cache(maxsize=4096)
def _inside(w: float, block_id: int, digits: str, users: _Users | None) -> str:
    edge = f"<rect class='edge' width='{w:.1f}' height='{CELL_HEIGHT}' rx='6'/>"
    number = f"<text class='id' x='7' y='17'>{block_id}</text>"
    middle = f"x='{w / 2:.1f}'"
    if block_id == NULL_BLOCK_ID:
        return f"{edge}{number}<text class='sign' {middle} y='52'>∅</text>"
    if users is not None:
        hash_ = f"<text class='hash' {middle} y='72'>{digits}</text>" if digits else ""
        return f"{edge}{number}{_used(w, users)}{hash_}"
    if not digits:
        return f"{edge}{number}<text class='note mid' {middle} y='50'>free</text>"
    return (
        f"{edge}{plate(3, 4, block_id)}{number}"
        f"<rect class='plate' x='{w / 2 - 18:.1f}' y='36' width='36' height='20' "
        f"rx='4'/><text class='hash' {middle} y='51'>{digits}</text>"
    )


def plate(x: float, y: float, block_id: int) -> str:
    """A quiet ground for a number that stands on hatching."""
    wide = 8 + 9 * len(str(block_id))
    return f"<rect class='plate' x='{x}' y='{y}' width='{wide}' height='18' rx='4'/>"


def _used(w: float, users: _Users) -> str:
    share = (w - 4) / max(len(users.names), 1)
    shown = zip(users.owners, short_names(users.names, share), strict=True)
    bands = "".join(
        _band(owner, text, 2 + i * share, share)
        for i, (owner, text) in enumerate(shown)
    )
    badge = _badge(w, users.refs) if users.refs > 1 else ""
    return f"{bands}{_fill(w, users.filled, users.size)}{badge}"


def short_names(owners: tuple[str, ...], room: float) -> tuple[str, ...]:
    """What to call the sharers of a block in `room` px each: their names, else the one
    sign at the end or at the beginning that tells them apart, else nothing."""
    if all(width(name, 13, bold=True) <= room - 2 for name in owners):
        return tuple(map(named, owners))
    if len(owners) == 1:
        return (clip(owners[0], room - 4, 13, bold=True),)
    firsts = Counter(name[:1] for name in owners)
    signs = tuple(n[:1] if firsts[n[:1]] == 1 else n[-1:] for n in owners)
    fit = all(width(sign, 13, bold=True) <= room - 1 for sign in signs)
    apart = len(set(signs)) == len(owners) and "".join(signs).isalnum()
    return signs if fit and apart else ("",) * len(owners)


def _band(owner: str, name: str, x: float, w: float) -> str:
    """One owner's share of the block: its colour, and its name if that fits."""
    text = ""
    if name:
        text = f"<text class='who' x='{x + w / 2:.1f}' y='37'>{esc(name)}</text>"
    return (
        f"<g class='{owner}'>"
        f"<rect class='band' x='{x:.1f}' y='23' width='{w:.1f}' height='{BAND}'/>"
        f"<path class='stripe' d='M{x + 2:.1f} 40.5h{w - 4:.1f}'/>{text}</g>"
    )


def _badge(w: float, refs: int) -> str:
    x = w - 6  # on the corner, clear of a number of two digits
    return (
        f"<circle class='badge' cx='{x:.1f}' cy='5' r='9.5'/>"
        f"<text class='refs' x='{x:.1f}' y='9.5'>{refs}</text>"
    )


def _fill(w: float, filled: int, size: int) -> str:
    """The slots as a bar: what is not filled is the block's internal waste."""
    room = w - 12
    if size > 16:
        done = room * filled / size
        return (
            f"<path class='bar none' d='M6 46h{room:.1f}v11H6z'/>"
            f"<path class='bar' d='M6 46h{done:.1f}v11H6z'/>"
        )
    gap = 2 if size <= 8 else 1
    cell = (room + gap) / size - gap
    paths = ["", ""]
    for i in range(size):
        paths[i >= filled] += (
            f"M{6 + i * (cell + gap):.1f} 46h{cell:.1f}v11h-{cell:.1f}z"
        )
    full = f"<path class='bar' d='{paths[0]}'/>" if paths[0] else ""
    none = f"<path class='bar none' d='{paths[1]}'/>" if paths[1] else ""
    return full + none


@lru_cache(maxsize=64)
def _pill(word: str, w: float) -> str:
    """The word for what happened to the block, under it."""
    wide = width(word, 13, bold=True) + 12
    return (
        f"<g class='pill'><rect x='{(w - wide) / 2:.1f}' y='{CELL_HEIGHT + 3}' "
        f"width='{wide:.1f}' height='18' rx='9'/>"
        f"<text x='{w / 2:.1f}' y='{CELL_HEIGHT + 16.5}'>{word}</text></g>"
    )
