"""The one visual language: colours, contrast and the style sheet of every figure.

A sequence keeps one colour of the Okabe-Ito palette from its arrival to its end. The
palette was made for colour-blind eyes, and still nothing here is said by colour alone:
each thing also has a name, a pattern or a number.

The colours of a figure follow the page: JupyterLab's theme where there is one, the
reader's system elsewhere (`light-dark()` chooses, `color-scheme` decides).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blockmgr.events import EventLog, Snapshot

TEXT_CONTRAST = 4.5
"""WCAG 2 AA for text: the ratio of luminances between text and what lies behind it."""

EDGE_CONTRAST = 3.0
"""WCAG 2 AA for lines and shapes that carry meaning."""

FONT_SIZE = 13
"""Smallest text of a figure in its own units: 12 px on screen at `MIN_SCALE`."""

MIN_SCALE = 12 / FONT_SIZE
"""A figure shrinks with its page down to this and then scrolls."""

OKABE_ITO = (
    ("blue", "#0072b2"),
    ("orange", "#e69f00"),
    ("green", "#009e73"),
    ("vermilion", "#d55e00"),
    ("sky", "#56b4e9"),
    ("purple", "#cc79a7"),
    ("yellow", "#f0e442"),
)
"""Okabe and Ito, "Color Universal Design", 2008, in our order of arrival."""


# --- contrast -----------------------------------------------------------------------


def rgb(colour: str) -> tuple[int, int, int]:
    """`"#0072b2"` -> `(0, 114, 178)`."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2, 0.0 (black) to 1.0 (white)."""
    channels = (c / 255 for c in rgb(colour))
    r, g, b = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2, 1.0 (same) to 21.0 (black on white)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mix(colour: str, towards: str, share: float) -> str:
    """`colour` with `share` (0.0 to 1.0) of `towards` stirred in."""
    pairs = zip(rgb(colour), rgb(towards), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def readable(colour: str, background: str, ratio: float) -> str:
    """The nearest shade of `colour` that stands out from `background` by `ratio`."""
    towards = "#000000" if luminance(background) > 0.18 else "#ffffff"
    shades = (mix(colour, towards, step / 50) for step in range(51))
    return next(shade for shade in shades if contrast(shade, background) >= ratio)


# --- colours ------------------------------------------------------------------------

Roles = dict[str, tuple[str, str]]

TOKENS: Roles = {
    "paper": ("#ffffff", "#16191d"),
    "ink": ("#1f2933", "#e9eef3"),
    "muted": ("#52606d", "#a9b4c0"),
    "line": ("#c5ced8", "#434d58"),
    "inset": ("#f1f4f7", "#22272d"),
    "edge": ("#6b7a89", "#8492a0"),
    "hatch": ("#b9c4cf", "#4a5662"),
    "null": ("#3e4c59", "#5a6a79"),
    "on-null": ("#ffffff", "#ffffff"),
    "mark": ("#1f2933", "#f2f5f8"),
    "on-mark": ("#ffffff", "#16191d"),
    "good": ("#0b6b3a", "#7fdca9"),
    "good-paper": ("#edf8f2", "#12291d"),
    "good-edge": ("#3f9567", "#3f9567"),
    "bad": ("#9a3412", "#ffb08a"),
    "bad-paper": ("#fdf1eb", "#33190f"),
    "bad-edge": ("#c2551f", "#d9713b"),
}
"""What each role looks like on a light and on a dark page."""

CONTROLS: Roles = {
    "action": ("#0072b2", "#0072b2"),
    "action-hover": ("#005f95", "#005f95"),
    "on-action": ("#ffffff", "#ffffff"),
}
"""The same for what can be pressed or dragged. A still picture has none of it."""

GOOD, BAD = TOKENS["good-edge"][0], "#d55e00"
"""Edges for places that can't know whether the page is light or dark."""

TEXT_PAIRS = (
    ("ink", "paper"),
    ("ink", "inset"),
    ("muted", "paper"),
    ("muted", "inset"),
    ("on-null", "null"),
    ("on-mark", "mark"),
    ("good", "good-paper"),
    ("ink", "good-paper"),
    ("bad", "bad-paper"),
    ("ink", "bad-paper"),
    ("bad", "paper"),
    ("good", "paper"),
    ("on-action", "action"),
    ("on-action", "action-hover"),
)
"""Every (text, background) that the figures use, beside the owners' own colours."""

FROM_JUPYTER = {
    "paper": "--jp-layout-color0",
    "ink": "--jp-ui-font-color0",
}
"""Roles that JupyterLab's own theme decides when it is there."""


@dataclass(frozen=True, slots=True)
class Colour:
    """One owner's colour in all its uses.

    `fill` is the palette's own; `on` is the text that stands upon it. `text` and `edge`
    are (light page, dark page): the same hue, moved until it can be read on the paper.
    """

    name: str
    fill: str
    on: str
    text: tuple[str, str]
    edge: tuple[str, str]


def _colour(name: str, fill: str) -> Colour:
    on = max(("#111111", "#ffffff"), key=lambda ink: contrast(ink, fill))
    light, dark = TOKENS["paper"]
    return Colour(
        name,
        fill,
        on,
        text=(
            readable(fill, light, TEXT_CONTRAST + 0.1),
            readable(fill, dark, TEXT_CONTRAST + 0.1),
        ),
        edge=(readable(fill, light, EDGE_CONTRAST), readable(fill, dark, 3.5)),
    )


COLOURS = tuple(_colour(name, fill) for name, fill in OKABE_ITO)


# --- who has which colour -----------------------------------------------------------


def arrival_order(log: EventLog) -> tuple[str, ...]:
    """Every sequence of a run in order of arrival, those that were turned away too.

    Give it as `order=` to draw the frames of one run: a sequence then keeps its colour
    when others leave.
    """
    order = dict.fromkeys(log.initial.sequences)
    for event in log.events:
        if event.seq_id is not None:
            order[event.seq_id] = None
    return tuple(order)


def colour_indices(order: Sequence[str], *snapshots: Snapshot | None) -> dict[str, int]:
    """Sequence -> its place in the palette: first `order`, then who else is there."""
    names: dict[str, None] = dict.fromkeys(order)
    for snapshot in snapshots:
        if snapshot is not None:
            names.update(dict.fromkeys(snapshot.sequences))
    return {name: index for index, name in enumerate(names)}


def owner_class(index: int) -> str:
    """CSS classes of the owner at this place: its colour, and a stripe beyond seven."""
    striped = " striped" if index >= len(COLOURS) else ""
    return f"o{index % len(COLOURS)}{striped}"


# --- the style sheet ----------------------------------------------------------------

SANS = "var(--jp-ui-font-family,system-ui,-apple-system,'Segoe UI',sans-serif)"
MONO = "var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace)"


def _value(role: str, light: str, dark: str) -> str:
    value = light if light == dark else f"light-dark({light},{dark})"
    return f"var({FROM_JUPYTER[role]},{value})" if role in FROM_JUPYTER else value


def variables(start: str = "--", roles: Roles = TOKENS) -> str:
    """The roles as CSS variables, for a page that is light or dark."""
    return ";".join(f"{start}{role}:{_value(role, *c)}" for role, c in roles.items())


def owner_rules(indices: Iterable[int]) -> str:
    """`.o0{...}` for the owners at these places: --fill, --on, --text and --own."""
    used = sorted({index % len(COLOURS) for index in indices})
    return "".join(
        f".kvfig .o{i}{{--fill:{c.fill};--on:{c.on};"
        f"--text:light-dark({c.text[0]},{c.text[1]});"
        f"--own:light-dark({c.edge[0]},{c.edge[1]})}}"
        for i, c in ((i, COLOURS[i]) for i in used)
    )


def base_css() -> str:
    """The roles as CSS variables of `.kvfig`, and when the page counts as dark."""
    return (
        f".kvfig{{color-scheme:light dark;{variables()};"
        f"--sans:{SANS};--mono:{MONO};font-family:var(--sans);color:var(--ink)}}"
        ":is([data-jp-theme-light=true],.vscode-light) .kvfig{color-scheme:light}"
        ":is([data-jp-theme-light=false],.vscode-dark) .kvfig{color-scheme:dark}"
    )
