"""What was done in this kernel: predictions, checks and hints, and their summary.

This is the one thing in the course that is remembered between cells. It lives as long
as the kernel does and is written to disk only when a learner calls `progress.save()`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from classroom import look
from classroom.results import CheckStatus

if TYPE_CHECKING:
    from classroom.prediction import Prediction

DEFAULT_FILE = Path.home() / ".blockmgr" / "progress.json"


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
    attempted.
    """

    predictions: int
    locked: int
    right: int
    lessons: dict[str, tuple[int, int, int]]

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

    def _repr_html_(self) -> str:
        head = ("Lesson", "✓ right", "✗ not yet", "○ not attempted")
        rows = [(name or "-", *counts) for name, counts in self.lessons.items()]
        return look.card(
            '<div class="kicker">Your progress in this session</div>',
            f"<p><b>Predictions:</b> {self.locked} of {self.predictions} locked, "
            f"{self.right} right.</p>",
            _table(head, rows) if rows else "<p>No exercise was checked yet.</p>",
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
        from classroom.exercise import all_exercises

        touched = {done.lesson for done in self.exercises.values()}
        wanted = sorted(touched) if lesson is None else [lesson]
        names = {name: item.lesson for name, item in all_exercises().items()}
        names |= {name: done.lesson for name, done in self.exercises.items()}
        return Summary(
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
        for shown in self.showing.values():
            shown.refresh()

    # --- on disk, only when asked -----------------------------------------------------

    def save(self, path: Path | str | None = None) -> str:
        """Write a small JSON file (default: `.blockmgr/progress.json` in your home).

        Returns one sentence that says where it is, or why it could not be written.
        """
        target = Path(path) if path is not None else DEFAULT_FILE
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(self._as_json(), indent=1), encoding="utf-8")
        except OSError as error:
            return f"Not saved: {error.strerror or error}. Try another path."
        return f"Saved to {target}."

    def load(self, path: Path | str | None = None) -> str:
        """Read what `save` wrote; nothing changes if the file cannot be read."""
        source = Path(path) if path is not None else DEFAULT_FILE
        try:
            state = _read_state(json.loads(source.read_text(encoding="utf-8")))
        except OSError as error:
            return f"Not loaded: {error.strerror or error} ({source})."
        except (ValueError, TypeError, KeyError, AttributeError):
            return f"Not loaded: {source} is not a progress file of this course."
        self.predictions.update(state.predictions)
        self.exercises.update(state.exercises)
        self.hints.update(state.hints)
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


def _read_state(data: Any) -> Progress:
    if data["format"] != "blockmgr-progress/1":
        raise ValueError(data["format"])
    return Progress(
        predictions={
            str(name): Locked(guess, right)
            for name, (guess, right) in data["predictions"].items()
        },
        exercises={
            str(name): Checked(str(lesson), CheckStatus(status))
            for name, (lesson, status) in data["exercises"].items()
        },
        hints={str(name): int(count) for name, count in data["hints"].items()},
    )


progress = Progress()
"""The session of this kernel."""
