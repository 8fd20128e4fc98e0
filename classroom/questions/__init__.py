"""The questions that lessons ask before the manager answers, found by name.

They stand here and not in the cells, so that nobody reads the explanation before the
guess. The cell holds what answers the question: a few lines that ask the real manager.
"""

from __future__ import annotations

from typing import NamedTuple

from classroom.lookup import by_name, modules_of, pick


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
    lessons = modules_of(__name__)
    return by_name("question", (q for one in lessons for q in one.QUESTIONS.items()))


def find_question(name: str) -> Question:
    """The question of this name; raises `UnknownQuestion`."""
    return pick("question", name, all_questions(), UnknownQuestion)
