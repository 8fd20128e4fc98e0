"""Run somebody else's code and always come back, with what it did as data.

A learner's function may loop for ever, recurse without end, print a million lines, or
call `sys.exit`. `run_limited` turns each of these into an `Outcome`; nothing escapes.

Three nets, one behind the other, all in the calling thread so that they work inside
Jupyter's main thread and on Windows:

1. A step budget: `sys.settrace` counts lines and calls, which gives the same answer on
   every machine.
2. A clock: a second thread raises `Stopped` in the running one once the time is up,
   again and again, so a bare `except:` does not keep it alive.
3. Stand-ins for `itertools.count`, `cycle` and `repeat`, `time.sleep` and `input`,
   written in Python so that the first two nets can see them.

The limits of all this: one call into C that never comes back to Python, such as
`list(iter(int, 1))`, cannot be stopped by anything in the same process; the way out is
Jupyter's "Restart Kernel". And code that swallows every exception in two endless loops,
one inside the other, may need minutes until a shot of the clock gets through.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import io
import itertools
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
STEPS = 200_000
SECONDS = 2.0
PRINTED = 2_000
_real_sleep = time.sleep


class Stopped(BaseException):
    """Raised inside code that ran too long. Not an `Exception`, so that a learner's
    `except Exception` lets it pass. `reason` is "steps" or "time"."""

    def __init__(self, reason: str = "time") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call did: it has a `value`, or an `error`, or it was `stopped`.

    `stopped` is "steps", "time" or "interrupt" (the learner pressed the stop button).
    `printed` holds the first 2,000 characters that went to stdout and stderr.
    """

    value: Any = None
    error: BaseException | None = None
    stopped: str | None = None
    printed: str = ""

    @property
    def ok(self) -> bool:
        """True if the call returned by itself."""
        return self.error is None and self.stopped is None


def run_limited(
    call: Callable[[], object],
    *,
    steps: int = STEPS,
    seconds: float = SECONDS,
    names: dict[str, Any] | None = None,
) -> Outcome:
    """Call `call()` within `steps` traced lines and `seconds`; never raises.

    `names` is the namespace in which the code looks up its globals: names there that
    are bound to one of the endless iterators get the stand-in while the code runs.
    """
    tray = _Tray(PRINTED)
    with (
        _stand_ins(names),
        contextlib.redirect_stdout(tray),
        contextlib.redirect_stderr(tray),
    ):
        value, error = _guarded(call, steps, seconds)
    printed = tray.getvalue()
    if error is None:
        return Outcome(value=value, printed=printed)
    if type(error) is Stopped:  # `isinstance` would ask the error's own `__class__`
        return Outcome(stopped=error.reason, printed=printed)
    if type(error) is KeyboardInterrupt:
        return Outcome(stopped="interrupt", printed=printed)
    return Outcome(error=error, printed=printed)


def value_or(call: Callable[[], T], otherwise: T) -> T:
    """What `call()` returns within the limits, or else `otherwise`: for a look at a
    learner's object, whose type and text may be code of the learner's own."""
    outcome = run_limited(call)
    return outcome.value if outcome.ok else otherwise


def _guarded(
    call: Callable[[], object], steps: int, seconds: float
) -> tuple[object, BaseException | None]:
    """The call's value, or what it raised; the clock is silent when this returns.

    The clock runs only within both `try`s, however slowly its thread starts. Its shots
    arrive where a function is called or a jump leads back, never in a plain assignment.
    So at most one is still on its way once `over` is set, and the outer `try` gets it.
    """
    before = sys.gettrace()
    clock = _Clock()
    value: object = None
    error: BaseException | None = None
    try:
        try:
            clock.begin(seconds)
            sys.settrace(_Budget(steps).trace)
            value = call()
            clock.over = True
        except BaseException as caught:  # a learner's code may raise anything at all
            clock.over = True
            error = caught
        sys.settrace(None)
        clock.wait()
    except BaseException as late:
        sys.settrace(None)
        clock.wait()
        error = error or late
    sys.settrace(before)
    return value, error


