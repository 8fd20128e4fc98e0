"""The HTML around the picture of four memories: controls, tables, the page at rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from figures.machine import bar
from figures.page import STYLE, image
from figures.reservations.film import MOST_TOKENS, SLOTS, ReservationFilm
from figures.tables import html_table
from figures.words import esc

SIZES = (1, 2, 4, 8, 16)
"""Block sizes to choose."""

SUMMARY = "The same step as tables"

CONTROLS = bar() + (
    "<div class='bar' role='group' aria-label='what is reserved'>"
    "<label>longest length <input type='range' data-act='longest' "
    f"min='{MOST_TOKENS}' max='{SLOTS}' step='4' value='{MOST_TOKENS}' "
    "aria-label='longest length'></label><span class='of' data-part='longest'></span>"
    "<label>block size <input type='range' data-act='size' min='0' "
    f"max='{len(SIZES) - 1}' value='2' aria-label='block size'></label>"
    "<span class='of' data-part='size'></span></div>"
)


def tables(film: ReservationFilm, step: int) -> str:
    """What the slots are good for, then who lies where, as HTML."""
    return html_table(
        f"Four memories of {SLOTS} slots after step {step}",
        (
            *("memory", "run", "wait", "served", "tokens", "reserved", "internal"),
            *("external", "what happened"),
        ),
        (_lane_row(film, lane, step) for lane in range(4)),
    ) + html_table(
        "Who has which slots",
        ("memory", "request", "slots", "with a token"),
        (row for lane in range(4) for row in _owner_rows(film, lane, step)),
    )


def _lane_row(film: ReservationFilm, lane: int, step: int) -> Sequence[str]:
    now = film.frame(lane, step)
    return (
        esc(": ".join(film.titles[lane])),
        *map(str, (now.running, now.waiting, film.done(lane, step), *now.account)),
        esc(film.sentence(lane, step)),
    )


def _owner_rows(film: ReservationFilm, lane: int, step: int) -> Iterable[Sequence[str]]:
    held: dict[str, list[str]] = {}
    filled: dict[str, int] = {}
    for piece in film.frame(lane, step).pieces:
        if piece.owner is not None:
            last = piece.start + piece.size - 1
            held.setdefault(piece.owner, []).append(f"{piece.start}–{last}")
            filled[piece.owner] = filled.get(piece.owner, 0) + piece.tokens
    for name in sorted(held, key=lambda name: int(name[1:])):
        yield esc(film.titles[lane][0]), name, ", ".join(held[name]), str(filled[name])


def page(film: ReservationFilm, step: int, svg: str) -> str:
    """One step, and the whole story as a list, for a page without a kernel."""
    say = film.headline(step)
    story = "".join(
        f"<li value='{n}'>{esc(film.headline(n))}</li>" for n in range(len(film))
    )
    return (
        f"<div class='kvpage'>{STYLE}<p class='kvsay'><b>{esc(say)}</b></p>"
        f"{image(svg, say)}<details class='kvtables'><summary>{SUMMARY}</summary>"
        f"{tables(film, step)}</details>"
        f"<details><summary>Every step</summary><ol>{story}</ol></details></div>"
    )
