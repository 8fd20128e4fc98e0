"""Mutation testing of the core: would a test notice if this line were wrong?

    make mutants                        all of the core, as far as the time goes
    make mutants ARGS="block table"     these modules only
    make mutants ARGS="--minutes 30"    for longer

mutmut makes one small change at a time (a `<` becomes `<=`, a 0 becomes 1), runs the
tests that pass through the changed function, and stops at the first that fails: that
mutant is killed. One that no test notices has **survived**, and is shown as a diff.
Either a test is missing, or the change makes no difference; then it belongs, with its
reason, into `tests/mutants_equivalent.txt`.

All this happens in a copy in a temporary folder: the working tree is only read.
Decorated functions (properties) and code outside of functions are left as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = ROOT / "tests/mutants_equivalent.txt"
CORE = (
    *("block", "prefix", "pool", "table", "groups", "sequence", "manager", "policy"),
    *("answers", "checks", "events", "recorder", "audit", "scheduler"),
)
TESTS = (
    *("block", "prefix", "pool", "table", "manager", "audit", "events", "faults"),
    *(
        "faults_sharing",
        "groups",
        "sharing",
        "policy",
        "scheduler",
        "replay",
        "replay_sched",
        "model",
    ),
)
LEFT_OUT = (
    # It lists what `import blockmgr` imports, and a mutant imports mutmut.
    "tests/test_manager.py::test_the_manager_needs_nothing_but_python",
    # They change the source of functions, which mutmut has changed already.
    "tests/test_replay.py::test_a_broken_rule_is_found",
    # They look at files that are not in the copy.
    "tests/test_faults.py::test_every_test_that_a_kind_names_is_there",
    "tests/test_faults.py::test_the_page_says_what_the_table_says",
    "tests/test_faults.py::test_every_row_has_its_kind_and_a_test_with_its_number",
)
MINUTES = 45.0
MOST_MEMORY = 4 << 30  # bytes: a mutant that never stops growing is killed by this
CAUGHT = {"killed", "timeout", "suspicious", "segfault", "caught by type check"}

# Hypothesis draws the same examples for every mutant, fewer of them (a state machine
# has its own settings), and doesn't look for the smallest that fails.
CONFTEST = """\
from hypothesis import Phase, settings

settings.register_profile(
    "mutants",
    phases=(Phase.explicit, Phase.generate),
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=50,
)
settings.load_profile("mutants")


def pytest_collection_modifyitems(items):
    for item in items:
        machine = getattr(item, "cls", None)
        if isinstance(getattr(machine, "settings", None), settings):
            machine.settings = settings(machine.settings, max_examples=10)
