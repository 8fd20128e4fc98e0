"""Text for figures: made safe, measured, and cut to fit.

Everything that a person typed passes through here before it is drawn. Nothing is lost:
what does not fit is cut with an ellipsis, and the whole text goes into a tooltip.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

Labels = Mapping[int, str] | None
"""Token id -> text, given by whoever made the tokens; None shows the ids."""

ELLIPSIS = "…"
BLANK = "␣"  # for a name that would not be seen
_BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f\ufe0e\ufe0f")
LONGEST_TOOLTIP = 200  # characters: a tooltip is not a reader
_NARROWEST = 0.8  # a token may be squeezed to this share of its width, then it is cut
_BIDI_CONTROLS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_JOINERS = frozenset("\u200d\ufe0e\ufe0f\u20e3")
_ENTITIES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
)

# Advance widths of DejaVu Sans in 1/100 em, from space to tilde. It is the widest of
# the usual sans-serif faces: what fits in it fits everywhere.
_WIDTHS = """
32 40 46 84 64 95 78 27 39 39 50 84 32 36 32 34 64 64 64
64 64 64 64 64 64 64 34 34 84 84 84 53 100 68 69 70 77 63
58 77 75 29 29 66 56 86 75 79 60 79 69 63 61 73 68 99 69
61 69 39 34 39 84 50 50 61 63 55 63 62 35 63 63 28 28 58
28 97 63 61 63 63 41 52 39 63 59 82 59 59 52 64 34 64 84
"""
_EM = {chr(0x20 + i): int(w) / 100 for i, w in enumerate(_WIDTHS.split())}
_BOLDER = 1.15  # DejaVu Sans Bold against DejaVu Sans


# --- safe ---------------------------------------------------------------------------


def visible(text: str) -> str:
    """`text` with nothing that is invisible or that XML forbids.

    Controls become their pictures, lone surrogates a replacement mark. Direction marks
    go: one alone would turn round the text after it.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_char, text))


def _visible_char(ch: str) -> str:
    code = ord(ch)
    if code < 0x20:
        return "⏎" if ch == "\n" else chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if ch in _BIDI_CONTROLS:
        return ""
    if 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE:
        return "\ufffd"
    return " " if ch in "\u2028\u2029" else ch


@lru_cache(maxsize=4096)
def esc(text: str) -> str:
    """`text` for use between tags or inside an attribute, in HTML and in XML."""
    return visible(text).translate(_ENTITIES)


def tooltip(text: str) -> str:
    """`text` escaped, shortened when it is very long (with its length)."""
    if len(text) <= LONGEST_TOOLTIP:
        return esc(text)
    return esc(f"{text[:LONGEST_TOOLTIP]}{ELLIPSIS} ({len(text):,} characters)")


def isolate(text: str, limit: int = 40) -> str:
    """A name or token for a sentence: visible, not too long, its direction its own."""
    shown = named(text[: limit + 1])
    if len(text) > limit:
        shown = shown[:limit] + ELLIPSIS
    return _turned(shown)


def named(text: str) -> str:
    """`text` made visible; a sign where nothing of it would be seen."""
    shown = visible(text)
    return shown if any(map(_inked, shown)) else BLANK


def _inked(ch: str) -> bool:
    return not ch.isspace() and unicodedata.category(ch) != "Cf" and ch not in _BLANKS


# --- measured and cut ---------------------------------------------------------------


def clusters(text: str) -> Iterator[str]:
    """What a reader sees as one sign: a letter with its accents, a joined emoji."""
    held = ""
    for ch in text:
        if held and not _continues(held, ch):
            yield held
            held = ""
        held += ch
    if held:
        yield held


def _continues(held: str, ch: str) -> bool:
    if ch in _JOINERS or held[-1] == "\u200d" or unicodedata.combining(ch):
        return True
    if 0x1F3FB <= ord(ch) <= 0x1F3FF:  # a skin tone belongs to the emoji before it
        return True
    flags = (0x1F1E6 <= ord(c) <= 0x1F1FF for c in (held[-1], ch))
    return len(held) == 1 and all(flags)  # two regional letters make one flag


def _cluster_em(cluster: str) -> float:
    ch = cluster[0]
    if ch in _EM:
        return _EM[ch]
    if len(cluster) > 1 and ord(ch) > 0x2000:
        return 1.4  # an emoji sequence
    return 1.3 if unicodedata.east_asian_width(ch) in "WF" else 0.8


