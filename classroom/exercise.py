"""Exercises: what is asked, how an attempt is judged, and where they are found by name.

An exercise is data. The function that it decorates is its reference: it says what the
right answer is, best by asking the real manager. Copying or moving a notebook's cells
changes nothing, because checks go by the exercise's name.
"""

from __future__ import annotations

import copy
import difflib
import importlib
import inspect
import pkgutil
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from classroom.limits import STEPS
from classroom.same import shown
from classroom.shrink import Case

Difficulty = Literal[1, 2, 3]
Judge = Callable[..., str | None]


@dataclass(frozen=True, slots=True)
class Exercise:
    """One task of a lesson.

    `reference` takes a case's arguments and returns the right answer. With `cases` the
    learner hands in a function, which is tried on `examples` first and then on
    `rounds` random cases; without, the learner hands in a value.

    `judge(*case, got)`, where there is one, decides in place of comparing with the
    reference: None is right, a sentence says what is wrong. `run(attempt, *case)` calls
    the attempt in another way than `attempt(*case)`, for example on a manager that it
    builds. `valid(*case)` keeps the shrinker away from cases that make no sense.
    `picture(*case, expected, got)` draws a failing case.
    """

    name: str
    title: str
    difficulty: Difficulty
    minutes: int
    hints: tuple[str, str]
    why: str
    reference: Callable[..., Any]
    lesson: str = ""
    cases: Callable[[random.Random], Case] | None = None
    examples: tuple[Case, ...] = ()
    rounds: int = 60
    judge: Judge | None = None
    run: Callable[..., Any] | None = None
    valid: Callable[..., bool] | None = None
    picture: Callable[..., str] | None = None
    steps: int = STEPS

    def __post_init__(self) -> None:
        if sum(bool(text.strip()) for text in self.hints) != 2:
            raise ValueError(f"exercise {self.name!r} needs two hints")

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


def exercise(
    name: str,
    *,
    title: str,
    difficulty: Difficulty,
    minutes: int,
    hints: tuple[str, str],
    why: str,
    cases: Callable[[random.Random], Case] | None = None,
    examples: Sequence[Case] = (),
    rounds: int = 60,
    judge: Judge | None = None,
    run: Callable[..., Any] | None = None,
    valid: Callable[..., bool] | None = None,
    picture: Callable[..., str] | None = None,
    steps: int = STEPS,
) -> Callable[[Callable[..., Any]], Exercise]:
    """Turn the decorated reference function into an `Exercise` of its module's lesson.

    See `Exercise` for the arguments. In `classroom/exercises/lesson03.py` the lesson is
    "03"; elsewhere it is "".
    """

    def decorate(reference: Callable[..., Any]) -> Exercise:
        found = re.search(r"lesson(\w+)$", reference.__module__)
        return Exercise(
            name=name,
            title=title,
            difficulty=difficulty,
            minutes=minutes,
            hints=hints,
            why=why,
            reference=reference,
            lesson=found[1] if found else "",
            cases=cases,
            examples=tuple(examples),
            rounds=rounds,
            judge=judge,
            run=run,
            valid=valid,
            picture=picture,
            steps=steps,
        )

    return decorate


# --- finding them ---------------------------------------------------------------------


class UnknownExercise(KeyError):
    """No exercise has this name. The message names the nearest one."""

    def __str__(self) -> str:
        return str(self.args[0])


def all_exercises() -> dict[str, Exercise]:
    """Every exercise of `classroom.exercises`, by name, in the order of the lessons."""
    package = importlib.import_module("classroom.exercises")
    found: dict[str, Exercise] = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name):
        module = importlib.import_module(f"classroom.exercises.{info.name}")
        for item in vars(module).values():
            if not isinstance(item, Exercise):
                continue
            if found.setdefault(item.name, item) is not item:
                raise ValueError(f"two exercises are called {item.name!r}")
    return found


def find(name: str | Exercise) -> Exercise:
    """The exercise of this name; raises `UnknownExercise`."""
    if isinstance(name, Exercise):
        return name
    known = all_exercises()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, n=1)
    advice = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
    raise UnknownExercise(f"There is no exercise called {name!r}. {advice}")
