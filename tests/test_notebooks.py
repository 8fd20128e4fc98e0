"""The notebooks as files: complete, in order, both versions, and as `style.md` asks.

Their outputs are compared by nbval, which is strict and runs beside this file:

    pytest --nbval --nbval-sanitize-with tests/nbval.cfg notebooks

With pytest-xdist add `--dist loadscope`, so that one notebook keeps to one kernel.
nbval never compares what was not executed, PNGs, or the widgets themselves; the tests
below see to it that nothing hides there.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from classroom.exercise import find

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
SANITIZE = ROOT / "tests" / "nbval.cfg"

SOURCES = sorted((FOLDER / "solutions").glob("[!.]*.ipynb"))
STUDENTS = sorted(FOLDER.glob("[!.]*.ipynb"))


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location(
        "notebooks_tool", ROOT / "tools" / "notebooks.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = _tool()
WIDGET = tool.WIDGET
LESSONS = [path for path in STUDENTS if path.name not in tool.ALONE]


@cache
def _read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def _name(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


both = pytest.mark.parametrize("path", [*SOURCES, *STUDENTS], ids=_name)
student = pytest.mark.parametrize("path", STUDENTS, ids=_name)
lesson = pytest.mark.parametrize("path", LESSONS, ids=_name)
solution = pytest.mark.parametrize("path", SOURCES, ids=_name)


def _code(path: Path) -> list[NotebookNode]:
    return [c for c in _read(path).cells if c.cell_type == "code" and c.source.strip()]


def _markdown(path: Path) -> list[NotebookNode]:
    return [c for c in _read(path).cells if c.cell_type == "markdown"]


def _data(path: Path) -> Iterator[dict[str, Any]]:
    for cell in _code(path):
        yield from (out.data for out in cell.outputs if "data" in out)


def _tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


# --- they are there -------------------------------------------------------------------


def test_there_are_notebooks() -> None:
    if SOURCES and STUDENTS:
        return
    missing = "no notebooks: `make notebooks` makes them from notebooks/solutions"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def test_both_versions_agree_and_are_in_our_form() -> None:
    assert tool.problems() == []


# --- executed, in order, and all of it comparable -------------------------------------


@both
def test_every_code_cell_was_executed_in_order(path: Path) -> None:
    counts = [cell.execution_count for cell in _code(path)]
    assert counts == list(range(1, len(counts) + 1))


@both
def test_outputs_carry_the_count_of_their_cell(path: Path) -> None:
    for cell in _code(path):
        for output in cell.outputs:
            assert output.get("execution_count", cell.execution_count) == (
                cell.execution_count
            )


@both
def test_only_tagged_cells_raise(path: Path) -> None:
    for cell in _code(path):
        raised = any(out.output_type == "error" for out in cell.outputs)
        assert raised == ("raises-exception" in _tags(cell)), cell.source


@both
def test_nbval_seldom_looks_away(path: Path) -> None:
    """Only where a cell speaks of this machine or of data that need not be there."""
    tags = [tag for cell in _code(path) for tag in _tags(cell)]
    assert "nbval-skip" not in tags
    assert tags.count("nbval-ignore-output") <= 2


@both
def test_nothing_tells_whose_machine_it_was(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"(?:/home|/root|/Users|/work|/tmp|[A-Z]:\\\\)[/\\]\S*", text)


@both
def test_saved_outputs_are_static(path: Path) -> None:
    """A dead widget would hide the picture that was saved with it."""
    assert "widgets" not in _read(path).metadata
    for data in _data(path):
        assert WIDGET not in data


@both
def test_pictures_have_a_text_alternative(path: Path) -> None:
    for data in _data(path):
        page = str(data.get("text/html", "")) + str(data.get("image/svg+xml", ""))
        for tag in re.findall(r"<svg\b[^>]*>", page):
            assert re.search(r"aria-(label|labelledby|hidden)=", tag), tag[:200]


@both
def test_small_enough_to_be_shown_everywhere(path: Path) -> None:
    assert path.stat().st_size < 300_000


@both
def test_metadata_is_the_same_everywhere(path: Path) -> None:
    metadata = _read(path).metadata
    assert metadata.kernelspec.name == "python3"
    assert dict(metadata.language_info) == {"name": "python"}
    assert path.read_text(encoding="utf-8").endswith("}\n")


# --- the shape of a lesson ------------------------------------------------------------


@both
def test_one_main_heading(path: Path) -> None:
    text = "\n".join(_prose(cell.source) for cell in _markdown(path))
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1


@both
def test_code_cells_are_short(path: Path) -> None:
    for cell in _code(path):
        lines = cell.source.count("\n") + 1
        assert lines <= 15, f"{lines} lines:\n{cell.source}"


@lesson
def test_length_of_a_lesson(path: Path) -> None:
    words = sum(len(_words(cell.source)) for cell in _markdown(path))
    cells = len(_read(path).cells)
    found = f"{words} words in {cells} cells"
    assert 900 <= words <= 1800, f"{found}; 900 to 1,800 words wanted"
    assert 25 <= cells <= 45, f"{found}; 25 to 45 cells wanted"


def _prose(markdown: str) -> str:
    """Markdown without its fenced code."""
    return re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)


def _words(markdown: str) -> list[str]:
    """The words a reader reads: no fenced code, tags, or targets of links."""
    text = re.sub(r"<[^>]*>|\]\([^)]*\)", " ", _prose(markdown))
    return re.findall(r"\w[\w'’.,-]*", text)


@lesson
def test_at_least_three_predictions(path: Path) -> None:
    assert len(_names(path, "predict")) >= 3


@lesson
def test_three_to_five_exercises_with_hints(path: Path) -> None:
    names = _names(path, "check")
    assert 3 <= len(names) <= 5, names
    for name in names:
        task = find(name)  # raises if there is none
        assert len(task.hints) == 2
        assert path.name.startswith(task.lesson + "_")


def _names(path: Path, function: str) -> set[str]:
    """The first arguments of all calls of `function`, which must be plain strings."""
    calls = (
        node
        for cell in _code(path)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function
    )
    return {ast.literal_eval(call.args[0]) for call in calls}


# --- solved and unsolved --------------------------------------------------------------


def _answers(path: Path) -> dict[str, str]:
    """Exercise -> status, as the saved output of each cell with a check says."""
    found: dict[str, str] = {}
    for data in _data(path):
        said = re.match(
            r"([\w.-]+): (right|not yet|not attempted)\n", data["text/plain"]
        )
        if said:
            found[said[1]] = said[2]
    return found


@solution
def test_every_solution_is_right(path: Path) -> None:
    assert _answers(path) == dict.fromkeys(_names(path, "check"), "right")


@student
def test_every_exercise_is_open_for_the_student(path: Path) -> None:
    assert _answers(path) == dict.fromkeys(_names(path, "check"), "not attempted")


@student
def test_no_solution_is_left_for_the_student(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "BEGIN SOLUTION" not in text and "END SOLUTION" not in text
    assert not any("solution" in _tags(cell) for cell in _read(path).cells)


@both
def test_predictions_are_left_open(path: Path) -> None:
    for data in _data(path):
        assert not re.match(r"Prediction\(.*, locked", data["text/plain"])


# --- the tool that makes them ---------------------------------------------------------

SCRIPT = '''\
# %% [markdown]
# # Title
#
# Words.
# %%
def double(n):
    """Twice n."""
    ### BEGIN SOLUTION
    return 2 * n
    ### END SOLUTION


double
# %% [markdown] tags=["solution"]
# **Solution.** Twice.
# %%
answer = None
### BEGIN SOLUTION
answer = 4
### END SOLUTION
print(answer)
# %% tags=["raises-exception"]
1 / 0
# %%
print(answer)
'''


@pytest.fixture
def teacher() -> NotebookNode:
    return tool.from_percent(SCRIPT)


def test_a_script_becomes_a_notebook(teacher: NotebookNode) -> None:
    kinds = [cell.cell_type[0] for cell in teacher.cells]
    assert "".join(kinds) == "mcmccc"
    assert teacher.cells[0].source == "# Title\n\nWords."
    assert _tags(teacher.cells[4]) == ["raises-exception"]
    ids = [cell.id for cell in teacher.cells]
    assert ids == [cell.id for cell in tool.from_percent(SCRIPT).cells]
    assert len(set(ids)) == 6
    nbformat.validate(teacher)


def test_solutions_become_stubs(teacher: NotebookNode) -> None:
    made = tool.student_version(teacher)
    assert len(made.cells) == 5, "the explained solution is left out"
    function, value = made.cells[1].source, made.cells[2].source
    assert "    raise NotImplementedError" in function and "2 * n" not in function
    assert value.startswith("answer = None\n# Your answer goes here")
    assert "4" not in value
    assert [c.id for c in made.cells] == [
        c.id for c in teacher.cells if "solution" not in _tags(c)
    ]
    assert "return 2 * n" in teacher.cells[1].source, "the source is not touched"


def test_a_solution_without_an_end_is_refused(teacher: NotebookNode) -> None:
    teacher.cells[1].source = "### BEGIN SOLUTION\n1"
    with pytest.raises(RuntimeError, match="no end solution"):
        tool.student_version(teacher)


def test_both_versions_are_made_executed_and_checked(
    teacher: NotebookNode, tmp_path: Path
) -> None:
    source = tmp_path / "solutions" / "99_x.ipynb"
    tool.write(source, teacher)
    assert tool.problems(tmp_path) == [
        "99_x.ipynb: the student's version is missing",
    ]
    tool.make(source)
    assert tool.problems(tmp_path) == []
    again = tool.execute(tool.normalise(tool.read(source)), tmp_path)
    assert source.read_text(encoding="utf-8") == tool.as_text(again)
    counts = [c.get("execution_count") for c in nbformat.read(source, 4).cells]
    assert counts == [None, 1, None, 2, 3, 4]
    _damage_one_by_one(source, tmp_path / "99_x.ipynb")


def _damage_one_by_one(source: Path, target: Path) -> None:
    """Each change to one of the two files is noticed, and named."""
    folder, good = target.parent, target.read_text(encoding="utf-8")
    edited = nbformat.read(target, 4)
    edited.cells[0].source += " More."
    tool.write(target, edited)
    assert "is not what the solutions make" in tool.problems(folder)[0]
    target.write_text(good.replace("\n", "\n\n", 1), encoding="utf-8")
    assert "not in our form" in tool.problems(folder)[0]
    target.write_text(good, encoding="utf-8")
    source.rename(folder / "98_y.ipynb")
    assert [line[:11] for line in tool.problems(folder)] == [
        "98_y.ipynb:",
        "99_x.ipynb:",
    ]


def test_what_stands_alone_has_one_version(tmp_path: Path) -> None:
    name = tool.ALONE[0]
    script = (tmp_path / name).with_suffix(".py")
    script.write_text("# %% [markdown]\n# # Title\n# %%\nprint(1)\n", encoding="utf-8")
    path = tool.convert(script, tmp_path)
    assert path == tmp_path / name and tool.sources(tmp_path) == [path]
    tool.make(path)
    assert tool.read(path).cells[1].outputs[0].text == "1\n"
    assert tool.problems(tmp_path) == []
    path.write_text(path.read_text("utf-8") + "\n", encoding="utf-8")
    assert tool.problems(tmp_path) == [
        f"{name}: saved by another program, not in our form"
    ]


def test_normalising_takes_away_what_differs(teacher: NotebookNode) -> None:
    noisy = copy.deepcopy(teacher)
    noisy.metadata["widgets"] = {"state": {}}
    noisy.cells[1].metadata["execution"] = {"iopub.execute_input": "2026-01-01"}
    noisy.cells[2].id = noisy.cells[1].id
    view = {WIDGET: {"model_id": "1"}, "text/html": "<b>x</b>", "text/plain": "x"}
    noisy.cells[1].outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="a"),
        nbformat.v4.new_output("stream", name="stdout", text="b"),
        nbformat.v4.new_output("display_data", data=view),
    ]
    clean = tool.normalise(noisy)
    assert "widgets" not in clean.metadata
    assert clean.cells[1].metadata == {}
    assert clean.cells[2].id != clean.cells[1].id
    assert [out.get("text") for out in clean.cells[1].outputs] == ["ab", None]
    assert set(clean.cells[1].outputs[1].data) == {"text/html", "text/plain"}
    assert tool.as_text(tool.normalise(clean)) == tool.as_text(clean)


# --- nbval, and what it may overlook --------------------------------------------------


@pytest.mark.slow
def test_nbval_notices_one_wrong_digit(tmp_path: Path) -> None:
    nb = tool.from_percent('# %%\nprint("took block 3 in 5.2 ms at", object())\n')
    nb = tool.execute(nb, tmp_path)
    tool.write(tmp_path / "good.ipynb", nb)
    text = nb.cells[0].outputs[0].text
    nb.cells[0].outputs[0].text = text.replace("block 3", "block 4")
    tool.write(tmp_path / "wrong.ipynb", nb)
    said = _nbval(tmp_path)
    assert "1 failed, 1 passed" in said
    assert "FAILED wrong.ipynb::Cell 0" in said


def _nbval(folder: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "--nbval", "--nbval-sanitize-with", str(SANITIZE)]
    done = subprocess.run(
        [*command, f"--rootdir={folder}", "."],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    return done.stdout + done.stderr


PATTERNS = re.findall(
    r"^regex: (.*)\nreplace: (.*)$", SANITIZE.read_text("utf-8"), re.MULTILINE
)


def _sanitized(text: str) -> str:
    for pattern, replacement in PATTERNS:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<Pool at 0x7f3a9c0b12d0>", "<Pool at ADDRESS>"),
        ("replayed in 12.5 ms", "replayed in TIME"),
        ("1.4 s ± 20 ms per loop", "TIME per loop"[:4]),
        ("/tmp/ipykernel_4711/123456.py:3: UserWarning", "CELL.py:3: UserWarning"),
        (r"C:\Temp\ipykernel_4711\123456.py:3", "CELL.py:3"),
    ],
)
def test_what_differs_by_machine_is_sanitized(text: str, expected: str) -> None:
    assert _sanitized(text).startswith(expected)


@pytest.mark.parametrize(
    "text",
    ["block 3 slot 13", "hash 41d7ab", "5 sequences", "16 slots", "20.4 %", "3 min"],
)
def test_what_must_be_compared_is_left_alone(text: str) -> None:
    assert _sanitized(text) == text
