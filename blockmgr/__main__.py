"""The command line: `python -m blockmgr COMMAND`. Try `--help`.

Exit codes: 0 all is well, 1 something differs or is missing, 2 a bad file or argument.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from blockmgr.catalogue import TRACES
from blockmgr.doctor import doctor, is_ready, report
from blockmgr.errors import BlockManagerError
from blockmgr.screen import complain
from blockmgr.simulate import POLICIES

MOST_DIGITS = 12  # no machine has 10**12 blocks
DEFAULT_SIZES = "1000,10000,100000"

Command = Callable[[argparse.Namespace], int]
"""What a command does with the arguments that were given: returns the exit code."""


class Parser(argparse.ArgumentParser):
    """An argument parser that complains in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with exit code 2."""
        complain(f"{message} (try: {self.prog} --help)")
        sys.exit(2)


Add = Callable[[str, str, Command], Parser]
"""Makes the parser of one command from its name, what it does, and what to run."""


def parser() -> Parser:
    """The commands and their arguments."""
    about = "A block manager for the KV cache of an LLM server, from the command line."
    top = Parser(prog="python -m blockmgr", description=about)
    sub = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, about: str, run: Command) -> Parser:
        command = sub.add_parser(name, help=about, description=about)
        command.set_defaults(run=run)
        return command

    for arguments in (_replay, _simulate, _bench, _doctor, _data):
        arguments(add)
    return top


def _replay(add: Add) -> None:
    about = (
        "Replay recorded runs of vLLM through our manager and compare every field of "
        "every step. Exits with 1 if any differ, with 2 on a bad file."
    )
    command = add("replay", about, lambda it: _rich().run_replay(it.files))
    command.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        type=Path,
        help="a recording (.jsonl or .jsonl.gz); default: all that come with this",
    )


def _simulate(add: Add) -> None:
    about = (
        "Serve a trace of real requests through pools of several sizes and print how "
        "many tokens the prefix cache saves."
    )
    command = add(
        "simulate",
        about,
        lambda it: _rich().run_simulate(it.trace, it.blocks, it.policy, it.json),
    )
    command.add_argument(
        "trace",
        metavar="TRACE",
        help="a file in Mooncake's format, or the name of a trace (see: data --list)",
    )
    command.add_argument(
        "--blocks",
        type=sizes,
        default=DEFAULT_SIZES,
        metavar="N,N,...",
        help="usable blocks of each pool, 512 tokens a block (default: %(default)s)",
    )
    command.add_argument(
        "--policy",
        choices=POLICIES,
        default=POLICIES[0],
        help="which free block is overwritten first (default: %(default)s)",
    )
    command.add_argument("--json", action="store_true", help="print JSON, no table")


def _bench(add: Add) -> None:
    about = (
        "Time the manager's basic operations, in nanoseconds and in units that can be "
        "compared across machines, beside the targets."
    )
    command = add(
        "bench", about, lambda it: _rich().run_bench(it.quick, it.flat, it.json)
    )
    command.add_argument("--quick", action="store_true", help="less exact, in seconds")
    command.add_argument(
        "--flat",
        action="store_true",
        help="also in pools of 1,000 to 1,000,000 blocks (needs 0.6 GB)",
    )
    command.add_argument("--json", action="store_true", help="print JSON, no table")


def _doctor(add: Add) -> None:
    about = "Say what this machine has for the course, and what to do about the rest."
    add("doctor", about, lambda it: _examine())


def _data(add: Add) -> None:
    about = (
        "Download traces of real requests from their authors' homes into "
        "$BLOCKMGR_DATA, or else into your cache. Lessons run without them."
    )
    command = add("data", about, lambda it: _rich().run_data(it.names, it.list))
    command.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        type=trace_name,
        help="a trace to get; default: the four that can be downloaded",
    )
    command.add_argument(
        "--list", action="store_true", help="only list them, with their licences"
    )


def _examine() -> int:
    findings = doctor()
    print(report(findings))
    return 0 if is_ready(findings) else 1


class MissingPackage(BlockManagerError):
    """A command needs a package that is not installed."""


def _rich() -> ModuleType:
    """The commands that use rich, imported late: `doctor` must run without it."""
    try:
        return import_module("blockmgr.commands")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "rich":
            raise
        raise MissingPackage("this command needs rich: run `make lab`") from None


def sizes(text: str) -> list[int]:
    """`1000,10000` as numbers of blocks."""
    return [_size(piece) for piece in text.split(",")]


def _size(piece: str) -> int:
    digits = piece.strip()
    whole = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
    if whole and int(digits) > 0:
        return int(digits)
    raise argparse.ArgumentTypeError(
        f"expected numbers of blocks above 0 and below 10**{MOST_DIGITS}, "
        f"like 1000,10000, got {piece[:40]!r}"
    )


def trace_name(text: str) -> str:
    """The name of a trace that we know."""
    if text in TRACES:
        return text
    message = f"no trace is called {text[:40]!r}: choose {', '.join(TRACES)}"
    raise argparse.ArgumentTypeError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if sys.stdout is None:  # closed by the shell: there is nobody to tell
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    given = parser().parse_args(arguments)
    try:
        code = int(given.run(given))
        sys.stdout.flush()  # so that a reader who has left is noticed here
        return code
    except BlockManagerError as error:
        complain(error)
        return 2
    except MemoryError:
        complain("there is not enough memory for so many blocks: ask for fewer")
        return 2
    except KeyboardInterrupt:
        complain("stopped")
        return 130
    except BrokenPipeError:  # `| head` has seen enough; say nothing more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        complain(f"the output could not be written: {error.strerror or error}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


if __name__ == "__main__":
    sys.exit(main())
