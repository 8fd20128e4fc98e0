"""The life of a request in one figure: from its arrival to the recycling of its blocks.

The lecture names this workflow; this is its picture, in the same visual language as the
block maps, and as much a pure function.
"""

from __future__ import annotations

from collections.abc import Sequence

from figures.layout import WIDTH
from figures.lines import Point, rounded
from figures.marks import checked
from figures.page import STYLE, image
from figures.sheet import frame

HEIGHT = 560

TITLE = "The life of a request"

STORY = (
    "A request arrives. The manager looks its prefix up in the cache, full block by "
    "full block. Are there enough free blocks for the rest? If not, the request "
    "waits, or it is refused; nobody who runs has to go for it. If so, the manager "
    "touches the hits, takes blocks from the head of the free queue and writes the "
    "block table. The model runs a step and puts K and V into the new slots. Each new "
    "token is appended: in place if the last block has room, into a new block if it "
    "is full, into a copy if it is shared (lesson 05). If no block is free for it, "
    "whoever came last is preempted and waits again. At the end every ref count goes "
    "down by one, last block first. A block that others use stays. One that reaches 0 "
    "goes to the free queue: with a hash to the tail, where it is remembered longest, "
    "without one to the head, where it is taken next."
)
"""The same in words: the figure's text alternative."""


def workflow_svg(prefix: str = "kflow") -> str:
    """The workflow figure as an SVG string."""
    body = "".join((*_admission(), *_running(), *_finish(), _queue()))
    return frame(
        body,
        WIDTH,
        HEIGHT,
        name=TITLE,
        words=STORY,
        prefix=checked(prefix) or "kflow",
        owners=[0],
        kind="kvflow",
        css=_CSS,
    )


def show_workflow() -> None:
    """Display the workflow figure, with its story folded away below. Returns None."""
    from IPython.display import HTML, display

    details = f"<details><summary>The same in words</summary><p>{STORY}</p></details>"
    picture = image(workflow_svg(), STORY)
    html = f"<div class='kvpage'>{STYLE}{picture}{details}</div>"
    display(HTML(html))  # type: ignore[no-untyped-call]


# --- the three parts ----------------------------------------------------------------


def _admission() -> tuple[str, ...]:
    return (
        _arrow([(168, 62), (188, 62)]),
        _arrow([(372, 62), (392, 62)]),
        _arrow([(578, 62), (634, 62)], "yes", (606, 55)),
        _arrow([(485, 106), (485, 154)], "no", (502, 136)),
        _arrow([(400, 184), (281, 184), (281, 98)], "try again", (340, 177), loop=True),
        _box(16, 28, 152, 68, 1, "Request arrives", "with a prompt", kind="asks-in"),
        _box(188, 28, 184, 68, 2, "Look up the prefix", "full blocks, by hash"),
        _question(392, 18, 186, 88, 3, "Enough free", "blocks for the rest?"),
        _box(400, 154, 170, 60, 0, "No room", "wait, or be refused", kind="no"),
        _box(
            634,
            18,
            230,
            106,
            4,
            "Allocate",
            "touch the hits",
            "take blocks from the head",
            "write the block table",
        ),
    )


def _running() -> tuple[str, ...]:
    return (
        _arrow([(749, 124), (749, 166)]),
        _arrow([(700, 234), (700, 262)], "token", (672, 254)),
        _arrow([(800, 262), (800, 234)], "again", (828, 254), loop=True),
        _box(634, 166, 230, 68, 5, "Run one step", "K and V into the new slots"),
        _box(
            634,
            262,
            230,
            125,
            6,
            "Append",
            "room left: in place",
            "full: take a new block",
            _later("shared: copy on write"),
            _later("(lesson 05)"),
        ),
        _arrow([(634, 200), (612, 200), (612, 314), (572, 314)], "end", (617, 193)),
        _arrow([(749, 387), (749, 410)], "none is free", (806, 403)),
        _arrow(
            [(634, 439), (591, 439), (591, 184), (570, 184)],
            "wait again",
            (544, 252),
            loop=True,
        ),
        _box(634, 410, 230, 56, 0, "No room", "preempt the last comer", kind="no"),
    )


def _finish() -> tuple[str, ...]:
    return (
        _arrow([(485, 348), (485, 380)]),
        _arrow([(392, 417), (352, 417)], "no", (372, 410)),
        _arrow([(485, 454), (485, 480), (285, 480), (285, 496)], "no hash", (340, 472)),
        _arrow([(485, 454), (485, 480), (700, 480), (700, 496)], "hash", (592, 472)),
        "<text class='flow' x='496' y='471'>yes</text>",
        _box(398, 280, 174, 68, 7, "Finish", "each ref count − 1"),
        _question(392, 380, 186, 74, 8, "Is it 0 now?", "block by block"),
        _box(190, 387, 162, 60, 0, "It stays", "others still use it"),
    )