"""
PRELOADED = "hypothesis.strategies\nhypothesis.stateful\nnumpy\npytest\n"


class Equivalent(NamedTuple):
    """A change that makes no difference: where, what, and why not."""

    module: str
    changed: tuple[str, ...]
    reason: str


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        modules = chosen(given.modules)
        known = read_equivalents(EQUIVALENT)
    except ValueError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder)
        make_copy(copy, modules)
        if not run(copy, given.minutes * 60, given.jobs):
            return 2
        return report(copy, known)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("modules", nargs="*", help="of blockmgr; default: the core")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser


def chosen(names: Sequence[str]) -> list[str]:
    """The modules to change: those named, or all of the core that there are."""
    there = [n for n in CORE if (ROOT / f"blockmgr/{n}.py").is_file()]
    for name in names:
        if not (ROOT / f"blockmgr/{name}.py").is_file():
            raise ValueError(f"there is no blockmgr/{name}.py: {', '.join(there)}")
    return list(names) or there


# --- the copy -------------------------------------------------------------------------


def make_copy(copy: Path, modules: Iterable[str]) -> None:
    """What the tests need, with mutmut's settings behind the project's own."""
    ignored = shutil.ignore_patterns("__pycache__", "test_*.py", "browser", "realdata")
    for name in ("blockmgr", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    tests = [f"tests/test_{name}.py" for name in TESTS]
    tests = [test for test in tests if (ROOT / test).is_file()]
    for test in tests:
        shutil.copy(ROOT / test, copy / test)
    (copy / "tests/conftest.py").write_text(CONFTEST, encoding="utf-8")
    (copy / "preloaded.txt").write_text(PRELOADED, encoding="utf-8")
    settings = {
        "source_paths": ["blockmgr"],
        "only_mutate": [f"blockmgr/{module}.py" for module in modules],
        "pytest_add_cli_args": [
            *("-p", "no:cacheprovider"),
            *(part for test in LEFT_OUT for part in ("--deselect", test)),
        ],
        "pytest_add_cli_args_test_selection": tests,
        # Each mutant in a process that has run no test before. It must not have
        # collected any either: an iterator in a test's arguments can be used only once.
        "process_isolation": "forkserver",
        "forkserver_warmup": "import",
        "preload_modules_file": str(copy / "preloaded.txt"),
        "timeout_constant": 4.0,
        "timeout_multiplier": 4.0,
    }
    own = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = [f"{key} = {value!r}" for key, value in settings.items()]
    (copy / "pyproject.toml").write_text(
        "\n".join([own, "[tool.mutmut]", *lines, ""]), encoding="utf-8"
    )


# --- running --------------------------------------------------------------------------


def run(copy: Path, seconds: float, jobs: int) -> bool:
    """Let mutmut work for so long at most. False if it could not start."""
    ends = time.monotonic() + seconds
    output = copy / "output.txt"
    with (
        output.open("w", encoding="utf-8") as sink,
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            transient=True,
            disable=not sys.stdout.isatty(),
        ) as bar,
    ):
        task = bar.add_task("preparing", total=None)
        worker = subprocess.Popen(
            [*MUTMUT, "run", "--max-children", str(jobs)],
            cwd=copy,
            env=environment(),
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children can be ended with it
            preexec_fn=_limit_memory,
        )
        try:
            while worker.poll() is None and time.monotonic() < ends:
                time.sleep(0.5)
                done = progress_of(output.read_text(encoding="utf-8", errors="replace"))
                if done is not None:
                    bar.update(task, description="mutants", completed=done[0])
                    bar.update(task, total=done[1])
            in_time = worker.poll() is not None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
    text = output.read_text(encoding="utf-8", errors="replace")
    if progress_of(text) is None:
        lines = [line for line in text.splitlines() if line[:1] not in SPINNER]
        print("mutmut did not get to the first mutant:", *lines[-40:], sep="\n")
        return False
    if not in_time:
        print(f"stopped after {seconds / 60:g} minutes")
    return True


SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MUTMUT = [sys.executable, "-m", "mutmut"]


def environment() -> dict[str, str]:
    """Without other plugins of pytest, which take longer to load than a test."""
    return os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": ""}


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def progress_of(output: str) -> tuple[int, int] | None:
    """How many mutants of how many are done, from the last line that says so."""
    found = re.findall(r"(\d+)/(\d+)  \N{PARTY POPPER}", output[-2000:])
    return (int(found[-1][0]), int(found[-1][1])) if found else None


# --- the result -----------------------------------------------------------------------


def report(copy: Path, known: Sequence[Equivalent]) -> int:
    """Print the score and each survivor. 0 if none survived, 1 otherwise."""
    console = Console(highlight=False, soft_wrap=True)
    verdicts = dict(verdicts_of(mutmut(copy, "results", "--all", "true")))
    counts: Counter[str] = Counter()
    used: set[Equivalent] = set()
    for name, verdict in verdicts.items():
        if verdict in CAUGHT:
            counts["killed"] += 1
            counts["by time"] += verdict == "timeout"
        elif verdict == "not checked":
            counts["not tried"] += 1
        else:
            diff = mutmut(copy, "show", name)
            same = equivalent(module_of(name), changed_lines(diff), known)
            if same is not None:
                counts["equivalent"] += 1
                used.add(same)
                continue
            counts["survived"] += 1
            console.print(f"\n{name}: {verdict}", markup=False)
            console.print("\n".join(diff.splitlines()[1:]), markup=False)
    judged = counts["killed"] + counts["survived"]
    share = counts["killed"] / judged if judged else 0.0
    console.print(
        f"\n{len(verdicts)} mutants: {counts['killed']} killed, {counts['survived']} "
        f"survived, {counts['equivalent']} equivalent, {counts['not tried']} not "
        f"tried. Score {share:.1%}\n{counts['by time']} of the killed ran into the "
        "time limit, or broke the tests' modules before a test could start"
    )
    for stale in set(known) - used:
        if not counts["not tried"] and any(
            module_of(name) == stale.module for name in verdicts
        ):
            console.print(f"no longer there: {stale.module} {stale.changed}")
    return 1 if counts["survived"] else 0


def mutmut(copy: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*MUTMUT, *arguments],
        cwd=copy,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def verdicts_of(results: str) -> Iterator[tuple[str, str]]:
    """The pairs of a mutant's name and what became of it."""
    for line in results.splitlines():
        name, colon, verdict = line.strip().rpartition(": ")
        if colon and "__mutmut_" in name:
            yield name, verdict


def module_of(name: str) -> str:
    """`pool` for a mutant called `blockmgr.pool.x_take__mutmut_3`."""
    return name.split(".")[1]


def changed_lines(diff: str) -> tuple[str, ...]:
    """The lines of a diff that went and came, without their indentation."""
    lines = [line for line in diff.splitlines() if line[:1] in ("-", "+")]
    kept = [line for line in lines if not line.startswith(("---", "+++"))]
    return tuple(f"{line[0]} {line[1:].strip()}" for line in kept)


def equivalent(
    module: str, changed: tuple[str, ...], known: Iterable[Equivalent]
) -> Equivalent | None:
    """The entry that says why this change makes no difference, if there is one."""
    for entry in known:
        if (entry.module, entry.changed) == (module, changed):
            return entry
    return None


def read_equivalents(path: Path) -> list[Equivalent]:
    """Entries with a blank line between them: module, changed lines, reason.

    Raises `ValueError` for an entry without one of the three.
    """
    entries = []
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for entry in re.split(r"\n\s*\n", text):
        lines = [line for line in entry.strip().splitlines() if line[:1] != "#"]
        if not lines:
            continue
        module, *rest = lines
        changed = tuple(line for line in rest if line[:2] in ("- ", "+ "))
        reason = " ".join(line for line in rest if line not in changed)
        if not (module.isidentifier() and changed and reason):
            raise ValueError(f"{path.name}: module, lines and reason, got {lines}")
        entries.append(Equivalent(module, changed, reason))
    return entries


if __name__ == "__main__":
    sys.exit(main())
