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

AGENT_BLOCK_SIZE = 64
"""The same for the recorded agent sessions."""

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


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """One request of a coding agent, `seconds` after the start of its session.

    `hash_ids` name the **full** blocks of 64 tokens of the prompt. The trace names them
    within a session only, so two sessions share none here, whatever they had in common.
    """

    session: int
    seconds: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MathProblem:
    """One problem of GSM8K and its worked answer, as text."""

    question: str
    answer: str


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


def read_agents(path: Path) -> list[AgentRequest]:
    """Every request of the agent sessions, session after session. Raises `BadTrace`."""
    sessions = _read(path, numbered_lines(path), _agent_session)
    requests, start = [], 0
    for number, rows in enumerate(sessions):
        largest = 0
        for seconds, tokens, output, ids in rows:
            largest = max(largest, *ids, 0)
            names = tuple([start + i for i in ids])
            requests.append(AgentRequest(number, seconds, tokens, output, names))
        start += largest + 1
    return requests


def read_gsm8k(path: Path) -> list[MathProblem]:
    """Every problem of a GSM8K file. Raises `BadTrace`."""
    return _read(path, numbered_lines(path), _gsm8k)


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("a JSON object") from None


def _mooncake(line: str) -> MooncakeRequest:
    row = _json(line)
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


def _gsm8k(line: str) -> MathProblem:
    row = _json(line)
    question, answer = (
        (row.get("question"), row.get("answer")) if isinstance(row, dict) else ("", "")
    )
    if not (isinstance(question, str) and isinstance(answer, str)) or not question:
        raise ValueError("a question and an answer, both text")
    return MathProblem(question, answer)


_AgentRow = tuple[float, int, int, list[int]]


def _agent_session(line: str) -> list[_AgentRow]:
    """A session: the ids of a request are the first `keep` of the one before, and
    those in `new`."""
    row = _json(line)
    if not isinstance(row, dict) or row.get("block_size") != AGENT_BLOCK_SIZE:
        raise ValueError(f"a session with block_size {AGENT_BLOCK_SIZE}")
    rows: list[_AgentRow] = []
    requests: Any = row.get("requests")
    if not isinstance(requests, list) or not requests:
        raise ValueError("a session with requests")
    for request in requests:
        rows.append(_agent_request(request, rows[-1][3] if rows else []))
    return rows


def _agent_request(row: Any, before: list[int]) -> _AgentRow:
    try:
        at, tokens, output = row["t"], row["in"], row["out"]
        keep, new = row["keep"], row["new"]
    except (KeyError, TypeError):
        raise ValueError("requests with t, in, out, keep and new") from None
    counts = [tokens, output, keep]
    if type(at) not in (int, float) or not 0 <= at < float("inf"):
        raise ValueError("a time t of 0 or more in each request")
    if any(type(n) is not int or not 0 <= n <= MOST_TOKENS for n in counts):
        raise ValueError("whole numbers as in, out and keep")
    if not isinstance(new, list) or any(type(i) is not int or i < 0 for i in new):
        raise ValueError("new as a list of whole numbers")
    ids, full = before[:keep] + new, tokens // AGENT_BLOCK_SIZE
    if keep > len(before) or not tokens or len(ids) != full or len(set(ids)) != full:
        raise ValueError(f"{full} different ids, one for each full block")
    return float(at), tokens, output, ids


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
