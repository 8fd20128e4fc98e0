"""One JupyterLab and one Chromium for all browser tests; their story when one fails."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from .lab import Lab, browser, find_chromium
from .server import ROOT, LabServer


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Chromium. Without one the tests are skipped, but never in CI."""
    executable = find_chromium()
    if executable is None:
        reason = "no Chromium here: install Debian's `chromium`, or set $CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with browser(executable) as started:
        yield started


@pytest.fixture(scope="session")
def server(
    chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabServer]:
    """A private JupyterLab that shows a copy of ``notebooks/``."""
    with LabServer(tmp_path_factory.mktemp("jupyterlab")) as started:
        started.add([ROOT / "notebooks"])
        yield started


@pytest.fixture(scope="session")
def page(chromium: Browser, server: LabServer) -> Lab:
    """The one page: loading JupyterLab takes longer than most of the tests."""
    return Lab.connect(chromium, server)


@pytest.fixture
def lab(page: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """JupyterLab, in the light theme. A test must leave the browser's console clean."""
    request.node.stash[_LAB] = page
    page.console.clear()
    page.theme("light")
    yield page
    assert page.console_errors() == [], "the browser's console complained"


_LAB = pytest.StashKey[Lab]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a picture, the console and the server's log to the report of a failure."""
    report = yield
    page = item.stash.get(_LAB, None)
    if report.failed and call.when == "call" and page is not None:
        page.in_use = None  # whatever is left open is not to be relied on
        picture = page.screenshot(f"failed-{item.name}")
        report.sections += [
            ("picture", str(picture.relative_to(ROOT))),
            ("console", "\n".join(page.console) or "(silent)"),
            ("JupyterLab's log", page.server.log_tail()),
        ]
    return report
