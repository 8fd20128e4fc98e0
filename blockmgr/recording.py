"""Recorded runs of vLLM: reading them, and saying where ours differs.

A recording is one header line with the configuration, then one line a step: the
operation, vLLM's answer, and vLLM's whole state afterwards. What the three kinds of
recordings have in common is here; how each is replayed is in `replay_v1.py`,
`replay_v0.py` and `replay_sched.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from blockmgr.errors import BadTrace, BlockManagerError, InvalidRequest
from blockmgr.textfile import bad_line, numbered_lines

Step = dict[str, Any]
T = TypeVar("T")  # what is operated on: a manager, or a scheduler

V1, V0, SCHED = FORMATS = ("kvtrace-v1/1", "kvtrace-v0/1", "kvtrace-sched/1")
"""What the first line of a recording calls its kind."""


class Difference(NamedTuple):
    """The first thing that differs: where, what vLLM had, what we have."""

    step: int
    field: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return (
            f"step {self.step}, {self.field}: expected {self.expected!r}, "
            f"got {self.got!r}"
        )


def read_trace(path: str | Path) -> tuple[Step, list[Step]]:
    """The header and the steps of a recording, gzipped or plain.

    Raises `BadTrace` for a file that can't be read, is no recording, or was cut.
    """
    path, records, line = Path(path), [], ""
    for number, line in numbered_lines(path):
        records.append(_record(path, number, line))
    if not records or records[0].get("format") not in FORMATS:
        found = records[0].get("format") if records else "an empty file"
        raise BadTrace(
            f"{path} is not a recording this command knows: expected a first line with "
            f'a "format" of {", ".join(FORMATS)}, got {found!r}'
        )
    if not line.endswith("\n"):
        raise BadTrace(f"{path} was cut in line {len(records)}: get the file again")
    if len(records) == 1:
        raise BadTrace(f"{path} has a first line and no steps: nothing to compare")
    return records[0], records[1:]


def _record(path: Path, number: int, line: str) -> Step:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise bad_line(path, number, "a JSON object")
    return record


def first_difference(number: int, step: Step, got: Step) -> Difference | None:
    """The first field of ours that the recording has otherwise.

    Raises `BadTrace` if the recording lacks it.
    """
    for field, value in got.items():
        if field not in step:
            raise BadTrace(f"step {number} lacks the field {field!r}")
        if step[field] != value:
            return Difference(number, field, step[field], value)
    return None


def carry_out(
    operations: Mapping[str, Callable[[T, Step], Any]], ours: T, number: int, step: Step
) -> Any:
    """One recorded operation on our side: the answer in the recording's words.

    What vLLM did and ours refuses becomes an answer too, and so a difference.
    Raises `BadTrace` for a step that lacks a field or asks for something unknown.
    """
    operation = operations.get(str(step.get("op")))
    if operation is None:
        several = f"are {', '.join(operations)}"
        known = several if len(operations) > 1 else f"is {next(iter(operations))!r}"
        raise BadTrace(f"step {number} asks for {step.get('op')!r}: known {known}")
    try:
        return operation(ours, step)
    except BlockManagerError as error:
        return f"{type(error).__name__}: {error}"
    except KeyError as error:
        raise BadTrace(f"step {number} lacks the field {error}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise BadTrace(f"step {number} has a field of another kind: {error}") from None


@contextmanager
def first_line() -> Iterator[None]:
    """Around whatever is made from a recording's first line. Raises `BadTrace` that
    says what is missing there or makes no sense."""
    try:
        yield
    except KeyError as error:
        raise BadTrace(f"the recording's first line lacks {error}") from None
    except (TypeError, InvalidRequest) as error:
        raise BadTrace(f"the recording's first line makes no sense: {error}") from None
