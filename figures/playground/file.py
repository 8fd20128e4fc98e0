"""The log of a session as JSON: to a file, and back.

A file is not trusted. Whatever is wrong with it is said in plain words, and then
nothing has changed: a session is made of it only when every command could be done.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from blockmgr.errors import BlockManagerError
from figures.playground.commands import (
    FIELDS,
    MOST_STEPS,
    CantDo,
    Command,
    Pool,
    what_is_wrong,
)

KIND, VERSION = "blockmgr playground", 1

MOST_FILE = 500_000
"""Characters of a file; the longest session that can be saved has fewer."""

_KINDS = {"name": str, "text": str, "child": str, "length": int}


class BadLog(BlockManagerError, ValueError):
    """A file is not a log of the playground. The message says what is wrong with it."""


def to_text(pool: Pool, commands: Iterable[Command]) -> str:
    """A session as JSON, one command a line."""
    lines = ",\n  ".join(map(_line, commands))
    return (
        f'{{"kind": "{KIND}", "version": {VERSION},\n'
        f' "pool": {json.dumps(pool._asdict())},\n'
        f' "commands": [\n  {lines}\n]}}\n'
    )


def _line(command: Command) -> str:
    told = {key: v for key, v in command._asdict().items() if v is not None}
    return json.dumps(told, ensure_ascii=False)


def to_link(text: str) -> str:
    """A `data:` address that holds the text of a file."""
    data = b64encode(text.encode("utf-8")).decode("ascii")
    return f"data:application/json;base64,{data}"


# --- back ---------------------------------------------------------------------------


def from_text(text: str) -> tuple[Pool, list[Command]]:
    """Pool and commands of a file. Raises `BadLog`."""
    if len(text) > MOST_FILE:
        raise BadLog(
            f"the file is too long: a log has at most {MOST_FILE:,} characters"
        )
    log = _log(_parsed(text))
    commands = log["commands"]
    if not isinstance(commands, list) or len(commands) > MOST_STEPS:
        raise BadLog(f"the commands must be a list of at most {MOST_STEPS}")
    return _pool(log["pool"]), [_command(i, c) for i, c in enumerate(commands, 1)]


def _parsed(text: str) -> object:
    try:
        parsed: object = json.loads(text, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadLog(f"the file is not JSON, or was cut off ({where})") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadLog):
            raise
        raise BadLog("the file is JSON that no log would hold") from None
    return parsed


def _each_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object of which no key stands twice: else two readers read two files."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise BadLog("a key stands twice in one object")
    return made


def _log(parsed: object) -> Mapping[str, Any]:
    if not isinstance(parsed, dict) or parsed.get("kind") != KIND:
        raise BadLog("the file is JSON, but no log that the playground has saved")
    version = parsed.get("version")
    if type(version) is not int or version != VERSION:
        raise BadLog(f"the log has version {version!r:.20}, and this reads {VERSION}")
    _check_keys("the log", parsed, ("kind", "version", "pool", "commands"))
    return parsed


def _check_keys(what: str, found: Mapping[str, Any], wanted: Sequence[str]) -> None:
    if set(found) != set(wanted):
        raise BadLog(f"{what} must have {', '.join(wanted)}, and nothing else")


def _pool(found: object) -> Pool:
    if not isinstance(found, dict):
        raise BadLog("the pool must be an object")
    _check_keys("the pool", found, Pool._fields)
    try:
        return Pool(**found).checked()
    except CantDo as error:
        raise BadLog(str(error)) from None


def _command(number: int, found: object) -> Command:
    what = f"command {number}"
    op = found.get("op") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(op, str) or op not in FIELDS:
        raise BadLog(f"{what} is none that the playground knows")
    _check_keys(f"{what} ({op})", found, ("op", *FIELDS[op]))
    for field in FIELDS[op]:
        if type(found[field]) is not _KINDS[field]:
            raise BadLog(f"{what} ({op}): {field} is of another kind")
    texts = {key: clean(v) for key, v in found.items() if isinstance(v, str)}
    command = Command(**{**found, **texts})
    if why := what_is_wrong(command):
        raise BadLog(f"{what} ({op}): {why}")
    return command


def clean(text: str) -> str:
    """Text without halves of characters, which no page could be sent."""
    return text.encode("utf-8", "replace").decode("utf-8")
