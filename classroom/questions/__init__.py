"""The questions that lessons ask before the manager answers, found by name.

They stand here and not in the cells, so that nobody reads the explanation before the
guess. The cell holds what answers the question: a few lines that ask the real manager.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import NamedTuple


class Question(NamedTuple):
    """What is asked. `explain` is shown after the reveal, one or two sentences.

    `choices` makes it multiple choice; else `kind` says what may be typed (see
    `classroom.predict`). `unit` stands beside the box.
    """

    text: str
    explain: str
    choices: tuple[str, ...] | None = None
    kind: str = "integer"
    unit: str = ""


class UnknownQuestion(LookupError):
    """No question has this name. The message names the nearest one."""


def all_questions() -> dict[str, Question]:
    """Every question of every lesson, by name, in the order of the lessons."""
    found: dict[str, Question] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        found |= module.QUESTIONS
    return found


def find_question(name: str) -> Question:
    """The question of this name; raises `UnknownQuestion`."""
    known = all_questions()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    raise UnknownQuestion(f"no question is called {name!r}: {advice}")
