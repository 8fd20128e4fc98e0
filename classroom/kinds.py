"""What a learner may answer to a prediction: reading it, comparing it, showing it.

Each kind turns typed text into a value, or raises `BadAnswer` with a message that says
what was expected. Nothing typed is ever evaluated.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from classroom.same import same

LONGEST = 200
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_SEPARATORS = re.compile(r"[\s,;]+")
_BRACKETS = "()[]{}"
_NONE = {"none", "empty", "no blocks", "nothing", "∅"}


class BadAnswer(ValueError):
    """An answer that cannot be read. Its message is written for the learner."""


class Kind(Protocol):
    """How one type of question reads, compares and shows answers."""

    @property
    def ask(self) -> str:
        """A few words under the question: what to type."""

    def read(self, raw: str) -> object:
        """The value of what was typed; raises `BadAnswer`."""

    def same(self, actual: object, guess: object) -> bool:
        """True if the guess is what the manager did."""

    def show(self, value: object) -> str:
        """Text for a guess or for the manager's answer (not yet escaped)."""


def tidy(raw: str) -> str:
    """Typed text without invisible characters and outer blanks; full-width digits and
    the like become plain ones. Raises `BadAnswer` if it is empty or very long."""
    if len(raw) > LONGEST:
        raise BadAnswer(
            f"That is {len(raw):,} characters long; an answer here has at most "
            f"{LONGEST}. It is still in the box: shorten it and lock again."
        )
    plain = unicodedata.normalize("NFKC", raw).replace("\N{MINUS SIGN}", "-")
    kept = (c for c in plain if unicodedata.category(c) != "Cf")
    text = " ".join("".join(kept).split())
    if not text:
        raise BadAnswer("There is nothing in the box yet. A guess is welcome.")
    return text


def _ungrouped(text: str) -> str:
    """`1,000` is a thousand; any other comma stays, and is a mistake."""
    return text.replace(",", "") if _GROUPED.fullmatch(text) else text


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number."""

    ask: str = "a whole number"

    def read(self, raw: str) -> int:
        """The number; `1,000` is read as a thousand."""
        text = _ungrouped(tidy(raw))
        try:
            return int(text)
        except ValueError:
            raise BadAnswer(
                "This needs one whole number, for example 3. Yours is still in the "
                "box: change it and lock again."
            ) from None

    def same(self, actual: object, guess: object) -> bool:
        """Equal as numbers."""
        return same(actual, guess)

    def show(self, value: object) -> str:
        """The digits, with commas from 10,000 on."""
        big = type(value) is int and abs(value) >= 10_000
        return f"{value:,}" if big else str(value)


@dataclass(frozen=True, slots=True)
class Number:
    """A number that may have a fraction; right within `tolerance` (0.05 is 5 %)."""

    tolerance: float = 0.0
    ask: str = "a number"

    def read(self, raw: str) -> float:
        """The number; a per cent sign at its end is ignored."""
        text = _ungrouped(tidy(raw).removesuffix("%").strip())
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not abs(value) < float("inf"):
            raise BadAnswer(
                "This needs one number, for example 12.5. Yours is still in the box: "
                "change it and lock again."
            )
        return value

    def same(self, actual: object, guess: object) -> bool:
        """Within the tolerance, relative to what the manager did."""
        if not isinstance(actual, int | float) or not isinstance(guess, int | float):
            return False
        return abs(actual - guess) <= self.tolerance * abs(actual) + 1e-9

    def show(self, value: object) -> str:
        """Up to four significant digits."""
        return f"{value:,.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Block ids. `ordered`: a table, where order counts; else a set of blocks."""

    ordered: bool = True

    @property
    def ask(self) -> str:
        """What to type."""
        how = "in order" if self.ordered else "in any order"
        return f"block numbers {how}, such as 3, 1 (or: none)"

    def read(self, raw: str) -> tuple[int, ...]:
        """The ids; brackets, commas and blanks are all welcome, `none` is no block."""
        text = tidy(raw).strip(_BRACKETS + " ,")
        if text.casefold() in _NONE or not text:
            return ()
        parts = _SEPARATORS.split(text)
        if not all(part.isdecimal() for part in parts):
            raise BadAnswer(
                "This needs block numbers, for example 3, 1 (or the word none). Yours "
                "are still in the box: change them and lock again."
            )
        ids = tuple(map(int, parts))
        return ids if self.ordered else tuple(sorted(set(ids)))

    def same(self, actual: object, guess: object) -> bool:
        """The same blocks, in the same order if order counts."""
        return self._ids(actual) == self._ids(guess)

    def show(self, value: object) -> str:
        """The ids with commas between them."""
        return ", ".join(map(str, self._ids(value))) or "none"

    def _ids(self, value: object) -> tuple[object, ...]:
        items = tuple(value) if isinstance(value, Sequence | set | frozenset) else ()
        return items if self.ordered else tuple(sorted(set(items)))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few given answers."""

    options: tuple[str, ...]
    ask: str = "choose one"

    def read(self, raw: str) -> str:
        """The option; case and outer blanks do not matter."""
        if not raw.strip():
            raise BadAnswer("Choose one of the answers first. A guess is welcome.")
        wanted = tidy(raw).casefold()
        for option in self.options:
            if tidy(option).casefold() == wanted:
                return option
        raise BadAnswer("Choose one of: " + "; ".join(self.options) + ".")

    def same(self, actual: object, guess: object) -> bool:
        """The same option."""
        return str(actual).strip().casefold() == str(guess).strip().casefold()

    def show(self, value: object) -> str:
        """The option as it stands."""
        return str(value)


@dataclass(frozen=True, slots=True)
class ShortText:
    """A word or a short phrase; case and blanks do not matter."""

    ask: str = "a few words"

    def read(self, raw: str) -> str:
        """The words with single blanks."""
        return tidy(raw)

    def same(self, actual: object, guess: object) -> bool:
        """Equal but for case and blanks."""
        return tidy(str(actual)).casefold() == tidy(str(guess)).casefold()

    def show(self, value: object) -> str:
        """The words."""
        return str(value)


def kind_named(kind: Kind | str) -> Kind:
    """The kind called `kind`: "integer", "number", "blocks", "block set" or "text"."""
    if not isinstance(kind, str):
        return kind
    kinds: dict[str, Kind] = {
        "integer": Integer(),
        "number": Number(),
        "blocks": Blocks(),
        "block set": Blocks(ordered=False),
        "text": ShortText(),
    }
    if kind not in kinds:
        raise ValueError(f"no kind of answer is called {kind!r}: use {sorted(kinds)}")
    return kinds[kind]
