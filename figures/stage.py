"""What all widgets have in common: a stage for what Python has drawn.

One message a step goes to the page, with a number that grows, and it holds everything
the page shows: the parts (HTML and SVG) and the state of the controls. The page answers
with what the reader did. `stage.js` is all there is on the other side.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import traitlets

from figures.cells import CellWidget
from figures.theme import CONTROLS, TOKENS, variables
from figures.words import esc

_HERE = Path(__file__).parent
_COLOURS = f".kvstage{{{variables('--kv-', TOKENS | CONTROLS)}}}\n"

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def shell(
    summary: str, controls: str = "", extra: str = "", *, stays: bool = False
) -> str:
    """The page of a widget, its parts still empty: `controls`, the sentence, the
    picture, `extra`, and the tables folded away under `summary`. With `stays`, controls
    and sentence stay in sight while the page scrolls, and the part `space`, which
    nobody sees, holds the longest sentence: so none moves what stands below."""
    say = "<div data-part='say' aria-live='polite'></div>"
    if stays:
        space = "<div data-part='space' aria-hidden='true'></div>"
        top = f"<div class='stays'>{controls}<div class='says'>{say}{space}</div></div>"
    else:
        top = controls + say
    return (
        f"{top}<div data-part='error' role='alert'></div>"
        "<div data-part='picture' role='group' aria-label='picture'></div>"
        f"{extra}"
        f"<details><summary>{summary}</summary><div data-part='tables'></div></details>"
    )


def view_bundle(text: str, html: str, model_id: str | None) -> dict[str, Any]:
    """What a widget gives a notebook to show: the live view of its model where there
    is a kernel, else `html`, else `text`."""
    bundle: dict[str, Any] = {"text/plain": text, "text/html": html}
    if model_id:
        bundle[WIDGET_VIEW] = {
            "version_major": 2,
            "version_minor": 0,
            "model_id": model_id,
        }
    return bundle


class Stage(CellWidget):
    """A widget whose picture comes from Python.

    `frame` is the message to the page; `selected` names what the reader chose, and may
    be set from here as well. A subclass implements `draw` and `act`, and says with
    `page` what a page without a kernel shows in its place.
    """

    # Text and not paths: anywidget would watch the files, and hold every widget ever
    # made for it.
    _esm = (_HERE / "stage.js").read_text(encoding="utf-8")
    _css = _COLOURS + (_HERE / "stage.css").read_text(encoding="utf-8")

    shell = traitlets.Unicode().tag(sync=True)
    frame = traitlets.Dict().tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)

    def __init__(self, shell: str) -> None:
        super().__init__(shell=shell)
        self._last_heard = ""  # the last request that a frame can know of
        self.on_msg(self._heard)
        self.observe(self._selected, names="selected")

    # --- for subclasses -------------------------------------------------------------

    def draw(self) -> None:
        """Make the parts of the present state and `place` them."""
        raise NotImplementedError

    def act(self, name: str, value: float | None) -> None:
        """Do what a control asks for. What it raises is shown to the reader."""
        raise NotImplementedError

    def typed(self, name: str, text: str) -> None:
        """Take what stands in a text field now, or in a file that was chosen (of which
        4 MB are read). It may be long: bound the work. A text field belongs into the
        `shell`, not into a part: a part is replaced while one types."""
        raise NotImplementedError

    def page(self) -> str:
        """HTML for pages without a kernel."""
        raise NotImplementedError

    def place(
        self,
        parts: Mapping[str, str],
        controls: Mapping[str, Mapping[str, Any]] | None = None,
        tick: int = 0,
    ) -> None:
        """Send one frame. `tick` asks the page to call back after so many ms. To a
        widget that was closed, nothing is sent."""
        if self.comm is None:
            return
        self.frame = {
            "n": self.frame.get("n", 0) + 1,
            "heard": self._last_heard,
            "parts": {"error": "", **parts},
            "controls": dict(controls or {}),
            "tick": tick,
        }

    # --- from the page --------------------------------------------------------------

    def safely(self, doing: Any, *args: Any) -> None:
        """Call `doing`; an exception of a callback would be lost, so show it."""
        try:
            doing(*args)
        except Exception as error:
            self.complain(error)

    def complain(self, error: Exception) -> None:
        """Show `error` above the picture, and leave the rest as it is."""
        text = (
            f"<b>That did not work.</b> {esc(type(error).__name__)}: {esc(str(error))}"
        )
        old = self.frame
        self.place({**old.get("parts", {}), "error": text}, old.get("controls"))

    def _heard(self, _widget: object, message: Any, _buffers: object) -> None:
        if not isinstance(message, Mapping):
            return  # nothing that our page says
        if message.get("act") == "tick" and message.get("n") != self.frame.get("n"):
            return  # a second view of the same widget ticks too
        self._last_heard = str(message.get("id", ""))[:40]
        name, text = str(message.get("act")), message.get("text")
        if isinstance(text, str):
            self.safely(self.typed, name, text)
        else:
            self.safely(self.act, name, message.get("value"))

    def _selected(self, _change: object) -> None:
        self.safely(self.draw)

    # --- on the page ----------------------------------------------------------------

    @property
    def prefix(self) -> str:
        """Start of every id: the same for all frames, another for each widget."""
        return f"k{(self.model_id if self.comm else 'static')[:10]}"

    def _repr_mimebundle_(
        self, **_kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        self.replace_earlier()
        return view_bundle(repr(self), self.page(), self.model_id), {}
