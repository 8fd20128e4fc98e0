"""What was done in this kernel: predictions, checks and hints, and their summary.

This is the one thing in the course that is remembered between cells. It lives as long
as the kernel does and is written to disk only when a learner calls `progress.save()`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import TYPE_CHECKING, Any

from classroom import look
from classroom.exercise import all_exercises
from classroom.results import CheckStatus
from classroom.same import shown

if TYPE_CHECKING:
    from classroom.prediction import Prediction

DEFAULT_FILE = "~/.blockmgr/progress.json"
_KEPT = "Kept until the kernel restarts; `progress.save()` keeps it longer."


@dataclass(slots=True)
class Locked:
    """One prediction of this session. `guess` is the learner's text, None until locked;
    `right` is None until the manager has answered."""

    guess: str | None = None
    right: bool | None = None


@dataclass(slots=True)
class Checked:
    """The best answer that an exercise has had so far."""

    lesson: str
    status: CheckStatus


@dataclass(frozen=True, slots=True)
class Summary:
    """Predictions and exercises, counted: what `progress()` shows.

    `lessons` holds, per lesson, how many exercises are right, not yet right, and not
    attempted. `note` is the sentence below them.
    """

    predictions: int
    locked: int
    right: int
    lessons: dict[str, tuple[int, int, int]]
    note: str = _KEPT

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        yield (
            f"predictions: {self.predictions} seen, {self.locked} locked, "
            f"{self.right} right"
        )
        for lesson, (right, not_yet, untouched) in self.lessons.items():
            yield (
                f"lesson {lesson or '-'}: {right} right, {not_yet} not yet, "
                f"{untouched} not attempted"
            )
        yield self.note

    def _repr_html_(self) -> str:
        head = ("Lesson", "✓ right", "✗ not yet", "○ not attempted")
        rows = [(name or "-", *counts) for name, counts in self.lessons.items()]
        return look.card(
            '<div class="kicker">Your progress in this session</div>',
            f"<p><b>Predictions:</b> {self.locked} of {self.predictions} locked, "
            f"{self.right} right.</p>",
            _table(head, rows) if rows else "<p>No exercise was checked yet.</p>",
            look.prose(self.note),
        )


def _table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    top = "".join(f'<th scope="col">{look.escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{look.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"


@dataclass(slots=True)
class Progress:
    """The memory of a session. Call it for a summary: `progress()`."""

    predictions: dict[str, Locked] = field(default_factory=dict)
    exercises: dict[str, Checked] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    showing: dict[str, Prediction] = field(default_factory=dict, repr=False)

    def __call__(self, lesson: str | None = None) -> Summary:
        """Count what was done in every lesson touched so far, or in one ("03")."""
        touched = {done.lesson for done in self.exercises.values()}
        names = {name: item.lesson for name, item in all_exercises().items()}
        names |= {name: done.lesson for name, done in self.exercises.items()}
        known = sorted(set(names.values()))
        wanted, note = sorted(touched), _KEPT
        if isinstance(lesson, str) and lesson in known:
            wanted = [lesson]
        elif lesson is not None:
            there = ", ".join(map(repr, known))
            note = f"There is no lesson {shown(lesson, 60)}; there are {there}."
        return Summary(
            note=note,
            predictions=len(self.predictions),
            locked=sum(p.guess is not None for p in self.predictions.values()),
            right=sum(p.right is True for p in self.predictions.values()),
            lessons={one: self._count(one, names) for one in wanted},
        )

    def _count(self, lesson: str, names: dict[str, str]) -> tuple[int, int, int]:
        mine = [name for name, home in names.items() if home == lesson]
        states = [self.exercises[n].status for n in mine if n in self.exercises]
        right = states.count(CheckStatus.RIGHT)
        not_yet = states.count(CheckStatus.NOT_YET)
        return right, not_yet, len(mine) - right - not_yet

    def note_check(self, name: str, lesson: str, status: CheckStatus) -> None:
        """Remember a check's answer; what was right once stays right."""
        before = self.exercises.get(name)
        if before is None or before.status is not CheckStatus.RIGHT:
            self.exercises[name] = Checked(lesson, status)

    def reset(self) -> None:
        """Start over: every prediction is open again, every hint unread."""
        for memory in (self.predictions, self.exercises, self.hints):
            memory.clear()
        self._redraw()

    def _redraw(self) -> None:
        for prediction in self.showing.values():
            prediction.refresh()

    # --- on disk, only when asked -----------------------------------------------------

    def save(self, path: Path | str | None = None) -> str:
        """Write a small JSON file (default: `.blockmgr/progress.json` in your home).

        Returns one sentence that says where it is, or why it could not be written: then
        a file that was there before is as it was.
        """
        try:
            target = Path(DEFAULT_FILE if path is None else path).expanduser()
            _write(target, json.dumps(self._as_json(), indent=1))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or error
            return f"Not saved: {why}. Try another path."
        return f"Saved to {target}."

    def load(self, path: Path | str | None = None) -> str:
        """Read what `save` wrote; nothing changes if the file cannot be read."""
        named = DEFAULT_FILE if path is None else path
        where = shown(str(named))
        try:
            source = Path(named).expanduser()
            state = _read_state(json.loads(_read(source)))
        except OSError as error:
            return f"Not loaded: {error.strerror or error} ({where})."
        except (ValueError, TypeError, KeyError, AttributeError, RuntimeError):
            return f"Not loaded: {where} is not a progress file of this course."
        self.predictions.update(state.predictions)
        self.exercises.update(state.exercises)
        self.hints.update(state.hints)
        self._redraw()
        return f"Loaded from {source}."

    def _as_json(self) -> dict[str, Any]:
        return {
            "format": "blockmgr-progress/1",
            "predictions": {
                name: [p.guess, p.right] for name, p in self.predictions.items()
            },
            "exercises": {
                name: [done.lesson, done.status.value]
                for name, done in self.exercises.items()
            },
            "hints": self.hints,
        }


def _write(target: Path, text: str) -> None:
    """Write beside the target and put it in place at once, whole or not at all."""
    target = target.resolve()  # a link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    _refuse_devices(target)
    with TemporaryDirectory(dir=target.parent) as beside:
        fresh = Path(beside, "progress.json")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(target)


def _read(source: Path) -> str:
    _refuse_devices(source)
    return source.read_text(encoding="utf-8")


def _refuse_devices(path: Path) -> None:
    """/dev/zero never ends, and /dev/null must not be replaced."""
    if path.exists() and not path.is_file():
        raise ValueError("there is something there that is no ordinary file")


def _read_state(data: Any) -> Progress:
    if data["format"] != "blockmgr-progress/1":
        raise ValueError(data["format"])
    return Progress(
        predictions={
            name: Locked(_typed(str | None, guess), _typed(bool | None, right))
            for name, (guess, right) in data["predictions"].items()
        },
        exercises={
            name: Checked(_typed(str, lesson), CheckStatus(status))
            for name, (lesson, status) in data["exercises"].items()
        },
        hints={name: range(3).index(count) for name, count in data["hints"].items()},
    )


def _typed(kind: type | UnionType, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(value)
    return value


progress = Progress()
"""The session of this kernel."""
