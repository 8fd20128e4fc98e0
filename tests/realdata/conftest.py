"""The real traces, for the tests of this folder.

Where they are missing the tests are skipped, with the way to get them as the reason.
In CI (`CI=true`) they must be there.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from blockmgr.workloads import MissingTrace, find_trace


@pytest.fixture(scope="session")
def trace_file() -> Callable[[str], Path]:
    def find(name: str) -> Path:
        try:
            return find_trace(name)
        except MissingTrace as error:
            if os.environ.get("CI") == "true":
                pytest.fail(f"CI must have the real traces: {error}")
            pytest.skip(str(error))

    return find
