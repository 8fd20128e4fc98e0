"""Ids, classes and captions of the things in a picture, in one place.

Every drawn thing is one `<g>` with a stable id, so that a later frame's can be found
and moved, and one caption for the mouse and for screen readers. In an interactive
picture it also has its key (what `selected` says when it is chosen) and can be reached
by keyboard: one stop for the whole picture, arrows inside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from figures.scene import Scene
from figures.words import esc, tooltip


@dataclass(frozen=True, slots=True)
class Mark:
    """Writes the attributes of the groups of one picture."""

    scene: Scene
    prefix: str
    interactive: bool

    def attributes(
        self,
        name: str,
        key: str,
        classes: str,
        x: float,
        y: float,
        caption: str,
        block: int | None = None,
    ) -> str:
        """The start of a group at `x, y`; `block` is the physical block it is about."""
        lit = self.scene.lit
        if lit:
            if key == self.scene.selected:
                classes += " sel"
            elif key in lit:
                classes += " lit"
        about = "" if block is None else f" data-b='{block}'"
        start = (
            f"<g id='{self.prefix}-{name}' class='{classes}'{about} "
            f"transform='translate({x:g} {y:g})'"
        )
        if self.interactive:
            chosen = "true" if key == self.scene.selected else "false"
            start += (
                f" data-key='{esc(key)}' role='option' aria-selected='{chosen}' "
                "tabindex='-1'"
            )
        return f"{start}><title>{tooltip(caption)}</title>"

    def bare(self, name: str, block: int, x: float, y: float) -> str:
        """The start of a group that only repeats a block: no key, no caption, and its
        classes still to come."""
        return (
            f"<g id='{self.prefix}-{name}' data-b='{block}' "
            f"transform='translate({x:g} {y:g})'"
        )

    def fixed(self, name: str, y: float, content: str, x: float = 0) -> str:
        """Headings and the like: they move along, and are about no block."""
        start = f"<g id='{self.prefix}-{name}' transform='translate({x:g} {y:g})'>"
        return f"{start}{content}</g>"


def checked(prefix: str | None) -> str | None:
    """The prefix, if ids can begin so: inside of `url(#...)` only plain names work."""
    if prefix and not re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", prefix):
        raise ValueError(
            "prefix must begin with a letter and hold only letters, digits, - and _; "
            f"got {prefix!r}"
        )
    return prefix


def group(start: str, content: str) -> str:
    """A group from the start that `Mark.attributes` wrote."""
    return f"{start}{content}</g>"
