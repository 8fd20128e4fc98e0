"""`show`: the picture of a manager, a state or a run, in one line of a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import ParamSpec

from figures.blockmap import Source, latest
from figures.page import page, repr_of
from figures.svg import block_map
from figures.words import Labels

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Picture:
    """A still picture that notebooks know how to show. `svg` can be saved as a file."""

    svg: str
    html: str
    text: str

    def __repr__(self) -> str:
        return f"Picture({self.text})"

    def _repr_html_(self) -> str:
        return self.html


def picture(
    source: Source,
    *,
    labels: Labels = None,
    at: int | None = None,
    selected: str | None = None,
    sentence: str | None = None,
    legend: bool = False,
    tables: bool = True,
    titled: bool = False,
) -> Picture:
    """The still picture of `source`: a manager, a recorded run or one state.

    Of a recorded run, step `at` is drawn (the last one without it), with the sentence
    for it; `sentence` puts your own words there. `labels` gives tokens their text.
    `titled` draws the sentence into the SVG too, for a file that stands alone.
    """
    frame, plan = latest(source, labels, at)
    say = frame.sentence if sentence is None else sentence
    svg = block_map(
        frame.after,
        event=frame.event,
        before=frame.before,
        labels=labels,
        selected=selected,
        plan=plan,
        title=say if titled else "",
        legend=legend,
    )
    html = page(svg, frame.after, sentence=say, labels=labels, tables=tables)
    return Picture(svg, html, repr_of(frame.after, frame.event))


def _at_once(make: Callable[P, Picture]) -> Callable[P, None]:
    def show(*args: P.args, **options: P.kwargs) -> None:
        """Display `picture(...)` at once, wherever it stands in a cell. Returns None.

        It takes what `picture` takes.
        """
        from IPython.display import display  # only notebooks need it

        display(make(*args, **options))  # type: ignore[no-untyped-call]

    takes = signature(make).replace(return_annotation="None")
    show.__signature__ = takes  # type: ignore[attr-defined]
    return show


show = _at_once(picture)