@lru_cache(maxsize=4096)
def width(text: str, size: float = 13, bold: bool = False) -> float:
    """Width of one line of text in px, rather too wide than too narrow."""
    if text.isascii() and text.isprintable():
        em = sum(map(_EM.__getitem__, text))
    else:
        em = sum(map(_cluster_em, clusters(text)))
    return em * size * (_BOLDER if bold else 1.0)


@lru_cache(maxsize=4096)
def clip(text: str, room: float, size: float = 13, bold: bool = False) -> str:
    """`text` made visible and cut to `room` px, with an ellipsis if it was cut."""
    shown = named(text[:500]).strip() if text else ""
    if len(text) > 500 or width(shown, size, bold) > room:
        shown = _cut(shown, room / size / (_BOLDER if bold else 1.0) - 1) + ELLIPSIS
    return _turned(shown)


def _cut(text: str, room: float) -> str:
    """The first signs of `text` that fit into `room` em."""
    kept = ""
    for cluster in clusters(text):
        room -= _cluster_em(cluster)
        if room < 0:
            break
        kept += cluster
    return kept.rstrip()


def _turned(text: str) -> str:
    """Text that runs from right to left, kept from turning its neighbours round."""
    turns = not text.isascii() and any(
        unicodedata.bidirectional(ch) in ("R", "AL", "AN") for ch in text
    )
    return f"\u2068{text}\u2069" if turns else text


def fitted(text: str, room: float) -> tuple[str, str]:
    """A token for `room` px: as it is, a little squeezed, or cut with a tooltip.

    Gives the attribute that squeezes a `<text>`, and what stands inside of it.
    """
    shown, hint = _with_signs(text), ""
    if width(shown) > room / _NARROWEST:
        shown = clip(shown, room / _NARROWEST)
        hint = f"<title>{tooltip(text)}</title>"
    squeeze = ""
    if width(shown) > room:
        squeeze = f" textLength='{room:.1f}' lengthAdjust='spacingAndGlyphs'"
    return squeeze, esc(shown) + hint


def _with_signs(text: str) -> str:
    """White space alone would look like an empty slot: show signs for it."""
    short = text[:500]
    if any(map(_inked, short)):
        return short
    signs = {"\n": "⏎", "\t": "⇥"}
    return "".join(signs.get(ch, "␣") for ch in short[:8]) or "∅"


def wrap(text: str, room: float, size: float = 13, bold: bool = False) -> list[str]:
    """`text` in lines of at most `room` px; a word longer than that is cut."""
    lines = [""]
    for word in visible(text).split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width(longer, size, bold) > room:
            lines.append(clip(word, room, size, bold))
        else:
            lines[-1] = clip(longer, room, size, bold) if not lines[-1] else longer
    return lines


# --- tokens -------------------------------------------------------------------------


def token_text(token_id: int, labels: Labels) -> str:
    """What stands for a token: its text if there is one, else its id."""
    text = _label(token_id, labels)
    return str(token_id) if text is None else text


def _label(token_id: int, labels: Labels) -> str | None:
    """A token's text if there is one; whatever else stands there, as text."""
    if labels is None:
        return None
    if not isinstance(labels, Mapping):
        raise TypeError(
            "labels must map token ids to their text, as {17: 'cat'} does; "
            f"got {type(labels).__name__}"
        )
    text: object = labels.get(token_id)
    return text if text is None or isinstance(text, str) else str(text)


def token_texts(token_ids: Iterable[int], labels: Labels) -> tuple[str, ...]:
    """What stands for each of these tokens."""
    if labels is None:
        return tuple(map(str, token_ids))
    return tuple([token_text(token_id, labels) for token_id in token_ids])


def token_name(token_id: int, labels: Labels) -> str:
    """A token inside a sentence: `token 17`, or its text in quotation marks."""
    text = _label(token_id, labels)
    return f"token {token_id}" if text is None else f"token “{isolate(text)}”"


def plural(n: int, one: str, many: str | None = None) -> str:
    """`1 block`, `2 blocks`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int | None = None) -> str:
    """`a`, `a and b`, `a, b and c`; of more than `most`, the rest as a number."""
    if most is not None and len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
