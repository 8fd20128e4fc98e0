"""A race as frames: where each lane stands after each step, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from blockmgr.contest import Job, Move, Place, Turn, race
from blockmgr.policy import Batched, OnDemand, PreAllocate
from figures.words import isolate, listed, plural

Titles = tuple[str, str]
"""What a lane is called, and what its policy does."""

MOST_JOBS = 6
"""More rows than these don't fit into a lane."""

MOST_STEPS = 60
"""A longer race would have no room on its axis."""


class RaceFilm:
    """Three lanes, from step 0 to the one after which all of them are empty.

    The lanes are `PreAllocate(max_tokens)`, `OnDemand()` and `Batched(k)`.
    Raises `InvalidRequest` for jobs that can't be served, and `ValueError` for a race
    that has no room in its picture.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        k: int,
        max_tokens: int,
        num_blocks: int,
        block_size: int,
    ) -> None:
        _check_size(jobs, num_blocks)
        self.jobs = tuple(jobs)
        self.k = k
        lanes: dict[Titles, OnDemand] = {
            ("Ahead of time", f"room for {max_tokens} tokens at once"): PreAllocate(
                max_tokens
            ),
            ("On demand", "a block when a token needs one"): OnDemand(),
            ("In batches", f"{plural(k, 'block')} whenever one is needed"): Batched(k),
        }
        names = {titles[0]: policy for titles, policy in lanes.items()}
        self.titles = list(lanes)
        self.turns = list(race(jobs, names, num_blocks, block_size).values())
        if len(self) > MOST_STEPS + 1:
            raise ValueError(
                f"this race takes {len(self) - 1} steps, and its picture has room for "
                f"{MOST_STEPS}: shorten the jobs or enlarge the pool"
            )

    def __len__(self) -> int:
        """Number of frames: the steps of the slowest lane, and the start."""
        return max(map(len, self.turns))

    def turn(self, lane: int, step: int) -> Turn:
        """A lane after `step`; one that is through stays as it is."""
        turns = self.turns[lane]
        return turns[min(step, len(turns) - 1)]

    def finish(self, lane: int, name: str) -> int:
        """In which step a job got its last token in a lane."""
        places = (turn.places[name] for turn in self.turns[lane])
        return next(step for step, where in enumerate(places) if where is Place.DONE)

    # --- in words -------------------------------------------------------------------

    def headline(self, step: int) -> str:
        """The step in one sentence or two, for all lanes."""
        if step == 0:
            return "Before the first step: three empty pools, and nobody is here yet."
        if step == len(self) - 1:
            return f"The race is over. {self._result()}"
        arrived = [isolate(job.name) for job in self.jobs if job.arrives == step]
        verb = "arrives" if len(arrived) == 1 else "arrive"
        start = f"{listed(arrived)} {verb}. " if arrived else ""
        return f"Step {step}. {start}{self._not_served(step)}"

    def _not_served(self, step: int) -> str:
        lanes = [_not_served(self.turn(lane, step)) for lane in range(3)]
        if not any(lanes):
            return "Everybody who is here is served, in all three lanes."
        told = (
            f"{listed(names) or 'nobody'} {title.lower()}"
            for (title, _), names in zip(self.titles, lanes, strict=True)
        )
        return f"Not served: {', '.join(told)}."

    def _result(self) -> str:
        ends = (
            f"{max(self.finish(lane, job.name) for job in self.jobs)} {title.lower()}"
            for lane, (title, _) in enumerate(self.titles)
        )
        return f"The last token came in step {', in step '.join(ends)}."

    def sentence(self, lane: int, step: int) -> str:
        """What happened in one lane."""
        if step == 0:
            return "Nothing has happened yet."
        if step >= len(self.turns[lane]):
            return f"Everybody has left: empty since step {len(self.turns[lane]) - 1}."
        return " ".join(_told(self.turn(lane, step).moves))

    def longest_headline(self) -> str:
        """The one that needs most room on the page."""
        return max(map(self.headline, range(len(self))), key=len)


def _check_size(jobs: Sequence[Job], num_blocks: int) -> None:
    if not 1 <= len(jobs) <= MOST_JOBS:
        raise ValueError(f"a race has 1 to {MOST_JOBS} jobs, got {len(jobs)}")
    if num_blocks > 17:
        raise ValueError(f"a lane draws up to 17 blocks, got {num_blocks}")


def _not_served(turn: Turn) -> list[str]:
    away = (Place.WAITING, Place.STALLED)
    return [isolate(name) for name, place in turn.places.items() if place in away]


# --- the moves of a step, those alike in one sentence ---------------------------------


def _told(moves: Iterable[Move]) -> Iterator[str]:
    """One sentence for all moves that read the same but for the name."""
    alike: dict[tuple[str, str], list[str]] = {}
    for move in moves:
        alike.setdefault(_words(move), []).append(isolate(move.name))
    for (one, many), names in alike.items():
        yield f"{listed(names)} {one if len(names) == 1 else many}."


def _words(move: Move) -> tuple[str, str]:
    """What one does, and what several do."""
    taken = plural(len(move.new), "block") if move.new else ""
    match move.what:
        case "left":
            return "leaves", "leave"
        case "came in":
            return f"comes in and takes {taken}", f"come in and take {taken} each"
        case "got a token" if taken:
            return f"takes {taken}", f"take {taken} each"
        case "got a token":
            return "fills a slot it has", "fill slots they have"
        case "stalled":
            return "stalls: no block is free", "stall: no block is free"
        case "gave way":
            return "gives all its blocks back: nobody could move", ""
    if not move.needed:
        return "waits in line", "wait in line"
    few = plural(move.free, "block is", "blocks are")
    free = few if move.free else "none is"
    return f"waits: it asks for {move.needed}, and {free} free", ""
