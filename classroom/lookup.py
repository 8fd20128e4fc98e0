"""Finding by name what the modules of a package define, one module a lesson."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import TypeVar

from classroom.same import shown

T = TypeVar("T")

NAME = 80
"""How much of an unknown name is compared and shown."""


def modules_of(package: str) -> Iterator[ModuleType]:
    """The modules of a package, imported, in the order of their names."""
    path = importlib.import_module(package).__path__
    for name in sorted(info.name for info in pkgutil.iter_modules(path)):
        yield importlib.import_module(f"{package}.{name}")


def by_name(what: str, named: Iterable[tuple[str, T]]) -> dict[str, T]:
    """All of them by name. Two of one name are refused: one would hide the other."""
    found: dict[str, T] = {}
    for name, item in named:
        if found.setdefault(name, item) is not item:
            raise ValueError(f"two {what}s are called {name!r}")
    return found


def pick(
    what: str, name: object, known: Mapping[str, T], unknown: type[LookupError]
) -> T:
    """The one of this name; raises `unknown` with a message that names the nearest."""
    text = name if isinstance(name, str) else shown(name)
    if text in known:
        return known[text]
    near = difflib.get_close_matches(text[:NAME], known, n=1)
    advice = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
    raise unknown(f"There is no {what} called {shown(name, NAME)}. {advice}")
