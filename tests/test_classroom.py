"""The classroom: predictions, checks, hints, progress - and learners who try hard."""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blockmgr import BlockManager
from classroom import (
    CheckStatus,
    Exercise,
    Prediction,
    check,
    hint,
    look,
    predict,
    progress,
)
from classroom.exercise import UnknownExercise, all_exercises, find
from classroom.kinds import BadAnswer, Number, kind_named, tidy
from classroom.limits import Stopped, run_limited
from classroom.prediction_view import PredictionView
from classroom.same import same, shown
from classroom.session import Progress
from classroom.shrink import shrink

NASTY = "<script>alert('x')</script><img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def fresh_session() -> Iterator[None]:
    """Each test is a new kernel's session, and leaves one behind."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for prediction in progress.showing.values():
        prediction.close()
    progress.showing.clear()
    progress.reset()


# --- limits ---------------------------------------------------------------------------


def loop_with_a_body() -> None:
    n = 0
    while True:
        n += 1


def loop_without_a_body() -> None:
    while True:
        pass


def loop_that_swallows_everything() -> None:
    while True:
        try:  # noqa: SIM105
            sum(range(10))
        except:  # noqa: E722 - that is the point
            pass


def loop_in_c() -> int:
    return sum(itertools.count())


def loop_in_c_under_another_name() -> list[int]:
    return list(count())


def loop_in_a_finally() -> None:
    try:
        loop_with_a_body()
    finally:
        loop_with_a_body()


def sleeper() -> None:
    time.sleep(3600)


ENDLESS: list[Callable[[], object]] = [
    loop_with_a_body,
    loop_without_a_body,
    loop_that_swallows_everything,
    loop_in_c,
    loop_in_c_under_another_name,
    loop_in_a_finally,
    sleeper,
]


@pytest.mark.parametrize("code", ENDLESS)
def test_whatever_never_ends_is_stopped(code: Callable[[], object]) -> None:
    outcome = run_limited(code, seconds=0.3, names=globals())
    assert outcome.stopped in {"steps", "time"}
    assert not outcome.ok


def test_the_step_budget_gives_the_same_answer_every_time() -> None:
    def hundred() -> int:
        total = 0
        for n in range(100):
            total += n
        return total

    assert run_limited(hundred, steps=300).value == 4950
    assert run_limited(hundred, steps=100).stopped == "steps"


ORIGINALS = (itertools.count, itertools.repeat, time.sleep, input)


def test_afterwards_everything_is_as_before() -> None:
    before = (sys.stdout, sys.stderr, sys.gettrace(), sys.getswitchinterval())
    for code in (*ENDLESS[:2], lambda: 1 / 0, lambda: sys.exit(3)):
        run_limited(code, seconds=0.1, names=globals())
    assert (itertools.count, itertools.repeat, time.sleep, input) == ORIGINALS
    assert count is ORIGINALS[0]
    after = (sys.stdout, sys.stderr, sys.gettrace(), sys.getswitchinterval())
    assert before == after


def test_no_late_shot_hits_the_code_that_comes_next() -> None:
    """The clock fires just when the code ends: the hardest moment."""
    for wait in range(40):
        end = time.monotonic() + 0.02 + wait * 1e-5

        def until(end: float = end) -> None:
            while time.monotonic() < end:
                pass

        run_limited(until, seconds=0.02, steps=10**9)
        for _ in range(2000):  # would raise `Stopped` here
            len("")


def test_the_clock_waits_until_the_code_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that takes longer to start than the code may run, as under heavy load,
    does not shoot at `run_limited` itself."""
    start = threading.Thread.start

    def slow(thread: threading.Thread) -> None:
        start(thread)
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass

    monkeypatch.setattr(threading.Thread, "start", slow)
    assert run_limited(lambda: 7, seconds=0.02).value == 7


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (lambda: sys.exit(1), SystemExit),
        (lambda: 1 / 0, ZeroDivisionError),
        (lambda: [0] * 10**15, MemoryError),
        (lambda: input("name?"), EOFError),
        (lambda: (_ for _ in ()).throw(GeneratorExit), GeneratorExit),
    ],
)
def test_whatever_is_raised_comes_back_as_data(
    code: Callable[[], object], kind: type[BaseException]
) -> None:
    assert isinstance(run_limited(code).error, kind)


def test_the_stop_button_is_heard() -> None:
    def pressed() -> None:
        raise KeyboardInterrupt

    assert run_limited(pressed).stopped == "interrupt"


def test_printing_is_caught_and_cut(capsys: pytest.CaptureFixture[str]) -> None:
    def chatty() -> None:
        print("first")
        for _ in range(1000):
            print("x" * 1000, file=sys.stderr)

    printed = run_limited(chatty).printed
    assert printed.startswith("first\nxxx")
    assert len(printed) == 2000
    assert capsys.readouterr() == ("", "")


