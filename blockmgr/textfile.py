"""Text files, packed or not, and everything that can be wrong with one.

Whatever a person names as a trace ends here first. All that goes wrong is a `BadTrace`
which says where and what to do.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blockmgr.errors import BadTrace

LONGEST_LINE = 1_000_000  # characters; the longest in a published trace has 3,000
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


def bad_line(path: Path, number: int, expected: str) -> BadTrace:
    """The error for a line that is not what it should be."""
    return BadTrace(
        f"{path}, line {number}: expected {expected}. "
        "Either this is another kind of file, or it was cut or changed"
    )


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text file, unpacked if it is gzip.

    Gzip ends with a check sum, so a packed trace that was cut can't go unnoticed.
    """
    number = 0
    with _open(path) as data:
        file = io.TextIOWrapper(data, encoding="utf-8", newline="")
        try:
            while line := file.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE:
                    raise bad_line(path, number, f"less than {LONGEST_LINE} characters")
                yield number, line
        except UnicodeDecodeError:
            raise bad_line(path, number + 1, "text in UTF-8") from None
        except DAMAGED:
            raise _damaged(path, f" after line {number}") from None


def unpacked_chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file in pieces, unpacked if it is gzip. Raises `BadTrace`."""
    with _open(path) as data:
        while chunk := data.read(1 << 16):
            yield chunk


def _damaged(path: Path, where: str = "") -> BadTrace:
    return BadTrace(
        f"{path} is damaged{where}: the packed file was cut or changed. Get it again"
    )


@contextmanager
def _open(path: Path) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    """A file to read from, unpacked if it is gzip; what goes wrong is a `BadTrace`."""
    try:
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"
            yield gzip.GzipFile(fileobj=file) if packed else file
    except FileNotFoundError:
        raise BadTrace(f"there is no file {path}: check its name") from None
    except IsADirectoryError:
        raise BadTrace(f"{path} is a folder: name a file in it") from None
    except DAMAGED:
        raise _damaged(path) from None
    except OSError as error:
        raise BadTrace(f"{path} can't be read: {error.strerror or error}") from None
