"""Reservations: the same requests in four memories, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from blockmgr.workloads import Lengths
from figures.machine import TimeMachine
from figures.reservations.draw import reservations_svg
from figures.reservations.film import MOST_TOKENS, SLOTS, ReservationFilm
from figures.reservations.page import CONTROLS, SIZES, SUMMARY, page, tables
from figures.stage import Stage, shell
from figures.words import esc, plural

_CHOICE = ["longest", "block_size"]


class Reservations(TimeMachine):
    """Three ways to reserve one piece for each request, and paging, in 64 slots each.

    `requests` are up to 14 `Lengths` of up to 32 tokens; all of them wait at the start.
    `longest` (32 to 64, in steps of 4) is the model's longest length, `block_size` (1,
    2, 4, 8 or 16) that of the fourth memory; both can be changed later, on the page or
    from Python, to the nearest value that is possible. `at` is the step it opens with,
    and the one that a page without a kernel shows (without it the start, and there the
    step in which most slots of the paged memory hold a token).

    Raises `InvalidRequest` for requests that the picture has no room for.
    """

    _css = Stage._css + (
        ".kvstage .bar label{white-space:nowrap}"
        ".kvstage .bar .of{min-width:4.4em;font-variant-numeric:tabular-nums}"
    )

    longest = traitlets.Int(MOST_TOKENS)
    block_size = traitlets.Int(4)

    def __init__(
        self,
        requests: Sequence[Lengths],
        *,
        longest: int = MOST_TOKENS,
        block_size: int = 4,
        at: int | None = None,
    ) -> None:
        self.requests, self._at = tuple(requests), at
        self._films: dict[tuple[int, int], ReservationFilm] = {}
        self._film_of(MOST_TOKENS, 4)  # says what is wrong with the requests
        super().__init__(shell(SUMMARY, CONTROLS, stays=True))
        self.longest, self.block_size = longest, block_size
        self.observe(self._changed, names=_CHOICE)
        self._go(at or 0, playing=False)

    def __repr__(self) -> str:
        return (
            f"Reservations({plural(len(self.requests), 'request')}, "
            f"longest={self.longest}, block_size={self.block_size})"
        )

    @property
    def film(self) -> ReservationFilm:
        """The run with the present choice."""
        return self._film_of(self.longest, self.block_size)

    def _film_of(self, longest: int, block_size: int) -> ReservationFilm:
        key = longest, block_size
        if key not in self._films:
            self._films[key] = ReservationFilm(self.requests, longest, block_size)
        return self._films[key]

    @property
    def last_step(self) -> int:
        """The step after which every lane is empty."""
        return len(self.film) - 1

    @traitlets.validate("longest")
    def _possible_longest(self, proposal: Any) -> int:
        return int(min(max(proposal["value"] // 4 * 4, MOST_TOKENS), SLOTS))

    @traitlets.validate("block_size")
    def _possible_size(self, proposal: Any) -> int:
        return min(SIZES, key=lambda size: abs(size - int(proposal["value"])))

    def act(self, name: str, value: float | None) -> None:
        """Do what a control says. Another choice keeps the step if there is one."""
        if name not in ("longest", "size"):
            super().act(name, value)
            return
        self.unobserve(self._changed, names=_CHOICE)
        if name == "longest":
            self.longest = int(value or 0)
        else:
            self.block_size = SIZES[min(max(int(value or 0), 0), len(SIZES) - 1)]
        self.observe(self._changed, names=_CHOICE)
        self._go(self.step, playing=False)

    def draw(self) -> None:
        """Place the frame of the present step."""
        film, step = self.film, min(self.step, self.last_step)
        longest, size = (plural(n, "slot") for n in (self.longest, self.block_size))
        parts = {
            "count": self.count,
            "longest": longest,
            "size": size,
            "say": esc(film.headline(step)),
            "space": esc(film.longest_headline()),
            "picture": reservations_svg(film, step, self.prefix),
            "tables": tables(film, step),
        }
        choice = {
            "longest": {"value": self.longest, "valueText": longest},
            "size": {"value": SIZES.index(self.block_size), "valueText": size},
        }
        self.place(parts, {**self.step_controls(), **choice}, self.tick)

    def page(self) -> str:
        """One step and the whole story, for a page without a kernel."""
        still = self._fullest() if self._at is None else self.step
        return page(self.film, still, reservations_svg(self.film, still))

    def _fullest(self) -> int:
        """The first step in which most slots hold a token, with paging."""
        lane = self.film.lanes[3]
        return max(range(len(lane)), key=lambda step: lane[step].account.used)
