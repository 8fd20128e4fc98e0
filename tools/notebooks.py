"""Make the students' notebooks from the teacher's, and execute both.

`notebooks/solutions/NN_*.ipynb` is written once, with its solutions between
`### BEGIN SOLUTION` and `### END SOLUTION`. The student's `notebooks/NN_*.ipynb` is
made from it by nbgrader's `ClearSolutions`:

- inside a function the solution becomes `raise NotImplementedError`;
- at the left edge it becomes a comment, so give the name a value first:
  `answer = None`, then the solution, then `check("name", answer)`;
- cells with the tag `solution` (explained solutions) are left out.

What is named in `ALONE` is no lesson: it has one version, in `notebooks/` itself.

    python tools/notebooks.py                  make and execute all of them
    python tools/notebooks.py 03               only the lessons whose names begin so
    python tools/notebooks.py --check          say what is out of date, change nothing
    python tools/notebooks.py --from-py FILE   make a solutions notebook from a script

A script has cells that begin with `# %%` (code) or `# %% [markdown]`; a code cell's
tags stand behind it: `# %% tags=["raises-exception"]`.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
SECONDS_PER_CELL = 60
ALONE = ("playground.ipynb",)

WIDGET = "application/vnd.jupyter.widget-view+json"
CODE_STUB = "raise NotImplementedError  # your code goes here"
TOP_STUB = "# Your answer goes here: give the name above its value."
SOLUTION_TAG = "solution"

_METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


# --- where they are -------------------------------------------------------------------


def sources(folder: Path = NOTEBOOKS, only: Sequence[str] = ()) -> list[Path]:
    """The teacher's notebooks and those that stand alone, all or those whose names
    begin with one of `only`."""
    found = sorted((folder / "solutions").glob("[!.]*.ipynb"))
    found += [folder / name for name in ALONE if (folder / name).exists()]
    return [p for p in found if not only or p.name.startswith(tuple(only))]


def student_path(source: Path) -> Path:
    """Where the student's version of a teacher's notebook lies."""
    return source if source.name in ALONE else source.parent.parent / source.name


def read(path: Path) -> NotebookNode:
    """A notebook in the current format."""
    return nbformat.read(path, as_version=4)


# --- one form for all of them ---------------------------------------------------------


def normalise(nb: NotebookNode) -> NotebookNode:
    """A copy without what differs between machines and runs.

    Metadata is reduced to kernel, language and tags. Cells keep their ids; a missing or
    doubled one is made from the cell's text. Saved outputs lose their live widgets:
    those are dead without their kernel, and would hide the static picture beside them.
    """
    nb = copy.deepcopy(nb)
    nb.metadata = nbformat.from_dict(_METADATA)
    nb.nbformat, nb.nbformat_minor = 4, 5
    taken: set[str] = set()
    for cell in nb.cells:
        cell.source = cell.source.rstrip()
        cell.id = _cell_id(cell, taken)
        tags = sorted(cell.metadata.get("tags", []))
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs = [_static(output) for output in _merged(cell.outputs)]
    return nb


def _cell_id(cell: NotebookNode, taken: set[str]) -> str:
    wanted = cell.get("id") or _id_from(cell)
    number = 0
    while wanted in taken:
        number += 1
        wanted = _id_from(cell, number)
    taken.add(wanted)
    return wanted


def _id_from(cell: NotebookNode, number: int = 0) -> str:
    """Eight characters that follow from the cell's text; `number` tells twins apart."""
    text = f"{cell.cell_type}\n{cell.source.rstrip()}\n{number}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _merged(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Outputs in which neighbouring pieces of one stream are one."""
    merged: list[NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            last.text += output.text
        else:
            merged.append(output)
    return merged


def _static(output: NotebookNode) -> NotebookNode:
    data = output.get("data", {})
    if WIDGET in data and len(data) > 1:
        del data[WIDGET]
    return output


def as_text(nb: NotebookNode) -> str:
    """The file's text: the same notebook always gives the same text."""
    data = json.loads(nbformat.writes(nb))
    return json.dumps(data, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def write(path: Path, nb: NotebookNode) -> None:
    """Check a notebook against the format's schema and write it."""
    nbformat.validate(nb)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_text(nb), encoding="utf-8", newline="\n")


# --- the student's version ------------------------------------------------------------


def student_version(source: NotebookNode) -> NotebookNode:
    """The notebook without its solutions and without outputs."""
    nb = copy.deepcopy(source)
    nb.cells = [
        _cleared(cell)
        for cell in nb.cells
        if SOLUTION_TAG not in cell.metadata.get("tags", [])
    ]
    return normalise(nb)


def _cleared(cell: NotebookNode) -> NotebookNode:
    if cell.cell_type != "code":
        return cell
    from nbgrader.preprocessors import ClearSolutions  # takes a second to import

    at_edge = re.search(r"^###\s*BEGIN SOLUTION", cell.source, re.MULTILINE)
    clear = ClearSolutions(
        code_stub={"python": TOP_STUB if at_edge else CODE_STUB},
        enforce_metadata=False,
    )
    clear.preprocess_cell(cell, {"language": "python"}, 0)
    cell.outputs, cell.execution_count = [], None
    return cell


def same_sources(one: NotebookNode, other: NotebookNode) -> bool:
    """True if two notebooks agree in everything but their outputs."""
    return _sources(one) == _sources(other)


def _sources(nb: NotebookNode) -> list[tuple[Any, ...]]:
    return [
        (cell.get("id"), cell.cell_type, cell.source, cell.metadata.get("tags", []))
        for cell in nb.cells
    ]


# --- executing ------------------------------------------------------------------------


def execute(nb: NotebookNode, folder: Path) -> NotebookNode:
    """Run every cell in order in a new kernel that starts in `folder`.

    Raises nbclient's `CellExecutionError` if a cell fails that has no
    `raises-exception` tag.
    """
    nb = copy.deepcopy(nb)
    client = NotebookClient(
        nb,
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=kernel_environment())
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            _forget_machine(output)
    return normalise(nb)


def _forget_machine(output: NotebookNode) -> None:
    """Shorten this machine's paths in what was printed: to `..` and `~`."""
    names = {str(ROOT.parent): "..", str(Path.home()): "~"}
    for path, short in names.items():
        pattern = rf"{re.escape(path)}(?=[/\\])"
        if output.output_type == "stream":
            output.text = re.sub(pattern, short, output.text)
        elif "text/plain" in output.get("data", {}):
            output.data["text/plain"] = re.sub(
                pattern, short, output.data["text/plain"]
            )


def kernel_environment() -> dict[str, str]:
    """The environment for a kernel whose outputs are compared: figures without a date,
    and no notice about the debugger."""
    return {
        **os.environ,
        "SOURCE_DATE_EPOCH": "0",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def make(source: Path) -> None:
    """Execute a teacher's notebook, then make and execute the student's."""
    target = student_path(source)
    teacher = normalise(read(source))
    write(source, execute(teacher, source.parent))
    if target != source:
        write(target, execute(student_version(teacher), target.parent))


# --- checking -------------------------------------------------------------------------


def problems(folder: Path = NOTEBOOKS) -> list[str]:
    """What is out of date, one sentence each; nothing is executed or changed."""
    found: list[str] = []
    known = {student_path(source) for source in sources(folder)}
    for source in sources(folder):
        found += _problems_of(source)
    for path in sorted(set(folder.glob("[!.]*.ipynb")) - known):
        found.append(f"{path.name}: there is no notebooks/solutions/{path.name}")
    return found


def _problems_of(source: Path) -> Iterable[str]:
    target = student_path(source)
    teacher = normalise(read(source))
    if not target.exists():
        yield f"{target.name}: the student's version is missing"
    elif not same_sources(student_version(teacher), read(target)):
        yield f"{target.name}: the student's version is not what the solutions make"
    for path in dict.fromkeys((source, target)):
        if path.exists() and _is_unlike_its_form(path):
            name = path.relative_to(target.parent)
            yield f"{name}: saved by another program, not in our form"


def _is_unlike_its_form(path: Path) -> bool:
    return path.read_text(encoding="utf-8") != as_text(normalise(read(path)))


# --- from a script --------------------------------------------------------------------

_CELL = re.compile(r"^# %%(?P<rest>.*)$")
_TAGS = re.compile(r"tags=(\[.*?\])")


def from_percent(text: str) -> NotebookNode:
    """A notebook from a script in percent format. Markdown lines begin with `# `."""
    cells: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        start = _CELL.match(line)
        if start:
            cells.append((start["rest"], []))
        elif cells:
            cells[-1][1].append(line)
    return normalise(
        nbformat.v4.new_notebook(cells=[_cell(head, lines) for head, lines in cells])
    )


def _cell(head: str, lines: list[str]) -> NotebookNode:
    tags = _TAGS.search(head)
    metadata = {"tags": json.loads(tags[1])} if tags else {}
    if "[markdown]" in head:
        text = "\n".join(re.sub(r"^# ?", "", line) for line in lines).strip("\n")
        cell = nbformat.v4.new_markdown_cell(text, metadata=metadata)
    else:
        text = "\n".join(lines).strip("\n")
        cell = nbformat.v4.new_code_cell(text, metadata=metadata)
    cell.id = _id_from(cell)  # in place of a random one
    return cell


def convert(script: Path, folder: Path = NOTEBOOKS) -> Path:
    """Make `notebooks/solutions/NAME.ipynb` from `NAME.py`; returns where it is."""
    name = f"{script.stem}.ipynb"
    target = folder / name if name in ALONE else folder / "solutions" / name
    write(target, from_percent(script.read_text(encoding="utf-8")))
    return target


# --- the command ----------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 if a notebook is out of date or a cell failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("lesson", nargs="*", help="first letters of names, such as 03")
    parser.add_argument("--check", action="store_true", help="only say what is old")
    parser.add_argument("--from-py", type=Path, metavar="FILE", help="convert a script")
    parser.add_argument("--folder", type=Path, default=NOTEBOOKS, help="notebooks/")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    if options.check:
        return _report(folder)
    if options.from_py:
        return _make_all([convert(options.from_py, folder)])
    found = sources(folder, options.lesson)
    if not found:
        print(f"no such notebook in {folder.name}/solutions", file=sys.stderr)
        return 1
    return _make_all(found)


def _report(folder: Path) -> int:
    found = problems(folder)
    for line in found:
        print(line)
    if found:
        print("`make notebooks` makes them anew.")
        return 1
    print(f"ok: {len(sources(folder))} notebooks, all versions")
    return 0


def _make_all(found: list[Path]) -> int:
    for source in found:
        try:
            make(source)
        except CellExecutionError as error:
            print(f"{source.name}: a cell failed\n{error}", file=sys.stderr)
            return 1
        print(f"made {source.name}, all versions", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
