"""What this machine has, and what to do about what is missing.

`python -m blockmgr doctor` prints it, and lesson 00 begins with it. Only the standard
library is used, for it must run when everything else is missing. Nothing is installed
or changed here.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata

from blockmgr.catalogue import TRACES
from blockmgr.workloads import data_folder

NEEDED_PYTHON = (3, 11)
LITTLE_MEMORY = 4 << 30  # bytes; JupyterLab, torch and a browser fit in this
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

NEEDED = {  # distribution: what the course needs it for
    "jupyterlab": "the lessons open in it",
    "ipywidgets": "buttons and sliders",
    "anywidget": "the block map that you can click",
    "matplotlib": "charts",
    "rich": "tables of the command line",
}
INSTALL = "run `make lab` in the project's folder: it installs everything"


class Verdict(StrEnum):
    """How good a finding is. Only `MISSING` stops a lesson from running."""

    OK = "ok"
    OPTIONAL = "optional"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the report: what was looked for, what is there, what to do."""

    what: str
    found: str
    verdict: Verdict = Verdict.OK
    todo: str = ""

    def __str__(self) -> str:
        advice = f"  -> {self.todo}" if self.todo else ""
        return f"{self.verdict:8}  {self.what:10}  {self.found}{advice}"


def doctor() -> list[Finding]:
    """Look at everything the course uses. Takes the time of importing torch."""
    return [
        _python(),
        _memory(),
        *_torch(),
        *(_package(name, use) for name, use in NEEDED.items()),
        _chromium(),
        _traces(),
    ]


def is_ready(findings: Iterable[Finding]) -> bool:
    """Whether nothing that a lesson needs is missing."""
    return all(finding.verdict is not Verdict.MISSING for finding in findings)


def report(findings: Iterable[Finding]) -> str:
    """One line for each finding, and a last one that says whether all is well."""
    findings = list(findings)
    end = "Ready." if is_ready(findings) else "Not ready: see what is missing above."
    return "\n".join([*map(str, findings), end])


def _python() -> Finding:
    found = f"{platform.python_version()} on {platform.system()}"
    if sys.version_info >= NEEDED_PYTHON:
        return Finding("Python", found)
    todo = f"install Python {'.'.join(map(str, NEEDED_PYTHON))} or newer"
    return Finding("Python", found, Verdict.MISSING, todo)


def _memory() -> Finding:
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return Finding("memory", "unknown")
    if size >= LITTLE_MEMORY:
        return Finding("memory", _gib(size))
    return Finding("memory", _gib(size), Verdict.OPTIONAL, "close other programs")


def _torch() -> list[Finding]:
    """PyTorch and the device that a pool would lie on."""
    try:
        import torch

        from blockmgr.storage import pick_device
    except (ImportError, OSError) as error:  # OSError: a library of torch is broken
        reason = " ".join(str(error).split())
        return [Finding("torch", f"no ({reason})", Verdict.MISSING, INSTALL)]
    device = pick_device()
    found = {"cpu": "cpu; the lessons need no GPU"}.get(device.type, device.type)
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        found = f"cuda: {about.name}, {_gib(about.total_memory)}"
    return [Finding("torch", str(torch.__version__)), Finding("device", found)]


def _package(name: str, use: str) -> Finding:
    try:
        return Finding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, f"no; {use}", Verdict.MISSING, INSTALL)


def _chromium() -> Finding:
    names = filter(None, (os.environ.get("CHROMIUM"), *CHROMIUM))
    path = next(filter(None, map(shutil.which, names)), None)
    if path:
        return Finding("chromium", path)
    todo = "only `make test` uses it: install your system's package, or set $CHROMIUM"
    return Finding("chromium", "no", Verdict.OPTIONAL, todo)


def _traces() -> Finding:
    """The real traces: lessons have an extra cell for each, and run without them."""
    folder = data_folder()
    wanted = [trace for trace in TRACES.values() if trace.address]
    here = sum((folder / trace.file).is_file() for trace in wanted)
    found = f"{here} of {len(wanted)} traces in {folder}"
    if here == len(wanted):
        return Finding("traces", found)
    return Finding("traces", found, Verdict.OPTIONAL, "`make data` gets them")


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
