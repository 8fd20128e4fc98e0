"""Charts: their numbers, their colours on both pages, and text that is only text."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from figures.charts import COLOUR, SERIES, Chart, make_chart
from figures.charts.chart import SUMMARY, shown, table
from figures.charts.svg import UnreadableChart, tick
from figures.page import image
from figures.theme import (
    COLOURS,
    EDGE_CONTRAST,
    FONT_SIZE,
    TEXT_CONTRAST,
    TOKENS,
    contrast,
)
from tests.drawing import NASTY, SVG, parsed, svg_of, texts

COLUMNS = ("system", "useful, %", "calls")
ROWS = (("contiguous", 38.2, 15_700), ("paged", 96.3, None))

PAIRS = [*TOKENS.values(), *(c.edge for c in COLOURS), *(c.text for c in COLOURS)]
"""(on a light page, on a dark page) of everything that a chart may be drawn in."""


def bars(axes: Any) -> None:
    for row, series in zip(ROWS, SERIES, strict=False):
        axes.bar([row[0]], [row[1]], label=row[0], **series.bar())
    axes.set_ylabel("useful, %")
    axes.legend(title="who")


def lines(axes: Any) -> None:
    for k, series in enumerate(SERIES):
        axes.plot([1, 10, 10_000], [k, k + 1, k + 2], label=str(k), **series.line())
    axes.set_xscale("log")
    axes.annotate("half", (10, 2), color=COLOUR["orange"])
    axes.legend()


def chart(plot: Callable[..., None] = bars, **options: Any) -> Chart:
    return make_chart("Paging wastes less", COLUMNS, ROWS, plot, **options)


# --- its numbers ----------------------------------------------------------------------


def test_rows_records_csv_and_table_say_the_same() -> None:
    made = chart()
    assert made.rows == ROWS
    assert made.records() == [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    read = list(csv.reader(io.StringIO(made.csv())))
    assert read == [
        list(COLUMNS),
        ["contiguous", "38.2", "15700"],
        ["paged", "96.3", ""],
    ]
    html = made._repr_html_()
    root = ElementTree.fromstring(f"<x>{html[html.index('<details') : -6]}</x>")
    cells = [["".join(c.itertext()) for c in row] for row in root.iter("tr")]
    assert cells == [
        list(COLUMNS),
        ["contiguous", "38.2", "15,700"],
        ["paged", "96.3", "–"],
    ]
    assert [c.get("scope") for c in root.iter("th")] == ["col"] * 3 + ["row"] * 2


def test_its_text_is_a_table_too() -> None:
    lines_: list[str] = []
    chart()._repr_pretty_(type("Printer", (), {"text": lines_.append}), False)
    assert lines_ == [
        "Paging wastes less\n"
        "system      useful, %   calls\n"
        "contiguous       38.2  15,700\n"
        "paged            96.3       –"
    ]
    assert repr(chart()) == "Chart('Paging wastes less', 2 rows)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((15_700, "15,700"), (15_700.4, "15,700"), (1e6, "1,000,000"), (0.0, "0")),
        *((38.24, "38.24"), (999.96, "1000"), (0.1 + 0.2, "0.3"), (-5, "-5")),
        *((True, "True"), (None, "–"), ("9 & 10", "9 & 10"), (float("nan"), "nan")),
        *((np.int64(15_700), "15,700"), (np.float32(0.5), "0.5")),
    ],
)
def test_numbers_are_written_as_people_write_them(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.25"), (10_000, "10,000"), (-5, "−5"), (0, "0"), (0.001, "0.001")],
)
def test_numbers_beside_an_axis_too(value: float, text: str) -> None:
    assert tick(value) == text


def test_a_row_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1 has 2 values, and there are 3 columns"):
        make_chart("t", COLUMNS, [ROWS[0], ("paged", 96.3)], bars)
    with pytest.raises(ValueError, match="needs columns"):
        make_chart("t", (), [], bars)
    assert make_chart("t", ("a",), [], lambda axes: None).csv() == "a\n"


# --- its picture ----------------------------------------------------------------------


def styles(svg: str, name: str) -> list[str]:
    """The style of each element of this name, an attribute's colour included."""
    return [
        f"{one.get('style') or ''};fill:{one.get('fill') or 'none'}"
        for one in parsed(svg).iter(f"{SVG}{name}")
    ]


def colours(style: str) -> list[tuple[str, str]]:
    """(light, dark) of each colour in a style."""
    found = re.findall(r"(?:fill|stroke|color): ?([^;]+)", style)
    return [pair(value) for value in found if not value.startswith(("none", "url(#"))]


