"""How charts look: colours, sizes, and how series are told apart without colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.rcsetup import cycler

from figures.theme import COLOURS, FONT_SIZE, TOKENS

HEIGHT = 330
"""Height of a chart in px, at the width of a block map."""

COLOUR = {colour.name: colour.edge[0] for colour in COLOURS} | {
    role: TOKENS[role][0]
    for role in ("ink", "muted", "line", "inset", "hatch", "edge", "paper")
}
"""Colours for `plot`: the palette by name (`"blue"`), and the roles of a page."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series: a colour, and what tells it apart where colours can't be seen."""

    colour: str
    hatch: str
    marker: str
    dash: Any

    def bar(self) -> dict[str, Any]:
        """For `axes.bar(..., **series.bar())`: the colour and a pattern upon it."""
        return {
            "color": COLOUR[self.colour],
            "hatch": self.hatch,
            "edgecolor": COLOUR["ink"],
        }

    def line(self) -> dict[str, Any]:
        """For `axes.plot(..., **series.line())`: colour, marker and stroke."""
        return {
            "color": COLOUR[self.colour],
            "marker": self.marker,
            "linestyle": self.dash,
        }


SERIES = (
    Series("blue", "", "o", "-"),
    Series("orange", "//", "s", "--"),
    Series("green", "..", "^", ":"),
    Series("vermilion", "\\\\", "D", "-."),
    Series("sky", "xx", "v", (0, (6, 2, 1, 2, 1, 2))),
    Series("purple", "--", "P", (0, (10, 3))),
    Series("yellow", "||", "X", (0, (3, 1))),
)
"""Seven series: `for rows, series in zip(groups, SERIES): ...`. Each differs from the
others in colour, pattern, marker and stroke, so one of them is enough to know it."""

FORM: Any = {  # matplotlib's types know each name
    "svg.fonttype": "none",  # text stays text: it can be read out and searched
    "svg.hashsalt": "chart",  # the same chart gives the same file
    "text.parse_math": False,  # a dollar is a dollar
    "axes.formatter.useoffset": False,
    "font.size": float(FONT_SIZE),
    "font.family": "DejaVu Sans",
    "axes.titlesize": float(FONT_SIZE),
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": COLOUR["edge"],
    "axes.labelcolor": COLOUR["ink"],
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": COLOUR["line"],
    "text.color": COLOUR["ink"],
    "xtick.color": COLOUR["edge"],
    "ytick.color": COLOUR["edge"],
    "xtick.labelcolor": COLOUR["ink"],
    "ytick.labelcolor": COLOUR["ink"],
    "legend.facecolor": TOKENS["paper"][0],  # lines pass behind it
    "legend.edgecolor": TOKENS["paper"][0],
    "legend.framealpha": 0.85,
    "legend.handlelength": 2.8,
    "figure.constrained_layout.h_pad": 0.11,  # inches of 72 px
    "figure.constrained_layout.w_pad": 0.11,
    "hatch.color": COLOUR["ink"],
    "hatch.linewidth": 1.0,
    "lines.linewidth": 2.4,
    "lines.markersize": 7.0,
    "figure.facecolor": TOKENS["paper"][0],
    "axes.facecolor": TOKENS["paper"][0],
    "savefig.facecolor": TOKENS["paper"][0],
    "axes.prop_cycle": cycler(color=[c.edge[0] for c in COLOURS]),
}
"""matplotlib's settings while a chart is drawn, in the colours of a light page."""
