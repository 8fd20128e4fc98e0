"""`check`: try a learner's answer and say what is true of it. It never raises."""

from __future__ import annotations

import copy
import inspect
import time
from dataclasses import dataclass
from typing import Any

from classroom.exercise import Exercise, UnknownExercise, find
from classroom.limits import Outcome, run_limited, value_or
from classroom.lookup import NAME
from classroom.plain import (
    ASYNC,
    a_kind_of,
    crash_text,
    names_of,
    whats_off,
    wrong_value,
)
from classroom.results import CheckResult, CheckStatus
from classroom.same import same, shown
from classroom.session import progress
from classroom.shrink import Case, shrink

PATIENCE = 10.0
"""Seconds after which a check tries no further cases."""

_PRINTED = 400


def check(name: str | Exercise, attempt: object, *, seed: int = 0) -> CheckResult:
    """Judge `attempt`, a function or a value, against the exercise called `name`.

    There are three answers: not attempted, not yet (with the smallest failing input,
    what was expected and what came), and right (with the reason). Whatever the attempt
    does - crash, exit, loop for ever, print without end - comes back as "not yet".

    The random cases are the same on every run; another `seed` draws others.
    """
    try:
        task = find(name)
    except UnknownExercise as error:
        return CheckResult(shown(name, NAME), CheckStatus.NOT_ATTEMPTED, str(error))
    try:
        result = _judge(task, attempt, seed)
    except KeyboardInterrupt:
        result = _answer(task, CheckStatus.NOT_YET, "You stopped the check.")
    except Exception as error:  # our fault, and still no traceback for the learner
        result = _answer(task, CheckStatus.NOT_YET, _our_fault(error))
    progress.note_check(task.name, task.lesson, result.status)
    return result


def _judge(task: Exercise, attempt: object, seed: int) -> CheckResult:
    if _is_blank(attempt):
        return _not_attempted(task)
    if task.wants_function and not callable(attempt):
        return _answer(task, CheckStatus.NOT_YET, _wants_function(task, attempt))
    return _try_all(task, attempt, task.draw(seed))


def _try_all(task: Exercise, attempt: Any, cases: list[Case]) -> CheckResult:
    started = time.monotonic()
    for number, case in enumerate(cases):
        trial = _try(task, attempt, case)
        if trial.blank and number == 0:
            return _not_attempted(task, returned_none=trial.error is None)
        if not trial.ok:
            return _not_yet(task, _smallest(task, attempt, trial))
        if time.monotonic() - started > PATIENCE:
            return _answer(task, CheckStatus.NOT_YET, _SLOW.format(number + 1))
    return _right(task, len(cases))


# --- one case -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Trial:
    """One attempt at one case. `problem` is None if it is right, else a sentence."""

    case: Case
    problem: str | None
    expected: Any = None
    got: Any = None
    got_text: str | None = None
    printed: str = ""
    error: BaseException | None = None
    stopped: bool = False

    @property
    def ok(self) -> bool:
        return self.problem is None

    @property
    def blank(self) -> bool:
        """The place to fill in is still empty: a stub's error, or no value at all."""
        if self.error is not None:
            return issubclass(type(self.error), NotImplementedError)
        return self.problem is not None and not self.stopped and _is_blank(self.got)


def _try(task: Exercise, attempt: Any, case: Case) -> _Trial:
    expected = task.expected(case) if task.judge is None else None

    def once() -> tuple[Any, str | None, str]:
        got = _call(task, attempt, case)
        text = shown(got)  # before judging, which may use the value up
        return got, _problem(task, case, expected, got), text

    outcome = run_limited(once, steps=task.steps, names=names_of(attempt))
    printed = outcome.printed.strip()[:_PRINTED]
    if not outcome.ok:
        text = _failure(task, attempt, outcome)
        stopped, error = outcome.stopped is not None, outcome.error
        return _Trial(
            case, text, expected, printed=printed, error=error, stopped=stopped
        )
    got, problem, text = outcome.value
    return _Trial(case, problem, expected, got, text, printed)