def test_stopped_is_not_an_exception_that_a_learner_catches() -> None:
    assert not issubclass(Stopped, Exception)


# --- same and shown -------------------------------------------------------------------


class Liar:
    """Claims to be equal to everything and prints a million characters."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "y" * 1_000_000


@pytest.mark.parametrize(
    ("expected", "got"),
    [(3, 3), ([1, 2], (1, 2)), (0.1 + 0.2, 0.3), (3, 3.0), ({"a": [1]}, {"a": (1,)})],
)
def test_right_in_another_dress_is_right(expected: object, got: object) -> None:
    assert same(expected, got)


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (1, True),
        (True, 1),
        (3, "3"),
        ("3", 3),
        (3, Liar()),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ([1], "1"),
        ({1, 2}, [1, 2]),
        ("a", Liar()),
        (None, 0),
        ([Liar()], [3]),
        ({"a": 1}, {"a": 1, "b": 2}),
        (1.0, 1.1),
        (8, 10**400),
        (0.5, 10**400),
        ([31, 8, 2], [31, 8, 10**400]),
    ],
    ids=range(17),
)
def test_wrong_is_wrong(expected: object, got: object) -> None:
    assert not same(expected, got)


def test_shown_is_short_and_has_no_address() -> None:
    assert shown(object()) == "<object object>"
    assert len(shown(Liar())) <= 240
    assert len(shown("z" * 100_000)) <= 240
    assert shown([3, 1]) == "[3, 1]"
    assert shown([3, 10**5000]) == "[3, a very large number]"


# --- check ----------------------------------------------------------------------------


def _numbers(rng: random.Random) -> tuple[list[int]]:
    return ([rng.randrange(-50, 50) for _ in range(rng.randrange(12))],)


def task(name: str, **changes: Any) -> Exercise:
    """An exercise of which a test says only what it is about."""
    plain: dict[str, Any] = {
        "title": "A task",
        "difficulty": 1,
        "minutes": 1,
        "hints": ("One.", "Two."),
        "why": "It is so.",
    }
    return Exercise(name, **plain | changes)


@task(
    "t-largest",
    hints=("Look at each.", "`max` knows."),
    why="Because `max` says so.",
    cases=_numbers,
    examples=[([3, 1, 2],)],
    valid=lambda numbers: len(numbers) > 0,
    picture=lambda numbers, expected, got: f"<svg><title>{len(numbers)}</title></svg>",
)
def largest(numbers: list[int]) -> int:
    """The reference."""
    return max(numbers, default=0)


@task("t-table")
def table() -> list[int]:
    """The reference."""
    manager = BlockManager(num_blocks=8, block_size=4)
    manager.allocate("a", [1, 2, 3, 4, 5])
    return list(manager.block_table("a"))


def test_the_three_answers_for_a_function() -> None:
    def stub(numbers: list[int]) -> int:
        raise NotImplementedError

    assert check(largest, stub).status is CheckStatus.NOT_ATTEMPTED
    assert check(largest, lambda numbers: None).status is CheckStatus.NOT_ATTEMPTED
    assert check(largest, None).status is CheckStatus.NOT_ATTEMPTED
    assert check(largest, lambda numbers: 7).status is CheckStatus.NOT_YET
    right = check(largest, lambda numbers: max(numbers, default=0))
    assert right.status is CheckStatus.RIGHT
    assert bool(right)
    assert "Because `max` says so." in right.message
    assert "61 cases" in right.message


def test_the_three_answers_for_a_value() -> None:
    assert check(table, None).status is CheckStatus.NOT_ATTEMPTED
    assert check(table, ...).status is CheckStatus.NOT_ATTEMPTED
    assert check(table, [None, None]).status is CheckStatus.NOT_ATTEMPTED
    assert check(table, [2, 1]).status is CheckStatus.NOT_YET
    assert check(table, (1, 2)).status is CheckStatus.RIGHT


@pytest.mark.parametrize(
    "attempt", [[1, 5], [9, 2], [1], [1, 2, 3], "1, 2", 1, [1, None]]
)
def test_a_wrong_value_is_not_told_the_right_one(attempt: object) -> None:
    result = check(table, attempt)
    assert result.status is CheckStatus.NOT_YET
    assert result.expected is None
    assert "[1, 2]" not in repr(result).replace(repr(attempt), "")


def test_a_wrong_value_is_told_where() -> None:
    assert "Entry 1" in check(table, [1, 5]).message
    assert "too few" in check(table, [1]).message
    assert "too many" in check(table, [1, 2, 3]).message
    assert "wants a list; yours is a text" in check(table, "1, 2").message


ANOTHER_KIND: list[tuple[object, object, str]] = [
    (12, [12], "This wants a number; yours is a list."),
    (12, "12", "This wants a number; yours is a text."),
    (1, True, "This wants a number; yours is a truth value."),
    (12, lambda: 12, "This wants a number; yours is a function: call it."),
    ("a", 3, "This wants a text; yours is a number."),
    ({"a": 1}, [1], "This wants a dict; yours is a list."),
    ([1, 2], {1, 2}, "This wants a list; yours is a set."),
    ([1, 2], ["1", "2"], "Entry 0 wants a number; yours is a text (counting from 0)."),
    ([(1, 2)], [3], "Entry 0 wants a list; yours is a number (counting from 0)."),
]


@pytest.mark.parametrize(("expected", "got", "says"), ANOTHER_KIND)
def test_a_value_of_another_kind_is_told_which(
    expected: object, got: object, says: str
) -> None:
    assert check(task("t-kind")(lambda: expected), got).message == says


@pytest.mark.parametrize(
    ("expected", "got"),
    [(12, 13), (0.5, 1), ([1], (2,)), ((1,), [2]), ({1}, frozenset({2})), (None, 3)],
)
def test_a_wrong_value_of_the_right_kind_is_only_wrong(
    expected: object, got: object
) -> None:
    assert "wants" not in check(task("t-kind")(lambda: expected), got).message


def test_not_yet_shows_a_small_case_with_what_was_expected_and_what_came() -> None:
    result = check(largest, lambda numbers: max(numbers[:3], default=0))
    assert result.case is not None
    numbers = json.loads(result.case.removeprefix("largest(numbers=")[:-1])
    assert len(numbers) == 4, "one more than the three that the attempt looks at"
    assert result.expected == str(max(numbers))
    assert result.got == str(max(numbers[:3]))
    assert result.picture == "<svg><title>4</title></svg>"


def test_the_shrinker_stays_with_cases_that_make_sense() -> None:
    result = check(largest, lambda numbers: 1000)
    assert result.case == "largest(numbers=[0])", "the empty list is not valid"


def test_other_seeds_draw_other_cases_and_the_same_seed_the_same() -> None:
    assert largest.draw(0) == largest.draw(0)
    assert largest.draw(0) != largest.draw(1)
    seen: list[Any] = []
    check(
        largest, lambda numbers: seen.append(numbers) or max(numbers, default=0), seed=3
    )
    assert [(numbers,) for numbers in seen] == largest.draw(3)


def test_an_attempt_that_changes_its_argument_does_not_change_the_case() -> None:
    def greedy(numbers: list[int]) -> int:
        best = max(numbers, default=0)
        numbers.clear()
        return best

    assert check(largest, greedy).status is CheckStatus.RIGHT


def _exits(numbers: list[int]) -> int:
    sys.exit("bye")


def _recurses(numbers: list[int]) -> int:
    return _recurses(numbers)


def _never_ends(numbers: list[int]) -> int:
    while True:
        numbers = [*numbers]


def _crashes(numbers: list[int]) -> int:
    return numbers[99]


def _lies(numbers: list[int]) -> Any:
    return Liar()


class RudeError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even its text works")


def _rude(numbers: list[int]) -> int:
    raise RudeError


def _too_many(numbers: list[int], more: int) -> int:
    return 0


def _yields(numbers: list[int]) -> Iterator[int]:
    yield max(numbers)


def _stubbed_later(numbers: list[int]) -> int:
    if len(numbers) == 3:
        return 3
    raise NotImplementedError


@pytest.mark.parametrize(
    ("attempt", "says"),
    [
        (_exits, "calls `exit`"),
        (_recurses, "calls itself without end"),
        (_never_ends, "still running after 200,000 steps"),
        (_crashes, "`return numbers[99]`. IndexError: list index out of range"),
        (_lies, "gives something else"),
        (_rude, "RudeError"),
        (_too_many, "could not be called like this"),
        (_yields, "returned a generator"),
        (_stubbed_later, "NotImplementedError"),
        (7, "wants the function itself, not a number"),
    ],
)
def test_misbehaving_attempts_are_not_yet_in_plain_words(
    attempt: object, says: str
) -> None:
    result = check(largest, attempt)
    assert result.status is CheckStatus.NOT_YET
    assert says in result.message
    assert "Traceback" not in repr(result)
    assert not re.search(r"0x[0-9a-f]{4}", repr(result))
    assert repr(result) == repr(check(largest, attempt)), "the same every time"


HUGE = 10**5000  # more digits than Python is willing to write


def test_a_huge_number_is_only_wrong() -> None:
    for number in (10**400, HUGE):
        wrong = check(largest, lambda numbers, n=number: n)
        assert wrong.message == "For this call your function gives something else."
        assert "Entry 1 is not right yet" in check(table, [1, number]).message
    assert "very large number" in repr(check("00-smallest-pool", HUGE))


def test_an_async_attempt_is_told_so_and_leaves_no_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    async def later(numbers: list[int]) -> int:
        return max(numbers)

    judged = task("t-async", cases=_numbers, judge=lambda numbers, got: "Judged.")
    for exercise in (largest, judged(largest.reference)):
        result = check(exercise, later)
        assert "is `async`" in result.message
        assert result.printed == ""
    gc.collect()
    assert list(recwarn) == []


def _bombs() -> list[Any]:
    """Attempts that leave the kernel as soon as anybody looks at their type. They are
    made in here, because pytest looks at everything in a module."""

    def leave(*looked: object) -> Any:
        sys.exit("looked at")

    exits = type("Exits", (type,), {"__getattribute__": leave})
    bomb = exits("Bomb", (), {"__class__": property(leave)})
    error = type("BombError", (Exception,), {"__class__": property(leave)})

    def returns(numbers: list[int]) -> Any:
        return bomb()

    def raises(numbers: list[int]) -> int:
        raise error

    kinds = {"__class__": property(leave), "__call__": lambda self, numbers: 7}
    return [bomb, bomb(), exits("Callable", (), kinds)(), returns, raises]


@pytest.mark.parametrize("number", range(5))
def test_nobody_leaves_by_way_of_a_type(number: int) -> None:
    for exercise in (largest, table):
        try:
            result = repr(check(exercise, _bombs()[number]))
        except SystemExit:
            result = "it left"  # and pytest would look, and leave as well
        assert "not yet" in result
        assert "fault of the course" not in result


def test_a_method_finds_the_stand_ins_as_well() -> None:
    class Solver:
        def solve(self, numbers: list[int]) -> int:
            return sum(count())

    assert "still running" in check(largest, Solver().solve).message


def test_a_function_wrapped_in_itself_is_judged_like_any_other() -> None:
    def wrapped(numbers: list[int]) -> int:
        return numbers[99]

    wrapped.__wrapped__ = wrapped  # type: ignore[attr-defined]
    assert "`return numbers[99]`" in check(largest, wrapped).message


def test_a_crash_names_the_learners_own_line() -> None:
    line = _crashes.__code__.co_firstlineno + 1
    assert f"line {line}," in check(largest, _crashes).message


def test_prints_of_the_failing_case_are_shown() -> None:
    def chatty(numbers: list[int]) -> int:
        print("looking at", len(numbers))
        return 1000

    assert check(largest, chatty).printed == "looking at 1"


def test_a_judge_decides_in_place_of_the_reference() -> None:
    def judged(got: object) -> str | None:
        return None if isinstance(got, int) and got > 10 else f"{got} is not over 10."

    over_ten = task("t-judged", judge=judged)(lambda: 11)
    assert check(over_ten, 12).status is CheckStatus.RIGHT
    assert check(over_ten, 3).message == "3 is not over 10."


def test_a_fault_of_the_course_is_not_blamed_on_the_learner() -> None:
    def broken(numbers: list[int]) -> int:
        raise OSError("no such file")

    result = check(task("t-broken", cases=_numbers)(broken), max)
    assert not result
    assert "not yours" in result.message


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    name = next(iter(all_exercises()))
    result = check(name[:-1], 3)
    assert result.status is CheckStatus.NOT_ATTEMPTED
    assert f"Did you mean {name!r}?" in result.message
    with pytest.raises(UnknownExercise, match="There is no exercise called"):
        find("nothing at all like it")


def test_two_hints_are_required() -> None:
    with pytest.raises(ValueError, match="needs two hints"):
        task("x", hints=("only one", " "))


def test_two_exercises_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lessons = [SimpleNamespace(one=task("a")), SimpleNamespace(two=task("a"))]
    monkeypatch.setattr("classroom.exercise.modules_of", lambda package: lessons)
    with pytest.raises(ValueError, match="two exercises are called 'a'"):
        all_exercises()


def test_an_exercise_needs_its_reference() -> None:
    result = check(task("t-bare"), 3)
    assert "decorates its reference" in result.message


def test_a_name_of_another_kind_is_a_message_without_an_address() -> None:
    result = check(largest.reference, "t-largest")  # type: ignore[arg-type]
    assert "no exercise called <function largest" in result.message
    assert "0x" not in result.message
    assert "no exercise called [3]" in hint([3]).text  # type: ignore[arg-type]


def test_a_name_without_end_is_shortened() -> None:
    name = "03-" + "x" * 100_000
    for card in (check(name, 1), hint(name)):
        assert len(repr(card)) < 1000
        assert "There is no exercise called '03-xxx" in repr(card)


# --- the exercises of the lessons -----------------------------------------------------

REGISTERED = list(all_exercises().values())
FUNCTIONS = [task for task in REGISTERED if task.wants_function]


@pytest.mark.parametrize("task", REGISTERED, ids=lambda task: task.name)
def test_the_reference_solves_its_exercise(task: Exercise) -> None:
    solution = task.reference if task.wants_function else task.reference()
    for seed in (0, 1):
        assert check(task, solution, seed=seed).status is CheckStatus.RIGHT
    assert task.lesson, "an exercise belongs to a module lessonNN"


@pytest.mark.parametrize("task", REGISTERED, ids=lambda task: task.name)
def test_junk_does_not_solve_an_exercise(task: Exercise) -> None:
    junk = (lambda *case: Liar()) if task.wants_function else Liar()
    assert check(task, junk).status is CheckStatus.NOT_YET
    assert check(task, None).status is CheckStatus.NOT_ATTEMPTED


@pytest.mark.parametrize("task", FUNCTIONS, ids=lambda task: task.name)
def test_every_case_of_an_exercise_makes_sense(task: Exercise) -> None:
    assert all(task.makes_sense(case) for case in task.draw(5))


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (([7, 7, 5], 4, 1), "no block twice"),
        (([7, 0, 5], 4, 1), "from 1 on"),
        (([7, -2, 5], 4, 1), "from 1 on"),
        (([7, 2, 5], 4, 12), "no answer there"),
        (([7, 2, 5], 4, -1), "no answer there"),
        (([7, 2, 5], 4, HUGE), "no answer there"),
        (([7, 2], 1, 1), "leaves the table: slot 8 is outside"),
        (([7, 2, 5], 4, 0), "no harm: both formulas give slot 28"),
        (([HUGE], 1, 0), "no harm: both formulas give slot a very large number"),
        (([7], 4, 1), "the bug is loud"),
        (([7, 2, 5], 4, 1), "Your case reads"),
    ],
    ids=range(11),
)
def test_a_silent_bug_is_a_case_that_can_be(case: object, says: str) -> None:
    assert says in check("03-silent-bug", case).message


@pytest.mark.parametrize("answer", [[], [("x", 99)]])
def test_the_smallest_case_of_the_way_back_has_a_table(answer: object) -> None:
    case = check("03-way-back", lambda *case: answer).case
    assert case is not None
    assert re.search(r"\[\d", case), case


def test_there_are_exercises() -> None:
    assert len(REGISTERED) >= 3


# --- shrinking ------------------------------------------------------------------------


def test_shrink_finds_the_smallest_neighbour() -> None:
    case = ([9, 40, 3, 77], 12)
    assert shrink(case, lambda c: sum(c[0]) > 50) == ([51], 0)
    assert shrink(case, lambda c: False) == case


def test_shrink_gives_up_after_its_tries() -> None:
    calls: list[object] = []
    shrink((list(range(500)),), lambda c: bool(calls.append(c)), tries=10)
    assert len(calls) == 10


# --- hint -----------------------------------------------------------------------------


def test_hints_come_one_at_a_time() -> None:
    first, second, third, fourth = (hint(largest) for _ in range(4))
    assert (first.number, first.text) == (1, "Look at each.")
    assert (second.number, second.text) == (2, "`max` knows.")
    assert third.number == fourth.number == 0
    assert "That is all; the solution is in `notebooks/solutions`." in third.text
    assert hint(table).number == 1, "each exercise counts for itself"


def test_a_hint_for_a_lesson_names_its_solution() -> None:
    task = REGISTERED[0]
    for _ in range(2):
        hint(task)
    named = re.search(r"`(notebooks/solutions/.*?)`", hint(task.name).text)
    assert named is not None
    assert (Path(__file__).resolve().parent.parent / named[1]).is_file()


def test_a_hint_for_an_unknown_name_is_a_message() -> None:
    assert "There is no exercise called" in hint("nothing").text


# --- answers --------------------------------------------------------------------------

READ = [
    ("integer", " 3 ", 3),
    ("integer", "1,000", 1000),
    ("integer", "３", 3),  # full-width
    ("integer", "−4", -4),  # a real minus sign
    ("integer", "\u202e7\u200b", 7),
    ("number", "12.5 %", 12.5),
    ("number", "1,250.5", 1250.5),
    ("blocks", "3, 1", (3, 1)),
    ("blocks", "[3 1]", (3, 1)),
    ("blocks", "(3;1,)", (3, 1)),
    ("blocks", "None", ()),
    ("blocks", "[]", ()),
    ("block set", "3 1 3", (1, 3)),
    ("text", "  Block   table ", "Block table"),
]


@pytest.mark.parametrize(("kind", "raw", "value"), READ)
def test_answers_are_read_generously(kind: str, raw: str, value: object) -> None:
    assert kind_named(kind).read(raw) == value


@pytest.mark.parametrize("raw", ["-5", "3, -1", "1.5", "3 x"])
def test_a_block_number_is_a_whole_number_from_0_on(raw: str) -> None:
    with pytest.raises(BadAnswer, match="block numbers"):
        kind_named("blocks").read(raw)


NONSENSE = ["", "   ", "\u200b", "x" * 100_000, "9" * 100_000]
WORDS = [NASTY, "😀", "שלום", "three", "1; import os", "nan", "1e999", "1_x", "\x00"]


@pytest.mark.parametrize("kind", ["integer", "number", "blocks", "block set"])
@pytest.mark.parametrize("raw", NONSENSE + WORDS, ids=range(14))
def test_nonsense_gets_a_short_friendly_answer(kind: str, raw: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        kind_named(kind).read(raw)
    message = str(caught.value)
    assert 20 < len(message) < 160
    assert message.endswith(".")
    assert len(raw) < 3 or raw not in message


def test_a_tolerance_is_a_share_of_the_managers_answer() -> None:
    assert Number(tolerance=0.05).same(100.0, 104.9)
    assert not Number(tolerance=0.05).same(100.0, 105.1)
    assert not Number().same(100, 100.5)


def test_sets_forget_the_order_and_tables_do_not() -> None:
    assert kind_named("block set").same({3, 1}, (1, 3))
    assert not kind_named("blocks").same((3, 1), (1, 3))
    assert kind_named("blocks").same([3, 1], (3, 1))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no kind of answer is called 'colour'"):
        predict("p", "?", lambda: 1, kind="colour")


def test_tidy_counts_before_it_works() -> None:
    with pytest.raises(BadAnswer, match="100,000 characters"):
        tidy("y" * 100_000)


# --- predict --------------------------------------------------------------------------


class Oracle:
    """An answer that counts how often it was asked."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.asked = 0

    def __call__(self) -> object:
        self.asked += 1
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def test_the_manager_is_asked_only_after_the_lock() -> None:
    answer = Oracle(2)
    p = predict("p", "How many?", answer)
    p._repr_mimebundle_()
    assert (answer.asked, p.locked, p.right) == (0, False, None)
    p.lock(3)
    assert (answer.asked, p.locked, p.right) == (1, True, False)
    assert "Not this time." in p.html()


