"""`hint`: two of them for each exercise, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from classroom import look
from classroom.exercise import Exercise, UnknownExercise, find
from classroom.lookup import NAME
from classroom.same import shown
from classroom.session import progress

_ROOT = Path(__file__).resolve().parent.parent
_SOLUTIONS = "notebooks/solutions"


@dataclass(frozen=True, slots=True)
class Hint:
    """One hint, drawn as a card. `number` is 1 or 2, or 0 for a message about hints."""

    title: str
    text: str
    number: int = 0

    def __repr__(self) -> str:
        return f"{self._kicker()}\n{self.text}"

    def _repr_html_(self) -> str:
        kicker = f'<div class="kicker">{look.escape(self._kicker())}</div>'
        return look.card(kicker, look.prose(self.text))

    def _kicker(self) -> str:
        which = f"Hint {self.number} of 2" if self.number else "Hint"
        return f"{which} · {self.title}"


def hint(name: str | Exercise) -> Hint:
    """The next hint for an exercise: the first, then the second, then where to look.

    Never raises: a name that does not exist is answered with the nearest one.
    """
    try:
        task = find(name)
    except UnknownExercise as error:
        return Hint(shown(name, NAME), str(error))
    given = progress.hints.get(task.name, 0)
    progress.hints[task.name] = min(given + 1, len(task.hints))
    if given < len(task.hints):
        return Hint(task.title, task.hints[given], given + 1)
    return Hint(
        task.title,
        f"That is all; the solution is in `{_solution(task.lesson)}`. The two hints "
        "again:\n\n" + "\n\n".join(task.hints),
    )


def _solution(lesson: str) -> str:
    """The lesson's solved notebook, from the repository's root; else their folder."""
    found = sorted(_ROOT.glob(f"{_SOLUTIONS}/{lesson}_*.ipynb")) if lesson else []
    return found[0].relative_to(_ROOT).as_posix() if found else _SOLUTIONS
