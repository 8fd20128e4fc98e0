"""The teacher's guide says what the notebooks say: minutes, counts, headings, links."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "teaching.md"
TEXT = GUIDE.read_text(encoding="utf-8")

_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_PLACE = re.compile(r"\[(\d\d)\]\(\.\./notebooks/([\w.]+)\): (.*)")
_LATER = re.compile(r"lesson (\d\d) \(not written yet\)")

# What the section must speak of: that the heading exists is not yet an answer.
SAYS = {
    1: "physical block",
    2: "order of the tokens",
    3: "reference count",
    4: "nvidia-smi",
    5: "cap on the engine's share",
    6: "null block",
    7: "Paging lowers the",
    8: "block_size - 1",
    9: "1 when it is taken",
    10: "copy-on-write",
    11: "Lesson 10",
    13: "Not mathematically",
    14: "07-short-prompt",
    15: "07-exact-length",
    16: "06-found-again",
    17: "06-what-remains",
    18: "07-hole",
    19: "07-same-step",
    20: "watermark",
    21: "04-torch-calls",
    22: "CUDA graphs",
}


def rows(head: str) -> list[list[str]]:
    """The cells of the table whose first line starts like this."""
    table = TEXT[TEXT.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table]


LESSONS = rows("| lesson |")
QUESTIONS = rows("| # |")


@cache
def cells(name: str) -> list[tuple[str, str]]:
    notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


@cache
def sections(name: str) -> dict[str, str]:
    """Heading -> everything below it, up to the next one."""
    found: dict[str, str] = {}
    heading = ""
    for kind, source in cells(name):
        for line in source.splitlines():
            if kind == "markdown" and line.startswith("#"):
                heading = line.lstrip("#").strip()
                found[heading] = ""
            else:
                found[heading] = f"{found.get(heading, '')}{line}\n"
    return found


def places(row: list[str]) -> list[tuple[str, str, str]]:
    """(lesson, notebook, heading) of each answer in a row."""
    found = (_PLACE.fullmatch(part.strip()) for part in row[2].split(";"))
    return [(m[1], m[2], m[3]) for m in found if m]


@pytest.mark.parametrize("row", LESSONS, ids=lambda row: row[0][1:3])
def test_a_lesson_takes_what_the_guide_says(row: list[str]) -> None:
    title, path = _LINK.findall(row[0])[0]
    number, name = title[:2], path.rpartition("/")[2]
    first = cells(name)[0][1]
    assert f"# {number} · {title[3:]}" in first
    assert f"About {row[1]}." in first
    code = "\n".join(source for kind, source in cells(name) if kind == "code")
    prose = "\n".join(source for kind, source in cells(name) if kind == "markdown")
    assert code.count("predict(") == int(row[3])
    assert len(re.findall(r"\*\*Exercise \d", prose)) == int(row[4])
    needed = re.findall(
        r"\b(\d\d)\b", first.partition("should have done")[2].split(".")[0]
    )
    assert re.findall(r"\d\d", row[2]) == needed


def test_the_exercises_take_as_long_as_the_guide_says() -> None:
    sums = []
    for row in LESSONS:
        name = _LINK.findall(row[0])[0][1].rpartition("/")[2]
        prose = "\n".join(source for kind, source in cells(name) if kind == "markdown")
        asked = re.findall(r"\*\*Exercise [^\n]*?(\d+) minutes", prose)
        sums.append(sum(map(int, asked)))
    assert f"{min(sums)} to {max(sums)} minutes" in TEXT


def test_every_lesson_is_in_the_table() -> None:
    there = {path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    named = {_LINK.findall(row[0])[0][1].rpartition("/")[2] for row in LESSONS}
    assert named == there


def test_all_questions_are_there_once_in_order() -> None:
    assert [int(row[0]) for row in QUESTIONS] == list(range(1, 23))
    assert all(row[1].endswith("?") for row in QUESTIONS)


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row[0])
def test_a_question_is_answered_where_the_guide_says(row: list[str]) -> None:
    answered = places(row)
    for number, name, heading in answered:
        assert name.startswith(number)
        assert heading in sections(name), sorted(sections(name))
    later = _LATER.findall(row[2])
    assert answered or later, "neither a lesson nor one to come"
    if answered:
        said = "".join(sections(name)[heading] for _, name, heading in answered)
        assert SAYS[int(row[0])] in said


def test_what_is_not_written_yet_is_not() -> None:
    for number in _LATER.findall(TEXT):
        made = list((ROOT / "notebooks").glob(f"{number}_*.ipynb"))
        assert made == [], f"lesson {number} is there: say where it answers"


def test_every_link_leads_somewhere() -> None:
    for _, target in _LINK.findall(TEXT):
        assert (GUIDE.parent / target).resolve().is_file(), target


@pytest.mark.parametrize("name", ["03-slot-of-nine", "03-slots-by-hand"])
def test_the_examples_are_real(name: str) -> None:
    assert name in TEXT
    assert any(name in source for _, source in cells("03_the_block_table.ipynb"))