def pair(value: str) -> tuple[str, str]:
    role = re.fullmatch(r"var\(--([a-z-]+)\)", value)
    if role:
        return TOKENS[role[1]]
    both = re.fullmatch(r"light-dark\((#\w{6}),(#\w{6})\)", value)
    return (both[1], both[2]) if both else (value, value)


@pytest.mark.parametrize("plot", [bars, lines])
def test_every_colour_follows_the_page_and_can_be_seen(
    plot: Callable[..., None],
) -> None:
    svg = chart(plot).svg
    shapes = [
        each
        for name in ("path", "use", "rect")
        for style in styles(svg, name)
        for each in colours(style)
    ]
    words = [each for style in styles(svg, "text") for each in colours(style)]
    assert len(set(shapes)) >= 4 and words
    assert set(shapes) | set(words) <= set(PAIRS)
    paper = TOKENS["paper"]
    for pairs, least in ((shapes, EDGE_CONTRAST), (words, TEXT_CONTRAST)):
        for each in set(pairs) - {paper, TOKENS["line"]}:  # the grid is faint
            assert contrast(each[0], paper[0]) >= least, each
            assert contrast(each[1], paper[1]) >= least, each


def test_the_colours_to_choose_from_all_follow_the_page() -> None:
    def plot(axes: Any) -> None:
        for k, colour in enumerate(COLOUR.values()):
            axes.plot([0, 1], [k, k], color=colour)

    assert len(COLOUR) == 14
    svg = chart(plot).svg
    used = {each for style in styles(svg, "path") for each in colours(style)}
    roles = {TOKENS[name] for name in COLOUR if name in TOKENS}
    assert used == roles | {c.edge for c in COLOURS} | {TOKENS["paper"]}


def test_black_is_the_colour_of_text() -> None:
    """matplotlib writes no colour at all for it."""

    def plot(axes: Any) -> None:
        axes.text(0, 0, "x", color="black")
        axes.plot([1, 2], color="black")
        axes.bar([0], [1], color="black")

    svg = chart(plot).svg
    assert ".kvchart{fill:var(--ink)" in svg
    assert "#000000" not in svg and "stroke: var(--ink)" in svg


