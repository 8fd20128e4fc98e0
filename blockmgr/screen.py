"""Text for a terminal: one line of complaint, and nothing that could steer it."""

from __future__ import annotations

import sys

LONGEST = 400  # characters: a whole free queue would fill the screen


def printable(text: str) -> str:
    """The text with every control character replaced by a mark.

    File names and traces can hold anything, also codes that clear the screen.
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def shorten(text: str) -> str:
    """At most `LONGEST` characters of it; three dots say that there was more."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def complain(message: object) -> None:
    """Print one line on standard error, however odd the text is that it quotes."""
    line = printable(" ".join(str(message).split()))
    print(f"blockmgr: {shorten(line)}", file=sys.stderr)