def test_a_real_manager_marks_the_guess() -> None:
    def blocks() -> int:
        manager = BlockManager(num_blocks=8, block_size=4)
        manager.allocate("a", [1, 2, 3, 4, 5])
        return len(manager.block_table("a"))

    p = predict(
        "p",
        "How many?",
        blocks,
        unit="blocks",
        explain=lambda actual: f"It took {actual}.",
        picture=lambda: "<svg id='drawn'/>",
        guess="2",
    )
    assert p.right
    for part in ("Right.", "2 blocks", "It took 2.", "<svg id='drawn'/>"):
        assert part in p.html()


def test_a_locked_prediction_cannot_be_changed() -> None:
    p = predict("p", "?", lambda: 2, guess=3)
    p.lock(2)
    assert p.right is False
    assert p.message == "It is locked already: you predicted 3."


def test_running_the_cell_again_shows_what_was_locked() -> None:
    predict("p", "?", lambda: 2).lock(3)
    again = predict("p", "?", lambda: 2, guess=2)
    assert again.locked
    assert again.right is False
    assert "Predict · locked" in again.html()


def test_reset_opens_all_predictions_in_place() -> None:
    p = predict("p", "?", lambda: 2, guess=3)
    p._repr_mimebundle_()
    progress.reset()
    assert not p.locked
    assert p._view is not None
    assert "<form>" in p._view.body


