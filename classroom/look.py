"""How the classroom's cards look: HTML made of escaped text, and one style sheet.

The colours are those of the figures (`figures.theme`), so a card and a picture beside
it belong together, in JupyterLab's light and dark theme and on a page without a kernel.
Nothing is said by colour alone: each state has its sign and its word.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path

from figures.theme import base_css

_CODE = re.compile(r"`([^`]+)`")
_BREAK = re.compile(r"\n\s*\n")

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_LOOSE = re.compile(r"\s*([{};,])\s*")


def _style(name: str) -> str:
    """A style sheet of this folder, without comments and blanks: it stands in every
    saved output."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return _LOOSE.sub(r"\1", _COMMENT.sub("", text)).strip()


CARD_CSS = _style("card.css")
FORM_CSS = _style("form.css")


def escape(text: object) -> str:
    """Text as HTML that shows exactly this text: tags, quotes and all."""
    return html.escape(str(text), quote=True)


def prose(text: str) -> str:
    """Escaped text in which `backticks` become code and an empty line a paragraph."""
    paragraphs = (inline(part) for part in _BREAK.split(text.strip()))
    return "".join(f"<p>{part}</p>" for part in paragraphs if part)


def inline(text: str) -> str:
    """Escaped text in which `backticks` become code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """A list of names and values; values are shown as code, escaped, and keep their
    direction of writing to themselves."""
    items = "".join(
        f"<dt>{escape(name)}</dt><dd><samp><bdi>{escape(value)}</bdi></samp></dd>"
        for name, value in rows
    )
    return f"<dl>{items}</dl>" if items else ""


def verdict(tone: str, sign: str, word: str, text: str = "") -> str:
    """The answer in one box. `tone` is "good", "bad" or "" (neither yet)."""
    return (
        f'<div class="verdict {tone}" tabindex="-1">'
        f"<b>{escape(sign)} {escape(word)}</b>{inline(text)}</div>"
    )


def picture(svg: str | None) -> str:
    """A figure of ours (already safe SVG), or nothing."""
    return f'<div class="picture">{svg}</div>' if svg else ""


def card(*parts: str, tone: str = "", form: bool = False) -> str:
    """One card, complete with its style sheet. `form`: it has controls."""
    style = base_css() + CARD_CSS + (FORM_CSS if form else "")
    body = "".join(parts)
    return f'<style>{style}</style><div class="kvfig kvcard {tone}">{body}</div>'
