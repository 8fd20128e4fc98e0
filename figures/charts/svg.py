"""From a figure of matplotlib to a figure of ours.

matplotlib draws in the colours of the light page; on the way out each of them becomes a
variable, so that a chart follows its page like every other figure. What would not be
legible there is refused.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import (
    Formatter,
    FuncFormatter,
    LogFormatter,
    NullFormatter,
    ScalarFormatter,
)

from figures.theme import COLOURS, FONT_SIZE, TOKENS, base_css
from figures.words import esc, visible

# What has no colour in matplotlib's file is black there.
_STYLE = (
    ".kvchart{fill:var(--ink);stroke-linejoin:round}"
    ".kvchart text{font-family:var(--sans)}"
)


class UnreadableChart(ValueError):
    """A chart has a colour that is none of ours, or text that is too small."""


def chart_svg(figure: Figure, title: str) -> str:
    """The figure as SVG that follows its page and can be read out.

    Raises `UnreadableChart` for a colour that is not in `COLOUR`, for text in a colour
    too pale for text, and for text under 13 px.
    """
    _tidy(figure)
    head, _, rest = _written(figure).partition(">")
    box = re.search(r'viewBox="([^"]*)"', head)
    assert box is not None, "matplotlib writes a viewBox"
    return (
        "<svg xmlns='http://www.w3.org/2000/svg' "
        "xmlns:xlink='http://www.w3.org/1999/xlink' class='kvfig kvchart' role='img' "
        f"aria-label='{esc(title)}' viewBox='{box[1]}'>"
        f"<style>{base_css()}{_STYLE}</style>{_TAG.sub(_ours, rest).strip()}"
    )


def _written(figure: Figure) -> str:
    """matplotlib's file from `<svg` on, without what is the same in all of them."""
    text = io.StringIO()
    canvas: Any = FigureCanvasSVG(figure)
    with warnings.catch_warnings():
        # The page has other fonts than matplotlib.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.print_svg(text, metadata=nothing)
    whole = text.getvalue()
    body = whole[whole.index("<svg") :]
    body = re.sub(r"<(metadata|style).*?</\1>", "", body, flags=re.DOTALL)
    return re.sub(r"\s*\n\s*", "\n", body)


# --- before it is written -------------------------------------------------------------


def _tidy(figure: Figure) -> None:
    """Numbers on the axes as people write them, and no text that XML forbids."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(_Visible(_plain(axis.get_major_formatter())))
            if isinstance(axis.get_minor_formatter(), LogFormatter):
                axis.set_minor_formatter(NullFormatter())
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(_lines(text.get_text()))


def _lines(text: str) -> str:
    """Visible text, its line breaks kept."""
    return "\n".join(map(visible, text.split("\n")))


def _plain(formatter: Formatter) -> Formatter:
    """`10,000` in place of `1e4` and of a power in small type."""
    if isinstance(formatter, ScalarFormatter | LogFormatter):
        return FuncFormatter(lambda value, _: tick(value))
    return formatter


class _Visible(Formatter):
    """What another formatter writes, made visible."""

    def __init__(self, other: Formatter) -> None:
        self._other = other

    def __call__(self, x: float, pos: int | None = None) -> str:
        return _lines(self._other(x, pos))

    def format_ticks(self, values: Any) -> list[str]:
        return [_lines(text) for text in self._other.format_ticks(values)]


def tick(value: float) -> str:
    """A number beside an axis: `0.25`, `10,000`, `−5`."""
    whole = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return whole.replace("-", "−")


# --- after ----------------------------------------------------------------------------

_TAG = re.compile(r"<\w[^>]*>")
_HEX = re.compile(r"#[0-9a-f]{6}\b")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_SMALL = re.compile(r"font(?:-size)?: ([\d.]+)px")
_NEEDLESS = re.compile(
    r" font-family: [^;\"]*;| transform=\"rotate\(-0 [^\"]*\"|(?<=<g) id=\"[^\"]*\""
)


def _ours(tag: re.Match[str]) -> str:
    """One tag with our colours, without what it does not need."""
    kept = _NEEDLESS.sub("", tag[0])
    colours = _TEXT if kept.startswith("<text") else _SHAPES
    size = _SMALL.search(kept)
    if size and float(size[1]) < FONT_SIZE:
        raise UnreadableChart(
            f"text of {size[1]} px is too small: leave `fontsize` away, "
            f"or give {FONT_SIZE} or more"
        )
    kept = _HEX.sub(lambda found: _variable(found[0], colours), kept)
    return _LONG.sub(lambda number: f"{float(number[0]):.2f}", kept)


def _variable(colour: str, colours: Mapping[str, str]) -> str:
    if colour not in colours:
        what = "text" if colours is _TEXT else "a shape"
        raise UnreadableChart(
            f"{what} has the colour {colour}, which does not follow the page: take one "
            f"from COLOUR ({', '.join(_NAMES[colours is _TEXT])})"
        )
    return colours[colour]


def _pair(light: str, dark: str) -> str:
    return light if light == dark else f"light-dark({light},{dark})"


def _roles(*names: str) -> Iterator[tuple[str, str]]:
    for name in names:
        yield TOKENS[name][0], f"var(--{name})"


_BLACK = to_hex("black")  # what matplotlib draws in unless told
_SHAPES: Mapping[str, str] = {
    _BLACK: "var(--ink)",
    **dict(_roles("ink", "muted", "line", "inset", "hatch", "edge", "paper")),
    **{colour.edge[0]: _pair(*colour.edge) for colour in COLOURS},
}
# A colour that stands out as a line may be too pale to be read: text gets a darker one.
_TEXT: Mapping[str, str] = {
    _BLACK: "var(--ink)",
    **dict(_roles("ink", "muted")),
    **{colour.edge[0]: _pair(*colour.text) for colour in COLOURS},
}
_HUES = [colour.name for colour in COLOURS]
_NAMES = {
    True: ["ink", "muted", *_HUES],
    False: ["ink", "muted", "line", "inset", "hatch", "edge", *_HUES],
}
