"""Running a cell again: what it showed before is closed, so that nothing piles up.

Jupyter keeps every widget that was ever shown, with its callbacks, for the life of the
kernel. Here each cell keeps only what its latest run shows.
"""

from __future__ import annotations

from typing import Any

import anywidget
from IPython import get_ipython

_shown: dict[str, tuple[str, list[CellWidget]]] = {}
"""By cell: its latest run, and the widgets that it shows."""


class CellWidget(anywidget.AnyWidget):
    """A widget that leaves nothing behind when it is closed."""

    def close(self) -> None:
        """Take the widget off the page, and the layout that every widget brings."""
        if self.comm is not None:
            self.layout.close()
        super().close()

    def replace_earlier(self) -> None:
        """The running cell shows this widget now: close what it showed when it ran
        before, unless another cell shows that too."""
        cell, run = _running()
        if cell is None:
            return
        last, widgets = _shown.get(cell, (run, []))
        gone = widgets if last != run else []
        kept = [w for w in widgets if last == run and w is not self]
        _shown[cell] = run, [*kept, self]
        for old in gone:
            if not any(old in now for _, now in _shown.values()):
                old.close()


def _running() -> tuple[str | None, str]:
    """The cell that is running and the name of this run; no cell outside a notebook."""
    parent: dict[str, Any] = getattr(get_ipython(), "parent_header", None) or {}
    cell = parent.get("metadata", {}).get("cellId")
    return cell, str(parent.get("header", {}).get("msg_id"))
