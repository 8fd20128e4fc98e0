"""Real request traces: where they lie, and how to read them.

A trace says how long the requests to a real service were, and which starts of prompts
they shared; it holds no text. Traces are other people's work, so they are not part of
this project. They lie in the folder that `$BLOCKMGR_DATA` names, or else in the user's
cache, where `make data` puts the four that can be downloaded. Lessons run without them
from the figures in `profile.py`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from blockmgr.catalogue import TRACES
from blockmgr.errors import BadTrace, BlockManagerError
from blockmgr.textfile import bad_line, numbered_lines

MOONCAKE_BLOCK_SIZE = 512
"""Tokens that one entry of `hash_ids` stands for in Mooncake's format."""

MOST_TOKENS = 10**9  # in one request; more is not a length but damage

Line = TypeVar("Line")
Row = TypeVar("Row")


class MissingTrace(BlockManagerError, LookupError):
    """A known trace is not on this machine. The message says how to get it."""


# --- finding --------------------------------------------------------------------------


def data_folder() -> Path:
    """Where traces are looked for: `$BLOCKMGR_DATA`, or else the user's cache."""
    named = os.environ.get("BLOCKMGR_DATA")
    if named:
        try:
            return Path(named).expanduser()
        except RuntimeError:  # `~somebody` whom this machine does not know
            return Path(named)
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "blockmgr"


def find_trace(name: str) -> Path:
    """The file of a known trace. Raises `MissingTrace`, which says how to get it."""
    trace = TRACES.get(name)
    if trace is None:
        raise MissingTrace(f"no trace is called {name!r}: choose {', '.join(TRACES)}")
    path = data_folder() / trace.file
    if path.is_file():
        return path
    if trace.address is None:
        todo = "it can't be downloaded in this form, but profiles have its figures"
    else:
        todo = "get it with `make data`, or name its folder in $BLOCKMGR_DATA"
    raise MissingTrace(f"{trace.file} is not in {data_folder()}: {todo}")


# --- what stands in them --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lengths:
    """One request: tokens in its prompt, and tokens that were generated for it."""

    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class MooncakeRequest:
    """One request of a Mooncake trace; `timestamp` in milliseconds.

    `hash_ids` name the prompt's blocks of 512 tokens. Equal ids mean equal content and
    equal content before it, just like our block hashes. The last may be partly filled.
    """

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AzureRequest:
    """One request of an Azure trace, `seconds` after the first one."""

    seconds: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation. The prompt holds the whole history before it."""

    conversation: int
    turn: int
    prompt_tokens: int
    output_tokens: int


# --- reading --------------------------------------------------------------------------


def read_mooncake(path: Path) -> list[MooncakeRequest]:
    """Every request of a Mooncake trace (JSON lines, plain or gzip), in file order.

    Raises `BadTrace` with the line for a file that is no such trace or that was cut.
    """
    return _read(path, numbered_lines(path), _mooncake)


def read_azure(path: Path) -> list[AzureRequest]:
    """Every request of an Azure 2023 trace. Raises `BadTrace` like `read_mooncake`."""
    columns = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
    rows = _read(path, _table(path, columns), _azure)
    start = rows[0][0]
    return [AzureRequest((at - start).total_seconds(), i, o) for at, i, o in rows]


def read_sharegpt(path: Path) -> list[Turn]:
    """Every turn of the ShareGPT conversations. Raises `BadTrace`."""
    columns = ["conv", "turn", "prompt_tokens", "output_tokens"]
    return _read(path, _table(path, columns), lambda row: Turn(*map(_count, row)))


def read_alpaca(path: Path) -> list[Lengths]:
    """The lengths of every Alpaca instruction. Raises `BadTrace`."""
    columns = ["prompt_tokens", "output_tokens"]
    return _read(path, _table(path, columns), lambda row: Lengths(*map(_count, row)))


def _mooncake(line: str) -> MooncakeRequest:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("a JSON object") from None
    if not isinstance(row, dict) or "hash_ids" not in row:
        raise ValueError("a request with timestamp, input_length, ..., hash_ids")
    at: Any = row.get("timestamp")
    tokens: Any = row.get("input_length")
    output: Any = row.get("output_length")
    ids: Any = row["hash_ids"]
    if type(at) not in (int, float) or not 0 <= at < float("inf"):
        raise ValueError("a timestamp of 0 or more")
    if type(tokens) is not int or not 1 <= tokens <= MOST_TOKENS:
        raise ValueError("an input_length of 1 or more tokens")
    if type(output) is not int or not 0 <= output <= MOST_TOKENS:
        raise ValueError("an output_length of 0 or more tokens")
    if not isinstance(ids, list) or any(type(i) is not int or i < 0 for i in ids):
        raise ValueError("hash_ids as a list of whole numbers")
    blocks = -(-tokens // MOONCAKE_BLOCK_SIZE)
    if len(ids) != blocks or len(set(ids)) != blocks:
        raise ValueError(f"{blocks} different hash_ids for {tokens} tokens")
    return MooncakeRequest(at, tokens, output, tuple(ids))


def _azure(row: list[str]) -> tuple[datetime, int, int]:
    try:
        at = datetime.fromisoformat(row[0])
    except ValueError:
        raise ValueError("a date and time") from None
    return at.replace(tzinfo=None), _count(row[1]), _count(row[2])


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= len(str(MOST_TOKENS)):
        return int(text)
    raise ValueError("a whole number of tokens")


# --- lines, and what can be wrong with them -------------------------------------------


def _read(
    path: Path, lines: Iterable[tuple[int, Line]], parse: Callable[[Line], Row]
) -> list[Row]:
    """Parse every line. `parse` raises a ValueError that says what it expected."""
    rows = []
    for number, line in lines:
        try:
            rows.append(parse(line))
        except ValueError as error:
            raise bad_line(path, number, str(error)) from None
    if not rows:
        raise BadTrace(f"{path.name} holds no requests: it is empty or was cut")
    return rows


def _table(path: Path, columns: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Numbered rows of a table whose first line names exactly these columns.

    None of the formats quotes anything, so a comma is always a border.
    """
    for number, line in numbered_lines(path):
        row = line.strip().split(",")
        if len(row) != len(columns) or (number == 1 and row != columns):
            raise bad_line(path, number, f"the columns {', '.join(columns)}")
        if number > 1:
            yield number, row
