"""Photograph a notebook in a real JupyterLab, to look at what a student sees.

    .venv/bin/python tools/shoot.py NOTEBOOK [--dark] [--cells] [--static] [--no-run]

All options: ``tools/shoot.py --help``. The code is ``tests/browser/shots.py``.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    runpy.run_module("browser.shots", run_name="__main__")
