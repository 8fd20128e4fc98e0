"""The legend: what each kind of block looks like, and what the signs on it mean."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from figures.layout import LEFT, MARGIN, ROOM
from figures.page import image
from figures.sheet import frame
from figures.words import width

LINE = 28
ALONE = 600  # width of a legend that stands by itself
SUMMARY = "How to read this picture"

_BLOCKS = (
    ("free", "", "free"),
    ("free kept", "", "free, still cached"),
    ("null", "∅", "null block"),
    ("used chg", "", "changed in this step"),
    ("used", "2", "shared (ref count)"),
)
_WORDS = (
    ("new", "taken from the queue"),
    ("hit", "found in the cache"),
    ("hash", "cached from now on"),
    ("+1", "token added"),
    ("freed", "back in the queue"),
    ("−1", "one user less"),
    ("lost", "hash forgotten"),
)

Sample = tuple[str, float, str]
"""What is shown, how wide it is, and what it means."""


def draw_legend(top: float, left: float = LEFT, room: float = ROOM) -> str:
    """A few lines of samples with their names."""
    return "".join(
        f"<g transform='translate({x:g} {top + y:g})'>{shown}"
        f"<text class='note' x='{wide + 8:g}' y='15'>{text}</text></g>"
        for x, y, (shown, wide, text) in _placed(left, room)
    )


def legend_height(left: float = LEFT, room: float = ROOM) -> float:
    """Height of all its lines."""
    return max(y for _, y, _ in _placed(left, room)) + 22


def legend_svg(prefix: str = "kleg") -> str:
    """The legend as a picture of its own."""
    place = MARGIN, ALONE - 2 * MARGIN
    height = legend_height(*place) + 2 * MARGIN
    texts = ", ".join(text for _, _, (_, _, text) in _placed(*place))
    return frame(
        draw_legend(MARGIN, *place),
        ALONE,
        height,
        name="Legend",
        words=texts,
        prefix=prefix,
        owners=[0],
    )


@lru_cache(maxsize=1)
def legend_details() -> str:
    """The legend folded away under its question, as HTML."""
    lines = (f"{sign}: {text}" for sign, text in _WORDS)
    alt = f"{', '.join(text for _, _, text in _BLOCKS)}. Under a block: "
    picture = image(legend_svg(), alt + ", ".join(lines), ALONE)
    return f"<details class='kvlegend'><summary>{SUMMARY}</summary>{picture}</details>"


@lru_cache(maxsize=4)
def _placed(left: float, wide: float) -> tuple[tuple[float, float, Sample], ...]:
    placed, y = [], 0.0
    for line in (_blocks(), _signs(), _pills()):
        x = left
        for sample in line:
            room = sample[1] + 8 + width(sample[2])
            if x + room > left + wide:
                x, y = left, y + LINE
            placed.append((x, y, sample))
            x += room + 18
        y += LINE
    return tuple(placed)


def _blocks() -> Iterator[Sample]:
    for kind, sign, text in _BLOCKS:
        badge = (
            "<circle class='badge' cx='10' cy='10' r='9.5'/>"
            f"<text class='refs' x='10' y='14.5'>{sign}</text>"
        )
        empty = f"<text class='sign small' x='10' y='15'>{sign}</text>"
        inside = {"2": badge, "∅": empty}.get(sign, "")
        edge = "<rect class='edge' width='20' height='20' rx='4'/>"
        yield f"<g class='blk {kind}'>{edge}{inside}</g>", 20, text


def _signs() -> Iterator[Sample]:
    digits = "<text class='hash' x='18' y='15'>08f4</text>"
    yield digits, 36, "cached: first digits of the hash"
    yield f"<g class='o0'>{_slots()}</g>", 46, "slots: 2 filled, 2 empty"
    yield _slots(), 46, "the same, in a shared block"


def _slots() -> str:
    cells = (f"M{12 * i} 5h10v11h-10z" for i in range(4))
    one, two, three, four = cells
    return (
        f"<path class='bar' d='{one}{two}'/><path class='bar none' d='{three}{four}'/>"
    )


def _pills() -> Iterator[Sample]:
    for word, text in _WORDS:
        wide = width(word, 13, bold=True) + 12
        pill = (
            f"<g class='pill'><rect y='1' width='{wide:.1f}' height='18' rx='9'/>"
            f"<text x='{wide / 2:.1f}' y='14.5'>{word}</text></g>"
        )
        yield pill, wide, text