@pytest.mark.parametrize("raw", [*NONSENSE, *WORDS], ids=range(14))
def test_nonsense_leaves_the_question_open(raw: str) -> None:
    answer = Oracle(2)
    p = predict("p", "?", answer).lock(raw)
    assert (p.locked, answer.asked) == (False, 0)
    assert p.message
    assert p.lock(2).right


@pytest.mark.parametrize("guess", [{3, "a"}, HUGE, [HUGE], RudeError()], ids=range(4))
def test_a_guess_without_a_text_leaves_the_question_open(guess: object) -> None:
    p = predict("p", "?", lambda: 2, guess=guess)
    assert not p.locked
    assert p.message.startswith("This can't be read as an answer")


@pytest.mark.parametrize("guess", [[3, 1], (3, 1), "3 1"])
def test_guesses_can_be_given_from_python(guess: object) -> None:
    assert predict("p", "?", lambda: (3, 1), kind="blocks", guess=guess).right


def test_a_choice_is_one_of_its_options() -> None:
    p = predict("p", "?", lambda: "no", choices=["yes", "no"])
    assert p.lock("").message.startswith("Choose one of the answers first")
    assert p.lock("maybe").message == "Choose one of: yes; no."
    assert p.lock("No").right


def test_an_answer_that_fails_is_shown_in_the_card() -> None:
    p = predict("p", "?", Oracle(ValueError("pool <too> small")), guess=1)
    assert p.locked
    assert p.right is None
    assert "ValueError: pool &lt;too&gt; small" in p.html()
    assert progress().locked == 1