# --- the first net: steps -------------------------------------------------------------


class _Budget:
    """Counts lines and calls. Python switches tracing off once a trace function has
    raised, so this raises once only; whoever catches that meets the clock."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def trace(self, frame: FrameType, event: str, arg: object) -> Any:
        self.left -= 1
        if self.left < 0:
            raise Stopped("steps")
        return self.trace


# --- the second net: the clock --------------------------------------------------------


class _Clock:
    """A thread that stops the thread which made it, some time after `begin`.

    Nothing is locked between the two: `Stopped` can arrive in the middle of taking a
    lock, and the lock would never be given back.
    """

    def __init__(self) -> None:
        self.over = False
        self._target = threading.get_ident()
        self._wake: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._gone = False
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self, seconds: float) -> None:
        """Let the time run: from here on a `Stopped` may arrive."""
        self._wake.put(seconds)

    def _watch(self) -> None:
        try:
            self._wake.get(timeout=self._wake.get())
        except queue.Empty:
            self._fire()
        self._gone = True

    def _fire(self) -> None:
        """Fire until the code is out: each shot that a bare `except:` swallows may be
        followed by one that meets it outside its `try`, so shoot fast.

        Between looking at `over` and the shot nothing lets another thread run, so no
        shot is fired once it is set.
        """
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        target = self._target
        while True:
            if self.over:  # not in the `while`: that jump may let another thread run
                break
            _raise_in(target, Stopped)
            _real_sleep(0)
        sys.setswitchinterval(before)

    def wait(self) -> None:
        """Return when the thread has ended; a last `Stopped` may arrive in here."""
        self._wake.put(0.0)
        while not self._gone:
            _real_sleep(0.0001)


_raise_in = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
"""Raise an exception in another thread. C all through, and it keeps the interpreter's
lock: see `_Clock._fire`."""
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


# --- the third net: stand-ins ---------------------------------------------------------


def _count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    while True:
        yield start
        start += step


def _cycle(items: Iterable[Any]) -> Iterator[Any]:
    saved = list(items)
    while saved:
        yield from saved


def _repeat(item: Any, times: int | None = None) -> Iterator[Any]:
    while times is None or times > 0:
        yield item
        times = None if times is None else times - 1


def _sleep(seconds: float) -> None:
    """Sleep in short naps, so that the clock can interrupt."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _real_sleep(min(left, 0.01))


def _input(prompt: object = "") -> str:
    raise EOFError("a check cannot wait for somebody to type: take the arguments")


_PATCHES: tuple[tuple[Any, str, Any], ...] = (
    (itertools, "count", _count),
    (itertools, "cycle", _cycle),
    (itertools, "repeat", _repeat),
    (time, "sleep", _sleep),
    (builtins, "input", _input),
)


@contextlib.contextmanager
def _stand_ins(names: dict[str, Any] | None) -> Iterator[None]:
    """Put the stand-ins in place, in their modules and in the learner's namespace."""
    stand_in = {id(getattr(home, name)): new for home, name, new in _PATCHES}
    places: list[tuple[dict[str, Any], str, Any]] = [
        (vars(home), name, getattr(home, name)) for home, name, _ in _PATCHES
    ]
    places += [(names or {}, k, v) for k, v in (names or {}).items()]
    swapped = [place for place in places if id(place[2]) in stand_in]
    try:
        for space, name, old in swapped:
            space[name] = stand_in[id(old)]
        yield
    finally:
        for space, name, old in swapped:
            space[name] = old


# --- what it printed ------------------------------------------------------------------


class _Tray(io.TextIOBase):
    """A stdout that keeps the first `limit` characters and drops the rest."""

    def __init__(self, limit: int) -> None:
        self._kept = ""
        self._limit = limit

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        room = self._limit - len(self._kept)
        if room > 0:
            self._kept += text[:room]
        return len(text)

    def getvalue(self) -> str:
        return self._kept
