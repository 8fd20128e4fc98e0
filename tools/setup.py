#!/usr/bin/env python3
"""Make `.venv`, the course's own Python, with everything in it that `make` uses.

It runs before anything is installed, so it uses the standard library alone. A stamp in
`.venv` says what it was made from: while that holds, this returns at once. What cannot
work is said in one line that ends in what to do; a `.venv` that was not finished is
removed, here or (after a kill or a power cut) by the next run.

Two variables change the choice: `PYTHON` (read by the Makefile) and `TORCH` (`cpu`,
`cuda`, or any requirement that pip understands, such as `torch==2.14.1` or a file).
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this file must say so, not fail
    found = "{}.{}".format(*sys.version_info)
    sys.exit("The course needs Python 3.11 or newer, and this is " + found + ".")

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "made-from.json"
LOCK = ROOT / ".venv.lock"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
EXTRAS = ".[lab,test,grading,model]"
CONSTRAINTS = ROOT / "constraints.txt"
NEWEST_TRIED = (3, 14)
RECIPE = 1  # raise it when this file fills `.venv` in another way

# On Linux the default index serves torch for CUDA: several GB. This is PyTorch's own
# index of builds without it, a tenth of the size.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


class SetupError(Exception):
    """Set-up cannot go on; the message says why and what to do, in one line."""


def main() -> int:
    """Make `.venv` unless it is up to date; return the exit status."""
    try:
        if not is_current():
            with only_one():
                if not is_current():
                    renew(fresh=not is_usable())
    except SetupError as error:
        return say_and_fail(str(error))
    except OSError as error:
        where = error.filename or ROOT
        return say_and_fail(f"Set-up stopped at {where}: {error.strerror or error}.")
    except KeyboardInterrupt:
        say_and_fail("Stopped; nothing half-made is left. Type it again at any time.")
        return 130
    return 0


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def say_and_fail(text: str) -> int:
    """Print one line on the error stream; return the exit status 1."""
    print(text, file=sys.stderr, flush=True)
    return 1


# --- is there anything to do? -------------------------------------------------------


def is_current() -> bool:
    """Whether `.venv` was finished, from today's files, and still runs."""
    stamp = read_stamp()
    return stamp is not None and stamp["inputs"] == inputs() and is_usable()


def is_usable() -> bool:
    """Whether `.venv` can be kept: it runs, and is what was asked for.

    A choice that is not made this time (`PYTHON`, `TORCH`) stays what it was.
    """
    stamp = read_stamp() or {}
    found = venv_version()
    asked = "{}.{}".format(*sys.version_info) if os.environ.get("PYTHON") else found
    return (
        found is not None
        and found == asked == stamp.get("python", found)
        and stamp.get("folder", str(ROOT)) == str(ROOT)
        and (os.environ.get("TORCH") or stamp.get("torch")) == stamp.get("torch")
    )


def read_stamp() -> dict[str, str] | None:
    """What the finished `.venv` was made from; None where there is none."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stamp if isinstance(stamp, dict) and "inputs" in stamp else None


def inputs() -> str:
    """One hash over what decides what is installed; a linter's setting does not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parts = [project["build-system"], project["project"], project["tool"]["setuptools"]]
    text = json.dumps([RECIPE, parts, CONSTRAINTS.read_text(encoding="utf-8")])
    return hashlib.sha256(text.encode()).hexdigest()


