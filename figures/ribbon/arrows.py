"""What left a ribbon and what came: an arrow for each block, and a word.

Blocks side by side to which the same happened share one word. Words keep apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from figures.layout import LEFT, WIDTH
from figures.ribbon.layout import BAND, Line
from figures.ribbon.moves import EVICTED, HEAD, HIT, TAIL, TAKEN, Words
from figures.sheet import one_line
from figures.words import esc, plural, width

WORDS = {
    TAKEN: "taken",
    EVICTED: "taken, forgets",
    HIT: "hit",
    HEAD: "to the head",
    TAIL: "to the tail",
}
"""What stands over a block that leaves and under one that comes."""

FORGOTTEN = "forgotten"
"""What stands under a block that lost its memory where it stands."""


def arrows(
    shown: Words, forgot: Words, cells: Line, ribbon: float, pill: float, owner: str
) -> Iterator[str]:
    """Draw what happened to the blocks `shown`. The ribbon's top edge is at `ribbon`,
    the words' at `pill`: above it for those that left, below for those that came.
    `owner` are the classes of the colour of whoever did it."""
    middles, up = cells.middles(), pill < ribbon
    groups = list(_groups(cells, shown))
    texts = [_word(kind, ids, forgot) for kind, ids in groups]
    places = _apart([_middle(ids, middles) for _, ids in groups], texts)
    start, end = (ribbon + 8, pill + 21) if up else (pill, ribbon + BAND - 8)
    for (kind, ids), text, x in zip(groups, texts, places, strict=True):
        ways = [(middles[b], x) if up else (x, middles[b]) for b in ids]
        lines = "".join(
            f"<path d='M{a:.1f} {start:g}L{z:.1f} {end + 6:g}'/>" for a, z in ways
        )
        tips = "".join(_tip(z, end) for z in dict.fromkeys(z for _, z in ways))
        points = "" if kind == FORGOTTEN else tips
        yield f"<g class='move {kind} {owner}'>{lines}{points}</g>"
        yield _pill(text, x, pill)


def _word(kind: str, ids: Sequence[int], forgot: Words) -> str:
    if kind != EVICTED:
        return WORDS.get(kind, kind)
    lost = [forgot[b][:4] for b in ids]
    what = lost[0] if len(lost) == 1 else plural(len(lost), "hash", "hashes")
    return f"{WORDS[kind]} {what}"


def _pill(text: str, x: float, y: float) -> str:
    wide = _pill_width(text)
    return (
        f"<g class='pill'><rect x='{x - wide / 2:.1f}' y='{y:g}' width='{wide:.1f}' "
        f"height='20' rx='10'/><text x='{x:.1f}' y='{y + 14.5:g}'>{esc(text)}</text>"
        "</g>"
    )


def _pill_width(text: str) -> float:
    return width(text, 13, bold=True) + 14


def _tip(x: float, y: float) -> str:
    """The point of an arrow that goes up to `y`."""
    return f"<path class='tip' d='M{x - 5:.1f} {y + 8:g}l5 -8l5 8z'/>"


def _groups(cells: Line, shown: Mapping[int, str]) -> Iterator[tuple[str, list[int]]]:
    """Neighbouring cells to which the same happened."""
    kind, ids = "", list[int]()
    for spot in cells.spots:
        here = shown.get(spot.block_id, "") if spot.block_id is not None else ""
        if here != kind and ids:
            yield kind, ids
            ids = []
        kind = here
        if here and spot.block_id is not None:
            ids.append(spot.block_id)
    if ids:
        yield kind, ids


def _middle(ids: Sequence[int], middles: Mapping[int, float]) -> float:
    return (middles[ids[0]] + middles[ids[-1]]) / 2


def _apart(wanted: Sequence[float], texts: Sequence[str]) -> list[float]:
    """Middles of the words as near to `wanted` as they can be without touching."""
    places, edge = list[float](), float(LEFT)
    for x, text in zip(wanted, texts, strict=True):
        half = _pill_width(text) / 2
        places.append(max(x, edge + half))
        edge = places[-1] + half + 8
    edge = float(WIDTH - 8)
    for i in reversed(range(len(places))):
        half = _pill_width(texts[i]) / 2
        places[i] = min(places[i], edge - half)
        edge = places[i] - half - 8
    return places


ARROWS_CSS = one_line("""
.kvribbon .move path{fill:none;stroke:var(--own,var(--ink));stroke-width:2.6}
.kvribbon .move .tip{fill:var(--own,var(--ink));stroke:none}
.kvribbon .move.evicted path{stroke-dasharray:3 4}
.kvribbon .move.hit path{stroke-dasharray:9 4}
.kvribbon .move.head path{stroke-dasharray:none}
""")
"""Rules for what is drawn here."""