@pytest.mark.parametrize(
    ("plot", "message"),
    [
        (lambda axes: axes.plot([1, 2], color="red"), "a shape has the colour #ff0000"),
        (
            lambda axes: axes.text(0, 0, "x", color="blue"),
            "text has the colour #0000ff",
        ),
        (
            lambda axes: axes.text(0, 0, "x", color=COLOUR["line"]),
            "text has the colour",
        ),
        (lambda axes: axes.set_xlabel("x", fontsize=9), "text of 9.* px is too small"),
        (
            lambda axes: axes.set_xlabel("x", size="small"),
            "text of 10.* px is too small",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(plot: Any, message: str) -> None:
    with pytest.raises(UnreadableChart, match=message):
        chart(plot)


@pytest.mark.parametrize("plot", [bars, lines])
def test_no_text_is_under_12_px_when_the_picture_has_shrunk(
    plot: Callable[..., None],
) -> None:
    made = chart(plot)
    sizes = [float(px) for px in re.findall(r"font-size: ([\d.]+)px", made.svg)]
    assert len(sizes) >= 8
    assert min(sizes) >= FONT_SIZE
    html = made._repr_html_()
    assert parsed(made.svg).get("viewBox") == "0 0 880 330"
    least = re.search(r"min-width:(\d+)px", html)
    assert least and min(sizes) * int(least[1]) / 880 >= 11.99


def test_series_differ_in_everything() -> None:
    for part in ("colour", "hatch", "marker", "dash"):
        assert len({getattr(series, part) for series in SERIES}) == len(SERIES) == 7
    svg = chart(bars).svg
    assert len(list(parsed(svg).iter(f"{SVG}pattern"))) == 1  # the first one is plain
    assert svg.count("fill: url(#h") == 2  # bar and legend


def test_an_axis_of_powers_has_plain_numbers() -> None:
    words = texts(parsed(chart(lines).svg))
    assert {"1", "10", "100", "1,000", "10,000"} <= set(words)


def test_large_and_small_numbers_have_no_offset_in_small_type() -> None:
    def plot(axes: Any) -> None:
        axes.plot([1_000_000, 1_000_001], [-2e-6, 3e-6])

    words = texts(parsed(chart(plot).svg))
    assert "1,000,000" in words and "−2e−06" in words
    assert not [word for word in words if word.startswith("+") or "e6" in word]


def test_panels_stand_side_by_side_at_the_height_asked_for() -> None:
    seen: list[Any] = []
    made = chart(lambda *axes: seen.extend(axes), panels=3, height=200)
    assert len(seen) == 3
    assert len({axes.get_position().y0 for axes in seen}) == 1
    assert parsed(made.svg).get("viewBox") == "0 0 880 200"


# --- the same each time, and nothing else changes -------------------------------------


@pytest.mark.parametrize("plot", [bars, lines])
def test_the_same_numbers_give_the_same_file(plot: Callable[..., None]) -> None:
    before = chart(plot)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        again = chart(plot)
    assert before == again and before.svg == again.svg
    assert len(before.svg) < 30_000
    assert " id='figure" not in before.svg and 'id="text' not in before.svg


def test_two_charts_on_one_page_do_not_mix() -> None:
    """Whatever has an id in both is the same in both; no style reaches outside."""
    one, two = chart(bars).svg, chart(lines, height=200).svg
    rules = "".join(re.findall(r"<style>(.*?)</style>", one + two))
    assert all(".kv" in rule for rule in re.findall(r"([^{}]+)\{", rules))
    found = [
        dict(re.findall(r'<(?:path|clipPath|pattern) id="(\w+)"(.*?>.*?)<', svg, re.S))
        for svg in (one, two)
    ]
    assert found[0] and found[1]
    for name in found[0].keys() & found[1].keys():
        assert found[0][name] == found[1][name]


QUIET = """
import sys, warnings
warnings.simplefilter("error")
import matplotlib
def settings():
    known = set(matplotlib.rcParams) - {"backend"}  # asking for it imports pyplot
    return {name: matplotlib.rcParams[name] for name in known}
before = settings()
from figures.charts import make_chart
make_chart("t", ["a"], [(1,)], lambda axes: axes.set_title("\\U0001f9f1"))
try:
    make_chart("t", ["a"], [(1,)], lambda axes: 1 / 0)
except ZeroDivisionError:
    pass
assert settings() == before, "global settings have changed"
assert "matplotlib.pyplot" not in sys.modules, "pyplot would show a second figure"
"""


def test_drawing_shows_no_second_figure_and_changes_no_setting() -> None:
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_with_matplotlib_inline_nothing_is_left_to_be_shown() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    chart(bars)
    chart(lines)
    assert pyplot.get_fignums() == before


# --- text is text ---------------------------------------------------------------------

TRICKY = ["<b>bold</b>", "\"quoted\" & 'so'", "$x^2$ and $5", "שלום", NASTY]


@pytest.mark.parametrize("text", TRICKY)
def test_whatever_is_typed_is_shown_as_text(text: str) -> None:
    def plot(axes: Any) -> None:
        axes.bar([text, "b"], [1, 2], label=text, color=COLOUR["blue"])
        axes.set_xlabel(text)
        axes.set_title(text)
        axes.legend()

    made = make_chart(text, [text, "n"], [(text, 1), ("b", 2)], plot, note=text)
    html, svg = made._repr_html_(), made.svg
    for markup in (html, svg):
        assert "<b>bold" not in markup and "<script" not in markup
        assert not re.search("[\x00\ud800\u202e]", markup)
    wanted = re.sub("[\ud800\u202e]", "", text).replace("\x00", "␀")
    assert "".join(texts(parsed(svg))).replace("\ufffd", "").count(wanted) == 4
    root = ElementTree.fromstring(f"<x>{html}</x>")
    said = "".join(root.itertext()).replace("\ufffd", "")
    assert said.count(wanted) == 5  # title, note, caption, column, row
    assert svg_of(html) == svg
    assert made.records()[0] == {text: text, "n": 1}


def test_a_chart_has_a_text_alternative() -> None:
    html = chart(note="Lengths of ShareGPT.")._repr_html_()
    root = ElementTree.fromstring(f"<x>{html}</x>")
    alt = root.find(".//img").get("alt")  # type: ignore[union-attr]
    assert alt == "Paging wastes less The numbers stand in the table below."
    assert root.find(".//summary").text == SUMMARY  # type: ignore[union-attr]
    assert root.find(".//caption").text == "Paging wastes less"  # type: ignore[union-attr]
    assert "Lengths of ShareGPT." in html
    assert "<small>" not in chart()._repr_html_()
    assert parsed(chart().svg).get("role") == "img"
    assert parsed(chart().svg).get("aria-label") == "Paging wastes less"


def test_a_table_can_be_had_alone() -> None:
    html = table(["<i>"], [["a & b"]], "c")
    assert "<th scope='col'>&lt;i&gt;</th>" in html and "a &amp; b" in html
    assert image("<svg/>", "x")
