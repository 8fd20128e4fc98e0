"""Profiles: what was measured on real traces, small enough to come with the project.

A profile holds figures of one trace (a histogram of lengths, hit counts, ...) with the
trace's source and the command that made it. Lessons draw requests from it, so that
they run anywhere and give everybody the same output. `tests/realdata/` computes every
figure again from the trace itself.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate
from random import Random
from typing import Any

from blockmgr.errors import InvalidRequest
from blockmgr.workloads import Lengths, MissingTrace

Cell = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Profile:
    """The figures of one trace.

    `trace` is its name in `catalogue.TRACES`, `source` says whose it is (origin,
    licence, sha256), `command` how the profile was made. `figures` are exact.
    `lengths` is a joint histogram: each cell is (start of the prompt's bucket, start of
    the output's bucket, number of requests).
    """

    name: str
    trace: str
    source: dict[str, Any]
    command: str
    figures: dict[str, Any]
    lengths: tuple[Cell, ...]

    def draw(self, n: int, seed: int) -> list[Lengths]:
        """`n` requests with lengths as in the trace; the same ones for the same seed.

        A cell is drawn in proportion to its count, then each length evenly from its
        bucket, up to the largest one of the trace. Only `random()` is used, because
        Python promises its values forever, but not those of `randint` or `choices`.
        """
        if n < 0:
            raise InvalidRequest(f"can't draw {n} requests: ask for 0 or more")
        rng = Random(seed)
        ends = list(accumulate(count for _, _, count in self.lengths))
        longest = self.figures["prompt_tokens"]["largest"]
        most = self.figures["output_tokens"]["largest"]
        drawn = []
        for _ in range(n):
            cell = bisect_right(ends, int(rng.random() * ends[-1]))
            prompt, output, _ = self.lengths[cell]
            prompt, output = _within(prompt, longest, rng), _within(output, most, rng)
            drawn.append(Lengths(prompt, output))
        return drawn


def bucket(length: int) -> int:
    """The start of a length's bucket: its three leading binary digits, then zeros.

    So 0 to 7 stand alone, and wider buckets span at most a quarter of their start.
    Example: 1000 to 1023 lie in bucket 896, whose width is 128.
    """
    shift = max(length.bit_length() - 3, 0)
    return length >> shift << shift


def bucket_width(start: int) -> int:
    """How many lengths share the bucket that begins at `start`."""
    return 1 << max(start.bit_length() - 3, 0)


def _within(start: int, largest: int, rng: Random) -> int:
    width = min(bucket_width(start), largest + 1 - start)
    return start + int(rng.random() * width)


def profile_names() -> list[str]:
    """The profiles that come with the project."""
    folder = resources.files("blockmgr") / "profiles"
    return sorted(
        entry.name.removesuffix(".json")
        for entry in folder.iterdir()
        if entry.name.endswith(".json")
    )


def load_profile(name: str) -> Profile:
    """A profile by its name. Raises `MissingTrace` with the names there are."""
    if name not in profile_names():
        known = ", ".join(profile_names())
        raise MissingTrace(f"no profile is called {name!r}: choose {known}")
    file = resources.files("blockmgr") / "profiles" / f"{name}.json"
    held = json.loads(file.read_text(encoding="utf-8"))
    held["lengths"] = tuple((p, o, count) for p, o, count in held["lengths"])
    return Profile(**held)