def venv_version() -> str | None:
    """The `3.12` of `.venv`'s Python, asked of itself; None if it does not run."""
    ask = "import sys, encodings; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [PYTHON, "-I", "-S", "-c", ask], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Let one set-up run at a time; remove what one that was cut off has left.

    The lock's file holds a word for as long as `.venv` may be half-made.
    """
    with LOCK.open("a+", encoding="utf-8") as lock:
        wait_for(lock)
        lock.seek(0)
        if lock.read():
            shutil.rmtree(VENV, ignore_errors=True)
        else:
            lock.write("at work")
            lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


def wait_for(lock) -> None:  # type: ignore[no-untyped-def]
    """Take the lock, saying so if another set-up holds it."""
    if fcntl is None:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("Another set-up of the course is at work here; waiting for it.")
        fcntl.flock(lock, fcntl.LOCK_EX)


# --- making it ----------------------------------------------------------------------


def renew(*, fresh: bool) -> None:
    """Make `.venv` anew, or bring it up to date in place.

    Without a network nothing is touched, so an older `.venv` stays as it was. Once it
    has been touched, whatever fails removes it.
    """
    begun = time.monotonic()
    announce(fresh)
    if fresh:
        check_machine()
    has_pip = venv_version() is not None and not run_pip("--version", quiet=True)[0]
    if has_pip:
        check_index()
    with removed_on_failure():
        if fresh:
            make_venv()
        if not has_pip:
            check_index()
        STAMP.unlink(missing_ok=True)
        install()
        quiet_jupyter()
        write_stamp()
    say(f"The course's Python is ready after {time.monotonic() - begun:.0f} s.")


def announce(fresh: bool) -> None:
    """Say what begins, how much it is, and about how long it takes."""
    if fresh:
        say(
            "Making .venv, the course's own Python, once: about 400 MB to download and"
            "\n1.7 GB of disk (with CUDA 3 GB and 8 GB). It takes 2 to 5 minutes on a"
            "\ngood line; pip says below where it is."
        )
    else:
        say("Bringing .venv up to date: a few seconds, more if packages have changed.")


def check_machine() -> None:
    """Raise where a part of Python or room on the disk is missing."""
    if not all(map(importlib.util.find_spec, ("venv", "ensurepip"))):
        raise SetupError(
            "This Python has no venv module. On Debian and Ubuntu: sudo apt install "
            "python{}.{}-venv; then type it again.".format(*sys.version_info[:2])
        )
    free = shutil.disk_usage(ROOT).free / 1e9
    need = 9 if wants_cuda() else 2.5
    if free < need:
        raise SetupError(
            f"Set-up needs {need} GB of free disk here, and {free:.1f} GB are free: "
            "make room, then type it again."
        )


@contextlib.contextmanager
def removed_on_failure() -> Iterator[None]:
    """Remove `.venv` if the block does not come to its end."""
    try:
        yield
    except BaseException:
        shutil.rmtree(VENV, ignore_errors=True)
        raise


def make_venv() -> None:
    """Make an empty `.venv` in place of whatever is there.

    The base Python makes it, since the running one may be the `.venv` being replaced.
    """
    python = getattr(sys, "_base_executable", "") or sys.executable
    done = subprocess.run(
        [python, "-m", "venv", "--clear", VENV], capture_output=True, text=True
    )
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise SetupError(f"Python could not make .venv: {words[-1]}")


def check_index() -> None:
    """Raise where pip reaches no package index, before it retries at length."""
    if not offered("jupyterlab", "--no-cache-dir", "--retries", "1", "--timeout", "10"):
        raise SetupError(
            "pip reaches no package index: connect to the network (behind a proxy, set "
            "HTTPS_PROXY), then type it again."
        )


def install() -> None:
    """Install torch first, since its place differs, then everything else."""
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text(limits(), encoding="utf-8")
        pip = ["install", *loudness(), "--constraint", str(constraints)]
        for arguments in (*torch_step(), ["--editable", EXTRAS]):
            status, _ = run_pip(*pip, *arguments)
            if status:
                raise SetupError(pip_failed())
    status, words = run_pip("check", quiet=True)
    if status:
        raise SetupError("pip finds the packages at odds: " + words.strip())


def pip_failed() -> str:
    """Say what to do when pip fails after it has said why."""
    text = "pip could not install the course's packages; its reason stands above."
    if sys.version_info[:2] > NEWEST_TRIED:
        tried = "{}.{}".format(*NEWEST_TRIED)
        return f"{text} This Python is newer than {tried}: try PYTHON=python{tried}."
    return f"{text} Mend it, or only type it again if the line broke."


def run_pip(*arguments: str, quiet: bool = False) -> tuple[int, str]:
    """Run `.venv`'s pip; give its status and, if it was kept quiet, its words."""
    done = subprocess.run(
        [PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments],
        cwd=ROOT,
        env={**os.environ, "PIP_USER": "0"},
        capture_output=quiet,
        text=True,
    )
    return done.returncode, done.stdout or ""


