"""The answer of a check, as data that can draw itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from classroom import look


class CheckStatus(StrEnum):
    """The three answers of a check."""

    NOT_ATTEMPTED = "not attempted"
    NOT_YET = "not yet"
    RIGHT = "right"


_SIGNS = {
    CheckStatus.NOT_ATTEMPTED: ("○", ""),
    CheckStatus.NOT_YET: ("✗", "bad"),
    CheckStatus.RIGHT: ("✓", "good"),
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What `check` found; true if and only if the attempt is right.

    `case` is the smallest input found on which the attempt fails, written as a call;
    `expected` and `got` belong to it. `printed` is what the attempt printed there.
    `picture` is an SVG. All of them are None or empty where there is nothing to say.
    """

    exercise: str
    status: CheckStatus
    message: str
    title: str = ""
    case: str | None = None
    expected: str | None = None
    got: str | None = None
    printed: str = ""
    picture: str | None = None

    def __bool__(self) -> bool:
        return self.status is CheckStatus.RIGHT

    def __repr__(self) -> str:
        lines = [f"{self.exercise}: {self.status}", self.message]
        lines += [f"  {name:<13} {value}" for name, value in self._rows()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        sign, tone = _SIGNS[self.status]
        return look.card(
            f'<div class="kicker">Check · {look.escape(self.title or self.exercise)}'
            "</div>",
            look.verdict(tone, sign, f"{self.status.capitalize()}.", self.message),
            look.pairs(self._rows()),
            look.picture(self.picture),
            tone=tone,
        )

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("the call", self.case),
            ("expected", self.expected),
            ("yours", self.got),
            ("your prints", self.printed),
        ]
        return [(name, value) for name, value in rows if value]
