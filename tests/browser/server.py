"""A private JupyterLab on loopback, started for one test session and taken down again.

Nothing of the person's own Jupyter is read or written: configuration, settings,
workspaces, kernels' connection files and the notebooks themselves lie in one temporary
folder. Notebooks are *copied* there, so that a run never changes the project.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_NEWS = "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
_PRIVATE = {  # environment variable -> folder below the temporary one
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
}
_IGNORE = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")

# The server ends when its input does: also if the tests are killed, none is left over.
_WATCHED = """
import os, signal, sys, threading
def watch():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=watch, daemon=True).start()
from jupyterlab.labapp import main
main()
"""


class ServerError(RuntimeError):
    """JupyterLab did not start. The message carries the end of its log."""


def free_port() -> int:
    """Return a loopback port nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@dataclass(slots=True)
class LabServer:
    """One running JupyterLab.

    ``work`` is the folder the server shows; ``url`` and ``token`` are how to reach it.
    Use it as a context manager: leaving it ends the server *and* its kernels, also when
    a test failed or the browser died.
    """

    home: Path
    port: int = field(default_factory=free_port)
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    process: subprocess.Popen[bytes] | None = None

    @property
    def work(self) -> Path:
        """The folder with the copied notebooks."""
        return self.home / "work"

    @property
    def url(self) -> str:
        """Where JupyterLab's page lies, without the token."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """Everything the server and its kernels printed."""
        return self.home / "jupyterlab.log"

    def log_tail(self, lines: int = 25) -> str:
        """The last ``lines`` of the log, for the report of a failure."""
        if not self.log.exists():
            return "(no log yet)"
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def add(self, sources: Iterable[Path]) -> None:
        """Copy notebooks or whole folders into the folder the server shows."""
        for source in sources:
            target = self.work / source.name
            if source.is_dir():
                shutil.copytree(source, target, ignore=_IGNORE, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)

    def __enter__(self) -> LabServer:
        self._prepare()
        for attempt in range(3):  # a port can be taken between looking and binding
            self._launch()
            try:
                self._wait_until_up()
                return self
            except ServerError:
                self.stop()
                if attempt == 2:
                    raise
                self.port = free_port()
        raise AssertionError("unreachable")

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server and its kernels.

        The end of its input makes the server shut its kernels down. Should it hang, it
        is killed, and each kernel ends by itself: ipykernel watches its parent.
        """
        if self.process is None:
            return
        try:
            self.process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        self.process = None

    def _prepare(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        for folder in _PRIVATE.values():
            (self.home / folder).mkdir(exist_ok=True)
        news = self.home / "settings" / _NEWS
        news.parent.mkdir(parents=True, exist_ok=True)
        quiet = {"fetchNews": "false", "checkForUpdates": False}
        news.write_text(json.dumps(quiet), encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        private = {name: str(self.home / folder) for name, folder in _PRIVATE.items()}
        path = os.pathsep.join(
            part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part
        )
        return os.environ | private | {"PYTHONPATH": path}

    def _launch(self) -> None:
        command = [
            *(sys.executable, "-c", _WATCHED, "--no-browser", "--allow-root"),
            *("--ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0"),
            f"--IdentityProvider.token={self.token}",
            f"--ServerApp.root_dir={self.work}",
            "--LabApp.expose_app_in_browser=True",
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.work,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait_until_up(self, seconds: float = 60.0) -> None:
        assert self.process is not None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            if self._answers():
                return
            time.sleep(0.1)
        raise ServerError(f"JupyterLab did not start:\n{self.log_tail()}")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"{self.url}/api/status?token={self.token}", timeout=2
            ) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