def loudness() -> list[str]:
    """Show pip's progress on a terminal, and only its complaints elsewhere."""
    return [] if sys.stdout.isatty() else ["--quiet", "--progress-bar", "off"]


def offered(package: str, *options: str) -> bool:
    """Whether pip is offered the tested version of a package, in any build."""
    _, words = run_pip("index", "versions", *options, package, quiet=True)
    line = next((x for x in words.splitlines() if x.startswith("Available")), "")
    versions = {word.split("+")[0] for word in line.replace(",", " ").split()}
    return tested(package) in versions


def tested(package: str) -> str:
    """The version of a package in `constraints.txt`."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and line[0] != "#")
    return pins[package]


# --- which torch --------------------------------------------------------------------


def torch_choice() -> str:
    """What `TORCH` asks for, by default `auto`."""
    return os.environ.get("TORCH", "") or "auto"


def wants_cuda() -> bool:
    """Whether torch should be able to use an NVIDIA GPU."""
    choice = torch_choice()
    return choice == "cuda" or (choice == "auto" and has_nvidia_gpu())


def has_nvidia_gpu() -> bool:
    """Whether the driver's own tool lists a GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return False
    done = subprocess.run([tool, "-L"], capture_output=True, text=True)
    return done.returncode == 0 and "GPU" in done.stdout


def limits() -> str:
    """The tested versions, without torch's where `TORCH` names another."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    if torch_choice() not in ("auto", "cpu", "cuda"):
        lines = [line for line in lines if not line.startswith("torch==")]
    return "\n".join(lines) + "\n"


def torch_step() -> list[list[str]]:
    """Arguments of pip for torch; none where the default index has the right build.

    Outside Linux it does. On Linux it serves CUDA, so without a GPU a file on this
    machine (pip's `find-links`) comes first, then PyTorch's own index for CPUs.
    """
    choice = torch_choice()
    if choice not in ("auto", "cpu", "cuda"):
        return [[choice]]
    if wants_cuda() or platform.system() != "Linux":
        return []
    torch = f"torch=={tested('torch')}"
    if has_local_file(torch):
        return [["--no-deps", "--no-index", torch]]
    index = ["--index-url", TORCH_CPU_INDEX]
    if offered("torch", *index, "--retries", "0", "--timeout", "5"):
        return [["--no-deps", *index, torch]]
    say(
        "PyTorch's index for CPUs does not answer, so torch comes from the default one:"
        "\non Linux that build carries CUDA and takes several GB."
    )
    return []


def has_local_file(requirement: str) -> bool:
    """Whether pip finds a package without any index."""
    options = ["install", "--dry-run", "--quiet", "--no-deps", "--no-index"]
    return run_pip(*options, requirement, quiet=True)[0] == 0


# --- finishing ----------------------------------------------------------------------


def quiet_jupyter() -> None:
    """Keep a question about news and nbgrader's panels off the first lesson.

    These are Jupyter's own places for an installation's defaults. What a person chooses
    in the settings still wins, and a teacher turns the panels on with
    `jupyter labextension enable @jupyter/nbgrader`.
    """
    news = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
    write_json("share/jupyter/lab/settings/overrides.json", news)
    panels = {"disabledExtensions": {"@jupyter/nbgrader": True}}
    write_json("etc/jupyter/labconfig/page_config.json", panels)
    parts = ("assignment_list", "course_list", "formgrader", "validate_assignment")
    off = {f"nbgrader.server_extensions.{part}": False for part in parts}
    server = {"ServerApp": {"jpserver_extensions": off}}
    write_json("etc/jupyter/jupyter_server_config.d/zz-course.json", server)


def write_json(name: str, value: object) -> None:
    """Write one file inside `.venv`."""
    path = VENV / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_stamp() -> None:
    """Say what `.venv` was made from; the very last step."""
    stamp = {
        "inputs": inputs(),
        "python": venv_version(),
        "folder": str(ROOT),
        "torch": os.environ.get("TORCH") or None,
    }
    write_json(STAMP.name, stamp)


if __name__ == "__main__":
    sys.exit(main())