def _queue() -> str:
    """The free queue: plain blocks at the head, remembered ones at the tail."""
    cells = "".join(
        f"<g class='blk free{kept}' transform='translate({x} 504)'>"
        "<rect class='edge' width='40' height='32' rx='5'/></g>"
        for x, kept in (
            *((220 + 48 * i, "") for i in range(4)),
            *((580 + 48 * i, " kept") for i in range(4)),
        )
    )
    return (
        "<text class='head' x='16' y='513'>Free queue</text>"
        "<text class='note' x='16' y='531'>its head is</text>"
        "<text class='note' x='16' y='548'>taken next</text>"
        "<path class='ribbon' d='M136 496H864V544H136L120 520z'/>"
        "<text class='end' x='148' y='525'>head</text>"
        "<text class='end' x='800' y='525'>tail</text>"
        "<path class='way' d='M424 520H570' stroke-dasharray='2 8'/>"
        f"{cells}"
    )


# --- pieces -------------------------------------------------------------------------


def _box(
    x: int,
    y: int,
    w: int,
    h: int,
    number: int,
    title: str,
    *lines: str,
    kind: str = "",
) -> str:
    owner = " o0" if kind == "asks-in" else ""
    return (
        f"<g class='stop {kind}{owner}' transform='translate({x} {y})'>"
        f"<rect class='edge' width='{w}' height='{h}' rx='8'/>"
        f"{_words(12, 25, title, lines)}{_number(w, number)}</g>"
    )


def _question(x: int, y: int, w: int, h: int, number: int, *lines: str) -> str:
    """A question is a hexagon: two ways lead out of it."""
    m = h / 2
    shape = f"M18 0H{w - 18}L{w} {m:g}L{w - 18} {h}H18L0 {m:g}z"
    return (
        f"<g class='stop' transform='translate({x} {y})'>"
        f"<path class='edge' d='{shape}'/>"
        f"{_words(22, m - 4, lines[0], lines[1:])}{_number(w - 12, number)}</g>"
    )


def _words(x: float, y: float, title: str, lines: Sequence[str]) -> str:
    notes = "".join(
        f"<text class='note' x='{x:g}' y='{y + 22 + 19 * i:g}'>{line}</text>"
        for i, line in enumerate(lines)
    )
    return f"<text class='name' x='{x:g}' y='{y:g}'>{title}</text>{notes}"


def _later(line: str) -> str:
    """What another lesson is about."""
    return f"<tspan class='later'>{line}</tspan>"


def _number(w: int, number: int) -> str:
    if not number:
        return ""
    return (
        f"<circle class='badge' cx='{w - 4}' cy='3' r='11'/>"
        f"<text class='refs' x='{w - 4}' y='7.5'>{number}</text>"
    )


def _arrow(
    points: Sequence[Point],
    label: str = "",
    at: Point = (0, 0),
    *,
    loop: bool = False,
) -> str:
    (x0, y0), (x1, y1) = points[-2:]
    dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    # The line ends where the head begins, so that its tip is sharp.
    line = [*points[:-1], (x1 - 7 * dx, y1 - 7 * dy)]
    wing = f"{x1 - 9 * dx - 5 * dy:g} {y1 - 9 * dy - 5 * dx:g}"
    other = f"{x1 - 9 * dx + 5 * dy:g} {y1 - 9 * dy + 5 * dx:g}"
    text = ""
    if label:
        text = f"<text class='flow mid' x='{at[0]:g}' y='{at[1]:g}'>{label}</text>"
    dashed = " stroke-dasharray='5 4'" if loop else ""
    return (
        f"<path class='way' d='{rounded(line, 8)}'{dashed}/>"
        f"<path class='tip' d='M{x1:g} {y1:g}L{wing}L{other}z'/>{text}"
    )


_CSS = (
    ".kvflow .way{fill:none;stroke:var(--edge);stroke-width:2.2}"
    ".kvflow .tip{fill:var(--edge)}"
    ".kvflow .stop .edge{stroke:var(--edge);stroke-width:2}"
    ".kvflow .flow{font-weight:700}"
    ".kvflow .later{font-style:italic}"
    ".kvflow .asks-in .edge{fill:var(--fill);stroke:var(--fill)}"
    ".kvflow .asks-in text:not(.refs){fill:var(--on)}"
    ".kvflow .no .edge{stroke:var(--bad-edge);stroke-dasharray:5 4}"
    ".kvflow .no .name{fill:var(--bad)}"
)
