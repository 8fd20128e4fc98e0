"""What a person can ask of the playground: small values that can be kept in a file.

A `Pool` says what the manager is made of, a `Command` is one act. A list of commands
is all that a session is: the manager is deterministic, so the same list always leads to
the same state. Undo, redo, scenarios and files stand on that.
"""

from __future__ import annotations

from typing import NamedTuple

from blockmgr import BlockManager
from blockmgr.errors import BlockManagerError

BLOCKS = range(4, 65)
"""Blocks that a pool can have, block 0 included."""

SIZES = range(1, 17)
"""Slots that a block can have."""

HOST_BLOCKS = range(17)
"""Blocks of host memory that a pool can have beside it."""

MOST_SEQUENCES = 8
"""Sequences that can be there at one time, wherever they are."""

MOST_TOKENS = 200
"""Tokens that a sequence can have."""

MOST_STEPS = 500
"""Commands that a session keeps. Each of them can be undone."""

MOST_NAME = 20
"""Characters of a name."""

MOST_TEXT = 2_000
"""Characters of a prompt."""

MOST_TYPED = 40_000
"""Characters of all prompts of a session together: its file stays small."""


class CantDo(BlockManagerError, ValueError):
    """The playground can't do this now. The message says why, and what to do."""


class Pool(NamedTuple):
    """What a manager is made of; `num_blocks` counts block 0, which nobody gets."""

    num_blocks: int = 12
    block_size: int = 4
    num_host_blocks: int = 0
    enable_caching: bool = True

    def checked(self) -> Pool:
        """The pool itself. Raises `CantDo` for what is not offered here."""
        for field, allowed in OFFERED.items():
            value = getattr(self, field)
            if type(value) is not int or value not in allowed:
                least, most = allowed[0], allowed[-1]
                raise CantDo(
                    f"{field} must be a whole number from {least} to {most}, "
                    f"got {value!r:.20}"
                )
        if not isinstance(self.enable_caching, bool):
            raise CantDo("enable_caching must be true or false")
        return self

    def manager(self) -> BlockManager:
        """A new manager that records what happens to it."""
        return BlockManager(
            self.num_blocks,
            self.block_size,
            num_host_blocks=self.num_host_blocks,
            enable_caching=self.enable_caching,
            record=True,
        )


OFFERED = {"num_blocks": BLOCKS, "block_size": SIZES, "num_host_blocks": HOST_BLOCKS}


class Command(NamedTuple):
    """One act: `op`, and those of the other fields that `FIELDS` names for it."""

    op: str
    name: str | None = None
    text: str | None = None
    length: int | None = None
    child: str | None = None


FIELDS: dict[str, tuple[str, ...]] = {
    "request": ("name", "text"),
    "numbers": ("name", "length"),
    "append": ("name", "text"),
    "generate": ("name", "length"),
    "step": (),
    "fork": ("name", "child"),
    "finish": ("name",),
    "preempt": ("name",),
    "resume": ("name",),
    "swap_out": ("name",),
    "swap_in": ("name",),
    "reset": (),
}
"""Op -> the fields that it has, all of them and no others.

`request` comes with a typed prompt, `numbers` with a prompt of `length` numbered tokens
that nobody else has. `append` adds typed words to a sequence, `generate` so many tokens
of the model. `step` gives one to every running sequence.
"""


def what_is_wrong(command: Command) -> str:
    """Why the command could stand in no session: an op that there isn't, other fields
    than it has, or one beyond the limits. Nothing if it could."""
    if command.op not in FIELDS:
        return f"there is no {command.op!r:.40}: {', '.join(FIELDS)}"
    fields = FIELDS[command.op]
    for field in ("name", "text", "length", "child"):
        if (getattr(command, field) is not None) != (field in fields):
            wanted = " and ".join(fields) or "nothing else"
            return f"{command.op} needs {wanted}"
    for name in (command.name, command.child):
        if name is not None and (not name.strip() or len(name) > MOST_NAME):
            return f"a name has 1 to {MOST_NAME} characters"
    if command.length is not None and not 1 <= command.length <= MOST_TOKENS:
        return f"a length is a whole number from 1 to {MOST_TOKENS}"
    return "" if command.text is None else _wrong_text(command.text)


def _wrong_text(text: str) -> str:
    words = len(text.split())
    if len(text) > MOST_TEXT:
        return f"a text has at most {MOST_TEXT:,} characters here"
    if not words:
        return "type a prompt first, or its length as a number, such as 12"
    if words > MOST_TOKENS:
        return f"{words:,} words are too many: at most {MOST_TOKENS} tokens here"
    return ""
