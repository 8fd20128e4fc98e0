"""Photograph a notebook as a student sees it, in a real JupyterLab.

How to:

    .venv/bin/python tools/shoot.py notebooks/00_start_here.ipynb
    .venv/bin/python tools/shoot.py notebooks/00_start_here.ipynb --dark
    .venv/bin/python tools/shoot.py my.ipynb --cells          # one picture per cell
    .venv/bin/python tools/shoot.py my.ipynb --no-run         # saved outputs only
    .venv/bin/python tools/shoot.py my.ipynb --static         # a page without a kernel
    .venv/bin/python tools/shoot.py my.ipynb --click Forward --click Forward

Each run opens a private JupyterLab on loopback (about 15 s), runs all cells, waits
until the kernel is idle and each widget is drawn, scrolls through the notebook, and
writes one PNG per screenful (or per cell) to ``screenshots/`` (git-ignored), then
prints their paths and whatever the browser's console complained about. The notebook is
copied first (a lesson with all of ``notebooks/``): nothing in the project changes.

A cell that raises does not stop the pictures; it is named at the end, with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser

from .lab import SHOTS, Lab, browser
from .server import ROOT, LabServer
from .static import open_without_kernel

_CLICK_HELP = "after the run, click the first button with this name (repeatable)"
_LAST_CELL_BOTTOM = """e => {
    const cells = e.querySelectorAll(".jp-Cell");
    const last = cells[cells.length - 1].getBoundingClientRect();
    return last.bottom - e.getBoundingClientRect().top + e.scrollTop;
}"""
_SCROLLER = ".jp-WindowedPanel-outer"


def screenfuls(lab: Lab, stem: str) -> list[Path]:
    """Scroll the notebook from top to bottom; photograph each screenful."""
    scroller = lab.notebook.locator(_SCROLLER)
    page_height = int(scroller.evaluate("e => e.clientHeight - 40"))
    end = int(scroller.evaluate(_LAST_CELL_BOTTOM))
    paths: list[Path] = []
    top = 0
    while top < end:
        scroller.evaluate("(e, y) => { e.scrollTop = y; }", top)
        lab.page.wait_for_timeout(250)  # cells are laid out when they come into view
        paths.append(lab.screenshot(f"{stem}-{len(paths):02d}"))
        end = int(scroller.evaluate(_LAST_CELL_BOTTOM))
        top += page_height
    return paths


def each_cell(lab: Lab, stem: str) -> list[Path]:
    """Photograph each cell with its outputs, however tall it is."""
    paths = []
    for index in range(len(lab.sources())):
        lab.scroll_to(index)
        lab.page.wait_for_timeout(100)
        paths.append(lab.screenshot(f"{stem}-cell{index:02d}", of=lab.cell(index)))
    return paths


def shoot_lab(chromium: Browser, home: Path, options: argparse.Namespace) -> list[str]:
    """Photograph the notebook in JupyterLab; return what went wrong."""
    troubles: list[str] = []
    with LabServer(home) as server:
        path = _load(server, options.notebook)
        lab = Lab.connect(chromium, server, options.width, options.height)
        lab.shots = options.out
        lab.theme("dark" if options.dark else "light")
        lab.open_notebook(path, kernel=options.run)
        if options.run:
            try:
                lab.run_all()
            except AssertionError as failure:
                troubles.append(str(failure))
        for name in options.click:
            lab.notebook.get_by_role("button", name=name).first.click()
            lab.wait_idle()
        for old in options.out.glob(f"{_stem(options)}-*.png"):
            old.unlink()
        shoot = each_cell if options.cells else screenfuls
        for picture in shoot(lab, _stem(options)):
            print(picture)
        troubles += [f"console: {text}" for text in lab.console_errors()]
    return troubles


def shoot_static(chromium: Browser, home: Path, options: argparse.Namespace) -> None:
    """Photograph the saved notebook as one long page without kernel or network."""
    page = open_without_kernel(chromium, options.notebook, home, options.dark)
    path = options.out / f"{_stem(options)}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, full_page=True)
    print(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool. Returns 1 when a cell raised or the console complained."""
    options = _parser().parse_args(arguments)
    if not options.notebook.is_file():
        print(f"no such notebook: {options.notebook}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="shoot-") as folder, browser() as chromium:
        if options.static:
            shoot_static(chromium, Path(folder), options)
            return 0
        troubles = shoot_lab(chromium, Path(folder), options)
    for trouble in troubles:
        print(f"\n{trouble}", file=sys.stderr)
    return 1 if troubles else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/shoot.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("notebook", type=Path)
    add("--dark", action="store_true", help="JupyterLab's dark theme")
    add("--out", type=Path, default=SHOTS, help="folder for the pictures")
    add("--run", action=argparse.BooleanOptionalAction, default=True)
    add("--cells", action="store_true", help="one picture per cell")
    add("--static", action="store_true", help="the saved page, no kernel, no network")
    add("--click", action="append", default=[], metavar="NAME", help=_CLICK_HELP)
    add("--width", type=int, default=1280)
    add("--height", type=int, default=900)
    return parser


def _stem(options: argparse.Namespace) -> str:
    kind = "static" if options.static else "lab"
    tone = "dark" if options.dark else "light"
    return f"{options.notebook.stem}-{kind}-{tone}"


def _load(server: LabServer, notebook: Path) -> str:
    """Copy the notebook to the server (a lesson with all that lies beside it)."""
    notebook, lessons = notebook.resolve(), ROOT / "notebooks"
    if lessons in notebook.parents:
        server.add([lessons])
        return str(notebook.relative_to(ROOT).as_posix())
    server.add([notebook])
    return notebook.name


if __name__ == "__main__":
    sys.exit(main())
