"""The live half of a prediction: it places HTML and reports what was typed.

No logic lives here or in `prediction.js`; Python decides what is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import traitlets

from figures.cells import CellWidget


class PredictionView(CellWidget):
    """A card in the page. `body` is its HTML, made and escaped by `Prediction.html`.

    `on_guess` is called with what was typed; what it returns is shown beside the
    button. An exception in it is shown there too, because a notebook swallows it.
    """

    # Text and not a path: anywidget would watch the file, and hold every widget for it.
    _esm = Path(__file__).with_name("prediction.js").read_text(encoding="utf-8")
    body = traitlets.Unicode("").tag(sync=True)

    def __init__(self, *, body: str, on_guess: Callable[[str], str]) -> None:
        super().__init__(body=body)
        self._on_guess = on_guess
        self.on_msg(self._received)

    def _received(self, _: Any, content: Any, buffers: Any) -> None:
        try:
            note = self._on_guess(_typed(content))
        except Exception as error:  # otherwise nobody would ever see it
            note = f"Something went wrong: {type(error).__name__}: {error}"
        self.send({"note": note})


def _typed(content: Any) -> str:
    """The typed text. A page that sends something else is answered like a typo."""
    guess = content.get("guess") if isinstance(content, dict) else None
    return guess if isinstance(guess, str) else ""
