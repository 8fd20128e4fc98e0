"""The HTML around the picture of a race: controls, tables, and the page at rest."""

from __future__ import annotations

from collections.abc import Sequence

from blockmgr.contest import Place
from figures.machine import bar
from figures.page import STYLE, image
from figures.race.film import RaceFilm
from figures.tables import html_table
from figures.words import esc, isolate, listed

MOST_K = 6
"""Largest batch to choose."""

SUMMARY = "The same step as tables"

CONTROLS = bar() + (
    "<div class='bar' role='group' aria-label='third lane'>"
    "<label>batch&nbsp;size&nbsp;k <input type='range' data-act='k' min='1' "
    f"max='{MOST_K}' value='1' aria-label='batch size k'></label>"
    "<span class='count' data-part='k'></span></div>"
)


def tables(film: RaceFilm, step: int) -> str:
    """The lanes with their counters, then the jobs with their ends, as HTML."""
    lanes = (_lane_row(film, lane, step) for lane in range(3))
    jobs = (_job_row(film, index, step) for index in range(len(film.jobs)))
    heads = [title.lower() for title, _ in film.titles]
    return html_table(
        f"Three lanes after step {step}",
        (
            *("lane", "calls that take", "blocks taken", "slots empty now"),
            *("blocks in use", "at the door", "stalled", "what happened"),
        ),
        lanes,
    ) + html_table(
        "The jobs, and in which step each got its last token",
        ("job", "arrives in step", "prompt", "output", *heads),
        jobs,
    )


def _lane_row(film: RaceFilm, lane: int, step: int) -> Sequence[str]:
    turn = film.turn(lane, step)
    told, pool = turn.counters, turn.snapshot
    title, rule = film.titles[lane]
    return (
        esc(f"{title}: {rule}"),
        str(told.calls),
        str(told.blocks_taken),
        str(told.slots_wasted),
        f"{pool.num_used} of {pool.num_usable}",
        _names(film, lane, step, Place.WAITING),
        _names(film, lane, step, Place.STALLED),
        esc(film.sentence(lane, step)),
    )


def _names(film: RaceFilm, lane: int, step: int, wanted: Place) -> str:
    places = film.turn(lane, step).places.items()
    return esc(listed([isolate(name) for name, p in places if p is wanted]) or "nobody")


def _job_row(film: RaceFilm, index: int, step: int) -> Sequence[str]:
    job = film.jobs[index]
    ends = (film.finish(lane, job.name) for lane in range(3))
    return (
        f"<bdi>{esc(isolate(job.name))}</bdi>",
        *map(str, job[1:]),
        *(f"step {end}" if end <= step else "not yet" for end in ends),
    )


def page(film: RaceFilm, step: int, svg: str) -> str:
    """One step, its tables and the whole story, for a page without a kernel."""
    lanes = (f"{film.titles[n][0]}: {film.sentence(n, step)}" for n in range(3))
    alt = " ".join((film.headline(step), *lanes))
    story = "".join(
        f"<li value='{n}'>{esc(film.headline(n))}</li>" for n in range(len(film))
    )
    return (
        f"<div class='kvpage'>{STYLE}<p class='kvsay'><b>{esc(film.headline(step))}</b>"
        f"</p>{image(svg, alt)}"
        f"<details><summary>{SUMMARY}</summary>{tables(film, step)}</details>"
        f"<details><summary>Every step</summary><ol>{story}</ol></details></div>"
    )