def _call(task: Exercise, attempt: Any, case: Case) -> Any:
    own = copy.deepcopy(case)  # an attempt may change its arguments
    if task.run is not None:
        return task.run(attempt, *own)
    return attempt(*own) if task.wants_function else attempt


def _problem(task: Exercise, case: Case, expected: Any, got: Any) -> str | None:
    if inspect.iscoroutine(got):
        got.close()  # or Python warns, in the cell, that nobody awaited it
        return ASYNC
    if task.judge is not None:
        return task.judge(*copy.deepcopy(case), got)
    if same(expected, got):
        return None
    if task.wants_function:
        return wrong_value(got)
    return whats_off(expected, got)


def _failure(task: Exercise, attempt: object, outcome: Outcome) -> str:
    match outcome.stopped:
        case "steps":
            return (
                f"Your code was still running after {task.steps:,} steps. "
                "Is there a loop that never ends, or one that prints very much?"
            )
        case "time":
            return "Your code did not finish in time. Is there a loop that never ends?"
        case "interrupt":
            return "It was interrupted."
    assert outcome.error is not None
    return crash_text(outcome.error, attempt)


def _smallest(task: Exercise, attempt: Any, trial: _Trial) -> _Trial:
    """The same failure on the smallest case found; none where it costs too long."""
    if trial.stopped or not task.wants_function:
        return trial
    best = trial
    deadline = time.monotonic() + PATIENCE / 2

    def fails(case: Case) -> bool:
        nonlocal best
        if time.monotonic() > deadline or not task.makes_sense(case):
            return False
        found = _try(task, attempt, case)
        if found.ok or found.stopped:
            return False
        best = found
        return True

    shrink(trial.case, fails)
    return best


# --- the three answers ----------------------------------------------------------------

_SLOW = (
    "Right so far, but too slow: only {} cases were done in time. "
    "Is there a loop inside a loop that could go?"
)


def _answer(
    task: Exercise, status: CheckStatus, message: str, **more: Any
) -> CheckResult:
    return CheckResult(task.name, status, message, title=task.title, **more)


def _not_attempted(task: Exercise, returned_none: bool = False) -> CheckResult:
    if returned_none:
        text = "Your function returns nothing yet. Fill it in, and end it in `return`."
    else:
        text = "Fill in your part and run the cell again."
    advice = f'`hint("{task.name}")` helps you begin.'
    return _answer(task, CheckStatus.NOT_ATTEMPTED, f"{text} {advice}")


def _not_yet(task: Exercise, trial: _Trial) -> CheckResult:
    compared = task.wants_function and task.judge is None
    return _answer(
        task,
        CheckStatus.NOT_YET,
        trial.problem or "",
        case=task.call_text(trial.case) if task.wants_function else None,
        expected=shown(trial.expected) if compared else None,
        got=trial.got_text,
        printed=trial.printed,
        picture=_picture(task, trial),
    )


def _right(task: Exercise, cases: int) -> CheckResult:
    many = task.wants_function and cases > 1
    tried = f"It holds in all {cases} cases. " if many else ""
    return _answer(task, CheckStatus.RIGHT, tried + task.why)


def _picture(task: Exercise, trial: _Trial) -> str | None:
    draw = task.picture
    if draw is None or trial.error is not None or trial.stopped:
        return None
    return value_or(lambda: draw(*trial.case, trial.expected, trial.got), None)


def _is_blank(value: Any) -> bool:
    if type(value) in (list, tuple) and value:  # `isinstance` asks its `__class__`
        return all(entry is None or entry is ... for entry in value)
    return value is None or value is ... or value is NotImplemented


def _wants_function(task: Exercise, attempt: object) -> str:
    name = task.reference.__name__
    kind = value_or(lambda: a_kind_of(attempt), "an object")
    return (
        f"This check wants the function itself, not {kind}: "
        f'`check("{task.name}", {name})`, without brackets after `{name}`.'
    )


def _our_fault(error: Exception) -> str:
    return (
        f"The check itself stumbled ({type(error).__name__}: {error}). That is a fault "
        "of the course, not yours: please report it."
    )
