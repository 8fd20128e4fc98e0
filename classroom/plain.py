"""What went wrong, in plain words: a crash and its line, or where a value is off."""

from __future__ import annotations

import inspect
import linecache
import traceback
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

from classroom.limits import run_limited
from classroom.same import same, shown

_MEANING = {
    RecursionError: "Your function calls itself without end.",
    MemoryError: "Your code asks for more memory than there is.",
    SystemExit: "Your code calls `exit`, which would have closed the kernel.",
}


def crash_text(error: BaseException, attempt: object) -> str:
    """One or two sentences for an exception that came out of a learner's code."""
    for kind, meaning in _MEANING.items():
        if isinstance(error, kind):
            return meaning
    said = run_limited(lambda: shown_message(error))  # __str__ may be the learner's own
    what = type(error).__name__ + (f": {said.value}" if said.value else "")
    where = _line_of(error, attempt)
    if where is None:
        return f"Your code could not be called like this. {what}"
    number, source = where
    return f"Your code stops in line {number}, `{source}`. {what}"


def shown_message(error: BaseException) -> str:
    """The exception's own text, short and without addresses or quotes around it."""
    text = error.args[0] if isinstance(error, KeyError) and error.args else str(error)
    return shown(text) if not isinstance(text, str) else shown(text)[1:-1]


def names_of(attempt: object) -> dict[str, Any] | None:
    """The namespace in which an attempt looks up its global names, if it has one."""
    function = next(_functions_of(attempt), None)
    return getattr(function, "__globals__", None)


def _line_of(error: BaseException, attempt: object) -> tuple[int, str] | None:
    """The innermost line of the learner's own file or cell in the traceback."""
    homes = {code.co_filename for code in map(_code_of, _functions_of(attempt)) if code}
    found = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename in homes:
            found = (number, linecache.getline(frame.f_code.co_filename, number))
    return (found[0], found[1].strip()) if found else None


def _functions_of(attempt: object) -> Iterator[Any]:
    """The attempt's functions: itself, or the methods of its class."""
    if inspect.isfunction(attempt) or inspect.ismethod(attempt):
        yield inspect.unwrap(attempt)
        return
    home = attempt if inspect.isclass(attempt) else type(attempt)
    yield from (f for f in vars(home).values() if inspect.isfunction(f))


def _code_of(function: Any) -> CodeType | None:
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


# --- a value that is not right ----------------------------------------------------


def wrong_value(got: object) -> str:
    """What to say of a function that returned something else than was expected."""
    kind = type(got).__name__
    if got is None:
        return "Your function returned nothing here. Does every path end in `return`?"
    if kind in ("generator", "coroutine", "map", "filter", "zip"):
        return f"Your function returned a {kind}, not its values: wrap it in `list()`."
    return "For this call your function gives something else."


def whats_off(expected: object, got: object) -> str:
    """Where a value begins to be wrong, without saying what would be right there."""
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        return _off_in_sequence(expected, got)
    if isinstance(expected, dict) and isinstance(got, dict):
        wrong = [k for k in expected if k not in got or not same(expected[k], got[k])]
        return (
            f"The entry for `{shown(wrong[0])}` is not right yet."
            if wrong
            else ("It has an entry too many.")
        )
    if isinstance(got, str) != isinstance(expected, str):
        return f"This wants a {kind_of(expected)}; yours is a {kind_of(got)}."
    return "This is not it."


def _off_in_sequence(expected: Sequence[object], got: object) -> str:
    if not isinstance(got, list | tuple):
        return f"This wants a list; yours is a {kind_of(got)}."
    for place, (want, have) in enumerate(zip(expected, got, strict=False)):
        if have is None or have is ...:
            return f"Entry {place} is still empty (counting from 0)."
        if not same(want, have):
            return f"Entry {place} is not right yet (counting from 0)."
    much = "few" if len(got) < len(expected) else "many"
    return f"What is there is right, but there are too {much} entries: {len(got)}."


def kind_of(value: object) -> str:
    """The type of a value in a word that a beginner knows."""
    names = {"str": "text", "int": "number", "float": "number", "NoneType": "nothing"}
    return names.get(type(value).__name__, type(value).__name__)
