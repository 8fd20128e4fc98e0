"""Drive one JupyterLab page the way a person does, and look at what it then shows.

    with LabServer(tmp) as server, browser() as chromium:
        server.add([notebook])
        lab = Lab.connect(chromium, server)
        lab.open_notebook("00_start_here.ipynb")
        lab.run_all()                                   # returns when all is idle
        lab.notebook.get_by_role("button", name="Forward").click()
        lab.kernel_eval("player.index")                 # -> 1, asked of the kernel
        assert lab.console_errors() == []

Locate by role and accessible name where possible: what a test cannot find that way, a
screen reader cannot find either.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from .server import ROOT, LabServer

SHOTS = ROOT / "screenshots"
_PATIENCE = 120  # seconds; Playwright puts no limit on a promise of the page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    *("--disable-gpu", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--disable-quic", "--no-first-run"),
)

ALLOWED_ERRORS: tuple[tuple[str, str], ...] = (
    (
        "^Could not restore the debugger state: Canceled future",
        "JupyterLab's debugger still asks a kernel that has been shut down meanwhile",
    ),
)
"""(pattern, reason): console errors that are not ours. Anything else fails a test."""

# A panel is addressed by its widget, not by the page's focus, which a click may move.
_PANEL = "const app = window.jupyterapp; const panel = app.shell.currentWidget;"
_KERNEL = _PANEL + "const kernel = panel.sessionContext.session.kernel;"

# Until its model has arrived, the output holds only the words "Loading widget...".
_LIVE_WIDGET = ".jp-OutputArea-output.lm-Panel > .lm-Widget:has(> *)"


class CellFailed(AssertionError):
    """A cell raised. The message carries its source and its error."""


def find_chromium() -> Path | None:
    """Return the browser to use: ``$CHROMIUM``, else the first one on the path."""
    for name in filter(None, (os.environ.get("CHROMIUM"), *_NAMES)):
        found = shutil.which(name)
        if found:
            return Path(found)
    return None


@contextmanager
def browser(executable: Path | None = None) -> Iterator[Browser]:
    """Start a headless Chromium that asks nothing of the network by itself."""
    executable = executable or find_chromium()
    if executable is None:
        raise FileNotFoundError("no Chromium: install it, or set $CHROMIUM to its path")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=executable,
            args=list(_FLAGS),
            chromium_sandbox=False,  # root, as in a container, has no sandbox
        )
        try:
            yield chromium
        finally:
            chromium.close()


def write(lab: Lab, name: str, *sources: str) -> str:
    """Make a notebook of code cells on the server; return its path."""
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "id": f"cell-{i}", "source": source, "metadata": {}}
        | {"outputs": [], "execution_count": None}
        for i, source in enumerate(sources)
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    (lab.server.work / name).write_text(json.dumps(notebook), encoding="utf-8")
    return name


def part(stage: Locator, name: str) -> Locator:
    """One part of a stage: `count`, `say`, `picture`, `audit`, `tables`, `error`."""
    return stage.locator(f"[data-part={name}]")


@dataclass(slots=True)
class Lab:
    """One page with JupyterLab in it, and the notebook that is open there."""

    page: Page
    server: LabServer
    console: list[str] = field(default_factory=list)
    shots: Path = SHOTS
    in_use: str | None = None

    @classmethod
    def connect(
        cls,
        chromium: Browser,
        server: LabServer,
        width: int = 1280,
        height: int = 900,
    ) -> Lab:
        """Open JupyterLab in a fresh browser profile and wait until it is ready."""
        context = chromium.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce"
        )
        lab = cls(context.new_page(), server)
        lab.page.set_default_timeout(30_000)
        lab.page.on("console", lambda message: lab._hear(message))
        lab.page.on("pageerror", lambda error: lab.console.append(str(error)))
        lab._load()
        return lab

    def _load(self, tries: int = 3) -> None:
        """Load JupyterLab itself. On a busy machine one of its many files can stay
        away; then the page is loaded again. What is tested comes after this."""
        for left in reversed(range(tries)):
            self.page.goto(f"{self.server.url}/lab?reset&token={self.server.token}")
            try:
                self.page.wait_for_function("window.jupyterapp !== undefined")
            except PlaywrightTimeout:
                if not left:
                    raise
            else:
                break
        self.page.evaluate("async () => { await window.jupyterapp.restored; }")

    # -- the notebook ------------------------------------------------------------

    def open_notebook(self, path: str, kernel: bool = True) -> None:
        """Open a notebook, by its path below the server's folder.

        With ``kernel``, wait until its kernel answers: "Run All" before that silently
        runs nothing.
        """
        self._run(
            """async ({path, kernel}) => {
                const app = window.jupyterapp;
                const panel = await app.commands.execute(
                    "docmanager:open", {path, kernel: {name: "python3"}});
                await panel.context.ready;
                await panel.revealed;
                app.shell.activateById(panel.id);
                app.shell.collapseLeft();
                if (!kernel) return;
                await panel.sessionContext.ready;
                await panel.sessionContext.session.kernel.info;
            }""",
            path=path,
            kernel=kernel,
        )

    def use(self, path: str) -> None:
        """Have this notebook open and run, and no other; keep it if it is already."""
        if self.in_use != path:
            self.close_all()
            self.open_notebook(path)
            self.run_all()
            self.in_use = path

    def close_all(self) -> None:
        """Shut down every kernel and close every notebook, saving nothing."""
        self.in_use = None
        self._run(
            """async () => {
                const app = window.jupyterapp;
                await app.serviceManager.sessions.shutdownAll();
                for (const panel of [...app.shell.widgets("main")]) {
                    if (panel.context) panel.context.model.dirty = false;
                    panel.close();
                }
            }"""
        )

    def run_all(self, allow_errors: bool = False) -> None:
        """Run every cell; return when the kernel is idle and the widgets are drawn.

        A cell that raises ends the test with :class:`CellFailed`, unless it is tagged
        ``raises-exception`` or ``allow_errors`` is set.
        """
        self._run(
            f"""async () => {{ {_PANEL}
                await panel.sessionContext.ready;
                await panel.sessionContext.session.kernel.info;
                await app.commands.execute("notebook:run-all-cells");
            }}"""
        )
        if not allow_errors:
            self._raise_on_errors()
        self.wait_idle()
        missing = [i for i, n in enumerate(self.execution_counts()) if n is None]
        assert allow_errors or not missing, f"cells never ran: {missing}"
        self.wait_for_widgets()

    def type_and_run(self, cell: Locator, source: str) -> None:
        """Replace a cell's source by typing, and run it with Shift+Enter."""
        editor = cell.locator(".cm-content")
        editor.click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Shift+Enter")
        self.wait_idle()

    def restart_kernel(self) -> None:
        """Restart the kernel: all state there is gone, the page keeps its outputs."""
        self._run(
            f"async () => {{ {_KERNEL} await kernel.restart(); await kernel.info; }}"
        )
        self.wait_idle()

    def restart_and_run_all(self) -> None:
        """What a careful student does before trusting a result."""
        self.restart_kernel()
        self.run_all()

    def theme(self, name: str) -> None:
        """Switch to ``"light"`` or ``"dark"``, as Settings > Theme does."""
        theme = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}[name]
        self._run(
            """async ({theme}) => {
                const app = window.jupyterapp;
                await app.commands.execute("apputils:change-theme", {theme});
            }""",
            theme=theme,
        )
        light = json.dumps(name == "light")
        self.page.wait_for_function(f"document.body.dataset.jpThemeLight === '{light}'")

    # -- waiting -----------------------------------------------------------------

    def wait_idle(self, seconds: float = 120) -> None:
        """Wait until the kernel has answered everything sent to it so far."""
        self._run(f"async () => {{ {_KERNEL} await kernel.requestKernelInfo(); }}")
        self.page.wait_for_function(
            f"() => {{ {_KERNEL} return kernel.status === 'idle'; }}",
            timeout=seconds * 1000,
        )

    def wait_for_widgets(self, seconds: float = 30) -> None:
        """Scroll through the notebook until each widget output has its live widget."""
        for index, widgets in enumerate(self._widgets_per_cell()):
            if widgets:
                self.scroll_to(index)
                cell = self.cell(index)
                drawn = cell.locator(_LIVE_WIDGET).nth(widgets - 1)
                drawn.wait_for(timeout=seconds * 1000)
                assert cell.get_by_text("Error displaying widget").count() == 0
        self.scroll_to(0)

    # -- looking -----------------------------------------------------------------

    @property
    def notebook(self) -> Locator:
        """The open notebook. Everything is looked up below it."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def cell(self, index: int) -> Locator:
        """The cell at ``index``, counted from 0 over all kinds of cells."""
        return self.notebook.locator(f'[data-windowed-list-index="{index}"]')

    def find_cell(self, text: str) -> int:
        """The index of the first cell whose source contains ``text``."""
        for index, source in enumerate(self.sources()):
            if text in source:
                return index
        raise LookupError(f"no cell contains {text!r}")

    def sources(self) -> list[str]:
        """The source of every cell."""
        found: list[str] = self._cells("cell.model.sharedModel.getSource()")
        return found

    def execution_counts(self) -> list[int | None]:
        """The execution count of every *code* cell that has any source."""
        return [
            count
            for kind, source, count in self._cells(
                "[cell.model.type, cell.model.sharedModel.getSource().trim(),"
                " cell.model.executionCount ?? null]"
            )
            if kind == "code" and source
        ]

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """The outputs of one cell as nbformat dictionaries."""
        found: list[dict[str, Any]] = self._cells(
            "cell.model.outputs ? cell.model.outputs.toJSON() : []"
        )[index]
        return found

    def scroll_to(self, index: int) -> None:
        """Bring a cell to the top of the view, so that it is really rendered."""
        self._run(
            f"async ({{index}}) => {{ {_PANEL}"
            'await panel.content.scrollToItem(index, "start"); }',
            index=index,
        )
        self.cell(index).wait_for(state="attached")

    def screenshot(self, name: str, of: Locator | None = None) -> Path:
        """Write ``screenshots/NAME.png`` (git-ignored): the page, or one element.

        The window grows for a tall element: JupyterLab's panels would cut it off.
        """
        path = self.shots / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        if of is None:
            self.page.screenshot(path=path)
            return path
        window, box = self.page.viewport_size, of.bounding_box()
        assert window is not None and box is not None
        height = max(window["height"], int(box["height"]) + 240)
        self.page.set_viewport_size({"width": window["width"], "height": height})
        of.screenshot(path=path)
        self.page.set_viewport_size(window)
        return path

    def console_errors(self) -> list[str]:
        """What the browser complained about, less :data:`ALLOWED_ERRORS`."""
        patterns = [re.compile(pattern) for pattern, _ in ALLOWED_ERRORS]
        return [
            text for text in self.console if not any(p.search(text) for p in patterns)
        ]

    # -- asking the kernel -------------------------------------------------------

    def kernel_exec(self, code: str) -> None:
        """Run statements in the notebook's kernel, leaving the cells' counts alone."""
        self._execute(code, "None")

    def kernel_eval(self, expression: str) -> Any:
        """The value of an expression in the notebook's kernel, by way of JSON."""
        return json.loads(self._execute("", f"__import__('json').dumps({expression})"))

    def _execute(self, code: str, expression: str) -> str:
        reply = self._run(
            f"""async ({{code, expression}}) => {{ {_KERNEL}
                const future = kernel.requestExecute({{
                    code, silent: false, store_history: false,
                    user_expressions: {{value: expression}},
                }});
                return (await future.done).content;
            }}""",
            code=code,
            expression=expression,
        )
        value = reply.get("user_expressions", {}).get("value", reply)
        if value["status"] != "ok":
            raise CellFailed(
                f"{code or expression}: {value['ename']}: {value['evalue']}"
            )
        return str(ast.literal_eval(value["data"]["text/plain"]))

    # -- inside ------------------------------------------------------------------

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            where = message.location.get("url", "")
            self.console.append(f"{message.text} ({where})")

    def _run(self, script: str, **arguments: Any) -> Any:
        """Call an async JavaScript function in the page, for at most two minutes."""
        return self.page.evaluate(
            f"""args => Promise.race([
                ({script})(args),
                new Promise((_, reject) => setTimeout(
                    () => reject(new Error("no answer within {_PATIENCE} s")),
                    {_PATIENCE} * 1000)),
            ])""",
            arguments,
        )

    def _cells(self, expression: str) -> Any:
        return self._run(
            f"() => {{ {_PANEL} return panel.content.widgets.map("
            f"cell => {expression}); }}"
        )

    def _widgets_per_cell(self) -> list[int]:
        kind = "application/vnd.jupyter.widget-view+json"
        outputs = self._cells("cell.model.outputs ? cell.model.outputs.toJSON() : []")
        return [sum(kind in o.get("data", {}) for o in cell) for cell in outputs]

    def _raise_on_errors(self) -> None:
        cells = self._cells(
            "[cell.model.sharedModel.getSource(), cell.model.getMetadata('tags') ?? [],"
            " cell.model.outputs ? cell.model.outputs.toJSON() : []]"
        )
        for index, (source, tags, outputs) in enumerate(cells):
            for output in outputs:
                if output["output_type"] == "error" and "raises-exception" not in tags:
                    error = f"{output['ename']}: {output['evalue']}"
                    raise CellFailed(f"cell {index} raised {error}\n\n{source}")