def test_an_explanation_that_fails_is_shown_in_the_card() -> None:
    p = predict("p", "?", lambda: 1, explain=lambda actual: f"{1 / 0}", guess=1)
    assert "ZeroDivisionError" in p.html()


class Tags(HTMLParser):
    """The names of the tags and of the attributes in a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {tag, *(name for name, _ in attrs)}


def test_everything_typed_or_written_is_escaped() -> None:
    texts: dict[str, Any] = {"question": NASTY, "choices": [NASTY, "b"], "unit": NASTY}
    p = predict("p", answer=lambda: NASTY, explain=NASTY, **texts)
    pages = [p.html(), p.html(live=True), p.lock(NASTY).html()]
    pages += [check(largest, lambda numbers: NASTY)._repr_html_()]
    pages += [check(NASTY, 1)._repr_html_(), hint(NASTY)._repr_html_()]
    pages += [predict("q", "?", lambda: 1, kind="text", guess=NASTY).html()]
    for page in pages:
        assert not Tags(page).seen & {"script", "img", "onerror"}
        assert "&lt;script&gt;" in page


def test_backticks_make_code_and_nothing_else() -> None:
    assert look.inline("`a<b` & c") == "<code>a&lt;b</code> &amp; c"


# --- the card in a page ---------------------------------------------------------------


class Listening(PredictionView):
    """A view that keeps what it sends."""

    def send(self, content: Any, buffers: Any = None) -> None:
        self.__dict__.setdefault("sent", []).append(content)


def _press(view: PredictionView, content: Any) -> None:
    view._handle_custom_msg(content, [])


def _shown_view(p: Prediction) -> PredictionView:
    p._repr_mimebundle_()
    assert p._view is not None
    return p._view


def test_pressing_the_button_locks_and_redraws() -> None:
    p = predict("p", "?", lambda: 2)
    view = _shown_view(p)
    assert "<form>" in view.body
    _press(view, {"guess": "2"})
    assert p.right
    assert "<form>" not in view.body
    assert "Right." in view.body


def test_a_typo_is_answered_beside_the_button_and_the_form_stays() -> None:
    p = predict("p", "?", lambda: 2)
    body = p.html(live=True)
    view = Listening(body=body, on_guess=p._asked)
    _press(view, {"guess": NASTY})
    assert view.body == body, "redrawing would throw away what was typed"
    assert "whole number" in view.sent[0]["note"]


def test_an_exception_in_the_callback_is_shown() -> None:
    def broken(guess: str) -> str:
        raise RuntimeError("boom")

    view = Listening(body="", on_guess=broken)
    _press(view, {"guess": "1"})
    assert view.sent == [{"note": "Something went wrong: RuntimeError: boom"}]


@pytest.mark.parametrize("content", [None, [], {}, {"guess": 3}, {"guess": None}, "x"])
def test_a_strange_message_is_answered_like_an_empty_box(content: Any) -> None:
    p = predict("p", "?", lambda: 2)
    view = Listening(body="", on_guess=p._asked)
    _press(view, content)
    assert "nothing in the box" in view.sent[0]["note"]


def test_callbacks_do_not_pile_up() -> None:
    answer = Oracle(2)
    views = [_shown_view(predict("p", "?", answer)) for _ in range(3)]
    assert [view.comm is None for view in views] == [True, True, False]
    _press(views[-1], {"guess": "2"})
    assert answer.asked == 1


def test_two_displays_of_one_prediction_are_one_model() -> None:
    p = predict("p", "?", lambda: 2)
    assert _shown_view(p).model_id == _shown_view(p).model_id


def test_every_control_has_a_label() -> None:
    typed = predict("p", "a & b?", lambda: 2, unit="<u>").html(live=True)
    chosen = predict("q", "?", lambda: "a", choices=["a", "b"]).html(live=True)
    for page in (typed, chosen):
        labels = re.findall(r"<label.*?</label>", page)
        assert len(labels) == page.count("<input"), "one label round each control"
        assert page.count("<legend") == page.count("<form") == 1
        assert 'role="status"' in page


def test_the_saved_card_stands_alone() -> None:
    p = predict("p", "Which?", lambda: "a", choices=["a", "b"])
    bundle = p._repr_mimebundle_()
    assert bundle["text/plain"] == "Prediction('p', open)"
    page = bundle["text/html"]
    assert "<li>a</li><li>b</li>" in page
    assert "Run this cell in JupyterLab" in page
    assert not Tags(page).seen & {"form", "input", "button"}


def test_no_text_is_under_12_pixels() -> None:
    sizes = re.findall(r"font(?:-size)?:[^;}]*?(\d+)px", look.CARD_CSS + look.FORM_CSS)
    assert len(sizes) > 5
    assert min(map(int, sizes)) >= 12


# --- progress -------------------------------------------------------------------------


def test_the_summary_counts() -> None:
    task = next(t for t in REGISTERED if not t.wants_function)
    predict("p", "?", lambda: 2, guess=2)
    predict("q", "?", lambda: 2, guess=3)
    predict("r", "?", lambda: 2)
    check(task, task.reference())
    summary = progress()
    assert (summary.predictions, summary.locked, summary.right) == (3, 2, 1)
    of_lesson = sum(t.lesson == task.lesson for t in REGISTERED)
    assert summary.lessons == {task.lesson: (1, 0, of_lesson - 1)}
    assert f"lesson {task.lesson}: 1 right" in repr(summary)
    assert "2 of 3 locked, 1 right" in summary._repr_html_()


def test_the_summary_says_how_long_it_is_kept() -> None:
    for card in (repr(progress()), progress("03")._repr_html_()):
        assert "ept until the kernel restarts" in card


@pytest.mark.parametrize("lesson", [[], 3, "99", "x" * 100_000])
def test_the_summary_of_no_lesson_names_the_lessons(lesson: Any) -> None:
    note = progress(lesson).note
    assert note.startswith("There is no lesson ")
    assert "'00', '01'" in note
    assert len(note) < 200


def test_what_was_right_once_stays_right() -> None:
    check(table, [1, 2])
    check(table, [9])
    assert progress.exercises["t-table"].status is CheckStatus.RIGHT


def test_nothing_is_written_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "deep" / "progress.json"
    predict("p", "?", lambda: 2, guess=2)
    check(table, [1, 2])
    hint(table)
    progress()
    assert list(tmp_path.iterdir()) == []
    assert progress.save(target) == f"Saved to {target}."
    other = Progress()
    assert other.load(target) == f"Loaded from {target}."
    assert other.predictions == progress.predictions
    assert other.exercises == progress.exercises
    assert other.hints == {"t-table": 1}


def test_what_is_loaded_is_shown(tmp_path: Path) -> None:
    p = predict("p", "?", lambda: 2, guess=2)
    progress.save(tmp_path / "p.json")
    progress.reset()
    progress.load(tmp_path / "p.json")
    assert "Right." in p.html()


def _saved(predictions: str = "{}", exercises: str = "{}", hints: str = "{}") -> str:
    return (
        f'{{"format": "blockmgr-progress/1", "predictions": {predictions}, '
        f'"exercises": {exercises}, "hints": {hints}}}'
    )


OTHER = '{"format": "x/1", "predictions": {}, "exercises": {}, "hints": {"a": 1}}'


@pytest.mark.parametrize(
    "text",
    [
        OTHER,
        "",
        "[]",
        "{}",
        '{"format": "blockmgr-progress/1"}',
        '{"format": 3}',
        "\x00",
        "[" * 100_000,
        _saved(hints='{"00-forge": -5}'),
        _saved(hints='{"00-forge": 3}'),
        _saved(hints='{"00-forge": 1e400}'),
        _saved(hints='{"00-forge": "1"}'),
        _saved(predictions='{"p": [3, true]}'),
        _saved(predictions='{"p": ["3", "yes"]}'),
        _saved(exercises='{"e": [3, "right"]}'),
        _saved(exercises='{"e": ["00", "perfect"]}'),
    ],
    ids=range(16),
)
def test_a_file_that_is_no_progress_file_changes_nothing(
    tmp_path: Path, text: str
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(text, encoding="utf-8")
    session = Progress()
    assert "is not a progress file" in session.load(bad)
    assert session == Progress()
    assert "Not loaded" in session.load(tmp_path / "missing.json")


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert progress.save(tmp_path / "file" / "progress.json").startswith("Not saved: ")


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "progress.json"
    progress.save(target)
    before = target.read_text(encoding="utf-8")

    def full(path: Path, text: str, **more: Any) -> int:
        with path.open("w", encoding="utf-8") as file:
            file.write(text[:5])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    predict("p", "?", lambda: 2, guess=2)
    assert progress.save(target).startswith("Not saved: No space left")
    assert target.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [target]


def test_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for path, place in (("~/x.json", "x.json"), (None, ".blockmgr/progress.json")):
        assert progress.save(path) == f"Saved to {tmp_path / place}."
        assert progress.load(path) == f"Loaded from {tmp_path / place}."
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("path", ["\0", "x\ud800", 5, b"x.json", "", "~no such user/x"])
def test_a_path_that_is_none_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert progress.save(path).startswith("Not saved: ")
    said = progress.load(path)
    assert said.startswith("Not loaded: ")
    said.encode()  # it can be shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_only_ordinary_files_are_read_and_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # reading it, or /dev/zero, would never end
    assert "is not a progress file" in progress.load(pipe)
    assert "no ordinary file" in progress.save(pipe)
    assert pipe.is_fifo()
