"""Getting the public traces: `python -m blockmgr data`, which `make data` calls.

A download is written beside its place, compared with the check sum that we recorded,
and only then given its name. So whatever goes wrong, no half or changed trace is ever
found by `workloads.find_trace`.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from blockmgr.catalogue import Trace
from blockmgr.errors import BadTrace, BlockManagerError
from blockmgr.textfile import unpacked_chunks

TIMEOUT = 20  # seconds without a single byte
CHUNK = 1 << 16  # bytes read at a time: small enough for a smooth progress bar


class DownloadError(BlockManagerError, OSError):
    """A trace could not be fetched or stored. What was there before is still there."""


class Readable(Protocol):
    """What an opened address is to us: something to read bytes from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


def is_intact(trace: Trace, path: Path) -> bool:
    """Whether this file holds exactly the trace that we know (packed or not)."""
    digest = hashlib.sha256()
    try:
        for chunk in unpacked_chunks(path):
            digest.update(chunk)
    except BadTrace:
        return False
    return digest.hexdigest() == trace.sha256


def download(
    trace: Trace, folder: Path, progress: Callable[[int], object] = lambda done: None
) -> Path:
    """Fetch a trace into `folder` and return its file, packed with gzip.

    `progress` is told the bytes received so far, of `trace.size`. Raises
    `DownloadError` with one line that says what happened and what to do.
    """
    if trace.address is None:
        raise DownloadError(f"{trace.name} can't be downloaded: see {trace.origin}")
    target = folder / trace.file
    part = _new_file(folder, trace)
    try:
        with part.open("wb") as file:
            _fetch(trace, trace.address, file, progress)
        part.replace(target)
    except OSError as error:
        if isinstance(error, DownloadError):
            raise
        raise DownloadError(f"can't write {target}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    return target


def _new_file(folder: Path, trace: Trace) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=f"{trace.name}.", suffix="~")
    except OSError as error:
        raise DownloadError(
            f"can't write to {folder} ({error.strerror}): "
            "name another folder in $BLOCKMGR_DATA"
        ) from None
    os.close(handle)
    return Path(name)


def _fetch(
    trace: Trace, address: str, file: BinaryIO, progress: Callable[[int], object]
) -> None:
    """Copy what is at `address` into `file`, packed, and compare it on the way."""
    try:
        response = urllib.request.urlopen(address, timeout=TIMEOUT)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DownloadError(
            f"{trace.name} can't be fetched from {_host(address)} ({reason}): "
            "check the network. Lessons run without traces, from profiles"
        ) from None
    with response, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        digest, done = hashlib.sha256(), 0
        while chunk := _next_chunk(trace, response):
            packed.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done)
            if done > trace.size:
                break
    if digest.hexdigest() != trace.sha256:
        raise DownloadError(
            f"{trace.name}: {_host(address)} sent something else ({done:,} bytes, "
            f"expected {trace.size:,}) or broke off. Nothing was kept: try again"
        )


def _next_chunk(trace: Trace, response: Readable) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(
            f"{trace.name}: the connection broke ({error}): try again"
        ) from None


def _host(address: str) -> str:
    return urllib.parse.urlsplit(address).netloc
