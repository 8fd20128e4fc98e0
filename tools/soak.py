"""A long random walk: the manager, its memory and the host's, for a million calls.

    make soak                                    1,000,000 calls, about 15 minutes
    make soak ARGS="--minutes 2"                 as far as two minutes go
    make soak ARGS="--seed 7 --operations 5000"  another walk, a short one

What is called and what must hold after each call stands in `tests/oracle_data.py`.
Each 2,000 calls a new manager of another kind and size begins, with a seed of its own:
`--seed` for the first, and one more for each that follows. When something is wrong, the
seed, the manager and the last calls are shown, and the line that does it again.

The exit status is 0 if all was right, 1 if not, 2 if it could not be asked for so.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for `tests`, when this is run as a script

from tests.oracle_data import Configuration, Tally, World  # noqa: E402

OPERATIONS = 1_000_000
CALLS_EACH = 2_000  # calls on one manager
AUDIT_EVERY, RETRY_EVERY = 16, 16
SECONDS_A_LINE = 30.0  # between two lines where there is no terminal


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    if given.operations < 1 or given.minutes <= 0:
        print("soak: ask for 1 operation or more, and for some time", file=sys.stderr)
        return 2
    if not __debug__:
        print("soak: python -O leaves the checks out, run it without", file=sys.stderr)
        return 2
    console = Console(highlight=False, soft_wrap=True)
    soak = Soak(console, given.seed, given.operations, given.minutes * 60)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny
    try:
        alright = soak.run()
    finally:
        torch.set_num_threads(threads)
    if alright:
        soak.report()
    return 0 if alright else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="at most")
    return parser


class Soak:
    """The walk as a whole: which managers, how far, and what came of it."""

    def __init__(
        self, console: Console, seed: int, operations: int, seconds: float
    ) -> None:
        self.console, self.seed, self.operations = console, seed, operations
        self.start = time.monotonic()
        self.ends, self.next_line = self.start + seconds, self.start + SECONDS_A_LINE
        self.done = 0
        self.tally = Tally()
        self.kinds: Counter[str] = Counter()

    def run(self) -> bool:
        """Walk until the calls or the time are used up. False if something is wrong."""
        bar = Progress(
            TextColumn("soak"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}/s"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        with bar:
            task = bar.add_task("soak", total=self.operations, rate="0")
            seed = self.seed
            while self.done < self.operations and time.monotonic() < self.ends:
                if not self.walk(seed, bar, task):
                    return False
                seed += 1
        return True

    def walk(self, seed: int, bar: Progress, task: TaskID) -> bool:
        """One manager, from the first call until all its sequences have left."""
        rng = random.Random(seed)
        configuration = Configuration.draw(rng)
        world = World(configuration, audit_every=AUDIT_EVERY, retry_every=RETRY_EVERY)
        calls = min(CALLS_EACH, self.operations - self.done)
        try:
            while world.steps < calls - 1 and time.monotonic() < self.ends:
                world.step(rng)
                if world.steps % 200 == 0:
                    self.tell(self.done + world.steps, bar, task)
            world.finish()  # the last call: everybody leaves
        except Exception:
            self.complain(seed, world, calls)
            return False
        self.done += world.steps
        self.tally.add(world.tally)
        self.kinds[configuration.kind] += world.steps
        return True

    def tell(self, done: int, bar: Progress, task: TaskID) -> None:
        """Where we are: on the bar, or now and then in a line."""
        now = time.monotonic()
        rate = f"{done / (now - self.start):,.0f}"
        if self.console.is_terminal:
            bar.update(task, completed=done, rate=rate)
        elif now >= self.next_line:
            self.next_line = now + SECONDS_A_LINE
            self.console.print(f"{done:,} of {self.operations:,} calls, {rate}/s")

    def complain(self, seed: int, world: World, calls: int) -> None:
        """What was wrong, where, and how to see it again."""
        say = self.console.print
        say(f"\nWRONG after {self.done + world.steps:,} calls", style="bold red")
        say(
            f"seed {seed}, call {world.steps} on {world.configuration}",
            markup=False,
        )
        for line in world.history:
            say(f"  {line}", markup=False)
        say(traceback.format_exc(limit=-6), markup=False)
        say(f"again: make soak ARGS='--seed {seed} --operations {calls}'")

    def report(self) -> None:
        """What was done, and what the answers were."""
        tally, seconds = self.tally, time.monotonic() - self.start
        table = Table("call", "OK", "LATER", "NEVER", "other", box=None)
        for column in table.columns[1:]:
            column.justify = "right"
        for name in dict.fromkeys(name for name, _ in tally.calls):
            counts = {s: n for (what, s), n in tally.calls.items() if what == name}
            three = [counts.pop(status, 0) for status in ("OK", "LATER", "NEVER")]
            others = ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items()))
            table.add_row(name, *(f"{n:,}" if n else "" for n in three), others)
        say = self.console.print
        say(table)
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in sorted(self.kinds.items()))
        say(f"\n{self.done:,} calls in {seconds:,.0f} s ({self.done / seconds:,.0f}/s)")
        say(f"managers: {kinds}")
        say(
            f"blocks: {tally.copies:,} copied on write, {tally.swapped_out:,} swapped "
            f"out, {tally.swapped_in:,} swapped in, {tally.evictions:,} evicted, "
            f"{tally.blocks_poisoned:,} poisoned"
        )
        say(
            f"tokens: {tally.tokens_written:,} written, {tally.tokens_read:,} read and "
            f"compared; {tally.refusals_tried_again:,} refusals tried again"
        )
        if self.done < self.operations:
            say(f"stopped by --minutes before {self.operations:,} calls")
        say(f"{tally.blocks_lost} blocks lost")


if __name__ == "__main__":
    sys.exit(main())
