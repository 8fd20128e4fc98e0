"""PolicyRace: three allocation policies racing on the same jobs, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from blockmgr.contest import Job, Place
from figures.machine import TimeMachine
from figures.race.draw import race_svg
from figures.race.film import RaceFilm
from figures.race.page import CONTROLS, MOST_K, SUMMARY, page, tables
from figures.stage import shell
from figures.words import esc, plural

JOBS = (Job("A", 1, 5, 6), Job("B", 1, 3, 14), Job("C", 2, 6, 5), Job("D", 3, 9, 8))
"""Four small requests that don't all fit at once."""


class PolicyRace(TimeMachine):
    """Three policies with a pool each: everything ahead of time, on demand, in batches.

    `jobs` are up to 6 `blockmgr.contest.Job`s. `k`, the blocks of a batch (1 to 6), can
    be changed later, on the page or from Python: the third lane then runs again.
    `max_tokens` is what the first lane makes room for; `num_blocks` counts the null
    block. `at` is the step it opens with, and the one that a page without a kernel
    shows (without it, the start, and there the step in which most jobs wait).

    Raises `InvalidRequest` for jobs that can't be served, and `ValueError` for a race
    that has no room in its picture.
    """

    k = traitlets.Int(3)

    def __init__(
        self,
        jobs: Sequence[Job] = JOBS,
        *,
        k: int = 3,
        max_tokens: int = 24,
        num_blocks: int = 13,
        block_size: int = 4,
        at: int | None = None,
    ) -> None:
        self.jobs, self._at = tuple(jobs), at
        self._how = {
            "max_tokens": max_tokens,
            "num_blocks": num_blocks,
            "block_size": block_size,
        }
        self._films: dict[int, RaceFilm] = {}
        self._film_of(k)
        super().__init__(shell(SUMMARY, CONTROLS, stays=True))
        self.k = k
        self.observe(self._changed, names="k")
        self._go(at or 0, playing=False)

    def __repr__(self) -> str:
        return f"PolicyRace({len(self.jobs)} jobs, k={self.k}, {self.last_step} steps)"

    @property
    def film(self) -> RaceFilm:
        """The race with the present `k`."""
        return self._film_of(self.k)

    def _film_of(self, k: int) -> RaceFilm:
        if k not in self._films:
            self._films[k] = RaceFilm(self.jobs, k=k, **self._how)
        return self._films[k]

    @property
    def last_step(self) -> int:
        """The step after which every lane is empty."""
        return len(self.film) - 1

    @traitlets.validate("k")
    def _possible_k(self, proposal: Any) -> int:
        return int(min(max(proposal["value"], 1), MOST_K))

    def act(self, name: str, value: float | None) -> None:
        """Do what a control says. Another `k` keeps the step, if there still is one."""
        if name != "k":
            super().act(name, value)
            return
        self.unobserve(self._changed, names="k")
        self.k = int(value or 1)
        self.observe(self._changed, names="k")
        self._go(self.step, playing=False)

    def draw(self) -> None:
        """Place the frame of the present step."""
        film, step = self.film, min(self.step, self.last_step)
        parts = {
            "count": self.count,
            "k": plural(self.k, "block"),
            "say": esc(film.headline(step)),
            "space": esc(film.longest_headline()),
            "picture": race_svg(film, step, self.prefix),
            "tables": tables(film, step),
        }
        k = {"value": self.k, "valueText": plural(self.k, "block")}
        self.place(parts, {**self.step_controls(), "k": k}, self.tick)

    def page(self) -> str:
        """One step and the whole story, for a page without a kernel."""
        still = self._most_waiting() if self._at is None else self.step
        return page(self.film, still, race_svg(self.film, still))

    def _most_waiting(self) -> int:
        """The first step in which most jobs are not served, in all lanes together."""
        away = (Place.WAITING, Place.STALLED)

        def waiting(step: int) -> int:
            turns = (self.film.turn(lane, step) for lane in range(3))
            return sum(place in away for t in turns for place in t.places.values())

        return max(range(len(self.film)), key=waiting)
