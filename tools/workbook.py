"""Lay out the student's own copies of the lessons: `workbook/`, without any outputs.

The notebooks in `notebooks/` are executed, so that they can be read anywhere and
tested; whoever does the exercises should not see the answers before the questions. A
copy that exists is never touched: delete or rename it to begin that lesson anew. git
ignores the folder, so an update of the course never clashes with somebody's work.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ClearOutputPreprocessor

ROOT = Path(__file__).resolve().parent.parent


def lay_out(source: Path, target: Path) -> list[Path]:
    """Copy, cleared, each lesson that `target` lacks; give the new copies."""
    target.mkdir(exist_ok=True)
    made = []
    for lesson in sorted(source.glob("*.ipynb")):
        copy = target / lesson.name
        if copy.exists():
            continue
        notebook = nbformat.read(lesson, as_version=4)
        cleared, _ = ClearOutputPreprocessor().preprocess(notebook, {})
        part = copy.with_suffix(".part")  # an interrupted copy leaves no half a lesson
        nbformat.write(cleared, part)
        part.replace(copy)
        made.append(copy)
    return made


if __name__ == "__main__":
    new = lay_out(ROOT / "notebooks", ROOT / "workbook")
    sys.stdout.writelines(f"new: workbook/{path.name}\n" for path in new)
