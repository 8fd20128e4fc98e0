"""What went wrong, in plain words: a crash and its line, or where a value is off."""

from __future__ import annotations

import inspect
import linecache
import traceback
from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from types import CodeType, FunctionType, MethodType
from typing import Any

from classroom.limits import value_or
from classroom.same import same, shown

_MEANING = {
    RecursionError: "Your function calls itself without end.",
    MemoryError: "Your code asks for more memory than there is.",
    SystemExit: "Your code calls `exit`, which would have closed the kernel.",
}


def crash_text(error: BaseException, attempt: object) -> str:
    """One or two sentences for an exception that came out of a learner's code."""
    for kind, meaning in _MEANING.items():
        if issubclass(type(error), kind):
            return meaning
    said = value_or(lambda: shown_message(error), "")  # __str__ may be the learner's
    name = value_or(lambda: type(error).__name__, "Error")
    what = f"{name}: {said}" if said else name
    where = value_or(lambda: _line_of(error, attempt), None)
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
    function: Any = value_or(lambda: next(_functions_of(attempt), None), None)
    real = type(function) in (FunctionType, MethodType)
    return function.__globals__ if real else None


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
        yield _unwrapped(attempt)
        return
    home = attempt if inspect.isclass(attempt) else type(attempt)
    yield from (f for f in vars(home).values() if inspect.isfunction(f))


def _unwrapped(function: Callable[..., Any]) -> Any:
    try:
        return inspect.unwrap(function)
    except ValueError:  # it is wrapped in itself
        return function


def _code_of(function: Any) -> CodeType | None:
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


# --- a value that is not right ----------------------------------------------------


ASYNC = "Your function is `async`, so it has no value yet: write `def` alone."


def wrong_value(got: object) -> str:
    """What to say of a function that returned something else than was expected."""
    kind = type(got).__name__
    if got is None:
        return "Your function returned nothing here. Does every path end in `return`?"
    if kind in ("generator", "map", "filter", "zip"):
        return f"Your function returned a {kind}, not its values: wrap it in `list()`."
    return "For this call your function gives something else."


def whats_off(expected: object, got: object) -> str:
    """Where a value begins to be wrong, without saying what would be right there."""
    if wrong_kind := _wrong_kind(expected, got):
        return f"This {wrong_kind}."
    if isinstance(expected, Sequence) and isinstance(got, list | tuple):
        return _off_in_sequence(expected, got)
    if isinstance(expected, dict) and isinstance(got, dict):
        wrong = [k for k in expected if k not in got or not same(expected[k], got[k])]
        return (
            f"The entry for `{shown(wrong[0])}` is not right yet."
            if wrong
            else "It has an entry too many."
        )
    return "This is not it."


def _wrong_kind(expected: object, got: object) -> str | None:
    """What kind of value is wanted, if `got` is of another one."""
    if expected is None:
        return None  # the kind would be the answer
    want, have = a_kind_of(expected), a_kind_of(got)
    fits = want == have
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        want, fits = "a list", isinstance(got, list | tuple)
    advice = ": call it" if have == "a function" else ""
    return None if fits else f"wants {want}; yours is {have}{advice}"


def _off_in_sequence(expected: Sequence[object], got: Sequence[object]) -> str:
    for place, (want, have) in enumerate(zip(expected, got, strict=False)):
        if have is None or have is ...:
            return f"Entry {place} is still empty (counting from 0)."
        if not same(want, have):
            off = _wrong_kind(want, have) or "is not right yet"
            return f"Entry {place} {off} (counting from 0)."
    much = "few" if len(got) < len(expected) else "many"
    return f"What is there is right, but there are too {much} entries: {len(got)}."


def a_kind_of(value: object) -> str:
    """The type of a value in words that a beginner knows: "a text", "a number"."""
    if inspect.isroutine(value):
        return "a function"
    name = type(value).__name__
    if isinstance(value, Number) and name != "bool":
        return "a number"
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return _KINDS.get(name, f"{article} {name}")


_KINDS = {
    "str": "a text",
    "bool": "a truth value",
    "frozenset": "a set",
    "NoneType": "nothing",
}
