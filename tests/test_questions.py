"""The questions of the lessons, and the copies that students work in."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from classroom import predict, progress
from classroom.questions import (
    Question,
    UnknownQuestion,
    all_questions,
    find_question,
)

ROOT = Path(__file__).resolve().parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
lay_out = runpy.run_path(str(ROOT / "tools" / "workbook.py"))["lay_out"]


def code_of(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "code")


def asked_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(code_of(path))):
        match node:
            case ast.Call(func=ast.Name("predict"), args=[ast.Constant(str(name)), *_]):
                yield name


def test_the_lessons_ask_exactly_the_questions_that_there_are() -> None:
    asked = [name for lesson in LESSONS for name in asked_in(lesson)]
    assert sorted(asked) == sorted(all_questions())


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_no_cell_gives_an_explanation_away(lesson: Path) -> None:
    code = code_of(lesson)
    assert [n for n in asked_in(lesson) if find_question(n).explain in code] == []


@pytest.mark.parametrize("name", all_questions())
def test_a_question_is_asked_by_its_name(name: str) -> None:
    progress.reset()
    question = find_question(name)
    card = unescape(predict(name, answer=lambda: 2).html())
    assert question.text.split("`")[0] in card
    assert question.explain.split("`")[0] not in card
    progress.reset()


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(UnknownQuestion, match="'00-nine-tokens'"):
        predict("00-nine-token", answer=lambda: 3)


def test_two_questions_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Question("1 + 1?", "Two."), Question("1 + 2?", "Three.")
    lessons = [SimpleNamespace(QUESTIONS={"a": q}) for q in (first, second)]
    monkeypatch.setattr("classroom.questions.modules_of", lambda package: lessons)
    with pytest.raises(ValueError, match="two questions are called 'a'"):
        all_questions()


def test_a_prediction_needs_something_to_ask() -> None:
    with pytest.raises(TypeError, match="answer="):
        predict("00-nine-tokens")


# --- the student's copies -----------------------------------------------------------


def test_a_copy_has_the_lesson_and_no_answers(tmp_path: Path) -> None:
    made = lay_out(ROOT / "notebooks", tmp_path / "workbook")
    assert [path.name for path in made] == [path.name for path in LESSONS]
    for lesson, copy in zip(LESSONS, made, strict=True):
        cells = nbformat.read(copy, as_version=4).cells
        assert code_of(copy) == code_of(lesson)
        assert not any(cell.get("outputs") for cell in cells)
        assert not any(cell.get("execution_count") for cell in cells)


def test_a_copy_that_exists_is_never_touched(tmp_path: Path) -> None:
    mine = tmp_path / LESSONS[0].name
    mine.write_text("my own work", encoding="utf-8")
    made = lay_out(ROOT / "notebooks", tmp_path)
    assert mine.read_text(encoding="utf-8") == "my own work"
    assert mine not in made and len(made) == len(LESSONS) - 1
    assert lay_out(ROOT / "notebooks", tmp_path) == []
