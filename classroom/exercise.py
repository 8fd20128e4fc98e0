"""Exercises: what is asked, how an attempt is judged, and where they are found by name.

An exercise is data, written as a decorator. The function below it is its reference: it
says what the right answer is, best by asking the real manager. Copying or moving a
notebook's cells changes nothing, because checks go by the exercise's name.
"""

from __future__ import annotations

import copy
import inspect
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from classroom.limits import STEPS
from classroom.lookup import by_name, modules_of, pick
from classroom.same import shown
from classroom.shrink import Case

Difficulty = Literal[1, 2, 3]
Judge = Callable[..., str | None]


def _undecorated(*case: object) -> Any:
    raise TypeError("an exercise decorates its reference function: put one below it")


@dataclass(frozen=True, slots=True)
class Exercise:
    """One task of a lesson: `@Exercise("03-its-name", title=..., ...)`.

    `reference`, the function that it decorates, takes a case's arguments and returns
    the right answer. With `cases` the learner hands in a function, which is tried on
    `examples` first and then on `rounds` random cases; without, the learner hands in a
    value.

    `judge(*case, got)`, where there is one, decides in place of comparing with the
    reference: None is right, a sentence says what is wrong. `run(attempt, *case)` calls
    the attempt in another way than `attempt(*case)`, for example on a manager that it
    builds. `valid(*case)` keeps the shrinker away from cases that make no sense.
    `picture(*case, expected, got)` draws a failing case.
    """

    name: str
    _: KW_ONLY
    title: str
    difficulty: Difficulty
    minutes: int
    hints: tuple[str, str]
    why: str
    cases: Callable[[random.Random], Case] | None = None
    examples: Sequence[Case] = ()
    rounds: int = 60
    judge: Judge | None = None
    run: Callable[..., Any] | None = None
    valid: Callable[..., bool] | None = None
    picture: Callable[..., str] | None = None
    steps: int = STEPS
    reference: Callable[..., Any] = _undecorated

    def __post_init__(self) -> None:
        if sum(bool(text.strip()) for text in self.hints) != 2:
            raise ValueError(f"exercise {self.name!r} needs two hints")

    def __call__(self, reference: Callable[..., Any]) -> Exercise:
        """This exercise with its reference: what stands in place of the function."""
        return replace(self, reference=reference)

    @property
    def lesson(self) -> str:
        """The lesson of the reference's module: "03" in `lesson03`, "" elsewhere."""
        found = re.search(r"lesson(\w+)$", self.reference.__module__)
        return found[1] if found else ""

    @property
    def wants_function(self) -> bool:
        """True if the learner hands in a function, False for a value."""
        return self.cases is not None

    def draw(self, seed: int) -> list[Case]:
        """The examples, then random cases, the short ones first; a seed fixes them."""
        if self.cases is None:
            return [()]
        rng = random.Random(f"{self.name}:{seed}")
        fresh = [self.cases(rng) for _ in range(self.rounds)]
        return [*self.examples, *sorted(fresh, key=lambda case: len(repr(case)))]

    def expected(self, case: Case) -> Any:
        """The right answer, computed on a copy of the case."""
        return self.reference(*copy.deepcopy(case))

    def makes_sense(self, case: Case) -> bool:
        """True if the case is one that the exercise speaks about."""
        try:
            self.expected(case)
            return self.valid is None or bool(self.valid(*copy.deepcopy(case)))
        except Exception:  # a smaller case may be nonsense in any way
            return False

    def call_text(self, case: Case) -> str:
        """How the case looks as a call: `slot_of(table=[3, 1], position=5)`."""
        names = inspect.signature(self.reference).parameters
        given = (f"{n}={shown(v)}" for n, v in zip(names, case, strict=False))
        return f"{self.reference.__name__}({', '.join(given)})"


# --- finding them ---------------------------------------------------------------------


class UnknownExercise(LookupError):
    """No exercise has this name. The message names the nearest one."""


def all_exercises() -> dict[str, Exercise]:
    """Every exercise of `classroom.exercises`, by name, in the order of the lessons."""
    items = (
        item
        for module in modules_of("classroom.exercises")
        for item in vars(module).values()
        if isinstance(item, Exercise)
    )
    return by_name("exercise", ((item.name, item) for item in items))


def find(name: str | Exercise) -> Exercise:
    """The exercise of this name; raises `UnknownExercise`."""
    if isinstance(name, Exercise):
        return name
    return pick("exercise", name, all_exercises(), UnknownExercise)
