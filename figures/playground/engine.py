"""A real block manager that carries out commands, and a toy model beside it.

The model has nothing to say: it counts. What it generates are the tokens `g1`, `g2` and
so on, a new one each time; the numbered tokens of a prompt that was asked for by its
length are new ones too. Typed words are the same token wherever they stand.
"""

from __future__ import annotations

from itertools import count

from blockmgr.events import Event
from blockmgr.sequence import SequenceStatus
from figures.playground.commands import MOST_TOKENS, Command, Pool


class Engine:
    """A manager of `pool`, to which commands can be done that were checked before.

    `labels` is token id -> text, in order of appearance; it grows.
    """

    def __init__(self, pool: Pool) -> None:
        self.manager = pool.manager()
        self.labels: dict[int, str] = {}
        self._words: dict[str, int] = {}
        self._numbered, self._generated = count(1), count(1)

    def lengths(self) -> dict[str, int]:
        """Sequence -> all its tokens, with those that have no slot yet."""
        return {name: len(s.token_ids) for name, s in self.manager.sequences.items()}

    def do(self, command: Command) -> tuple[Event, ...]:
        """Carry out one command; give what happened, at least one event."""
        log = self.manager.log
        assert log is not None
        start = len(log)
        self._carry_out(command)
        return tuple(log.events[start:])

    def _carry_out(self, command: Command) -> None:
        manager, name = self.manager, command.name or ""
        match command.op:
            case "request":
                manager.allocate(name, self._typed(command.text or ""))
            case "numbers":
                manager.allocate(name, self._numbers(command.length or 0))
            case "append":
                manager.append(name, self._typed(command.text or ""))
            case "generate":
                self._go_on(name, command.length or 1)
            case "step":
                self._step()
            case "fork":
                manager.fork(name, command.child or "")
            case "finish":
                manager.free(name)
            case "preempt":
                manager.preempt(name)
            case "resume":
                manager.resume(name)
            case "swap_out":
                manager.swap_out([name])
            case "swap_in":
                manager.swap_in([name])
            case "reset":
                manager.reset_prefix_cache()

    def _step(self) -> None:
        """A token for everybody who runs and may have one more, or waits for the slot
        of one."""
        for name, seq in list(self.manager.sequences.items()):
            may = self._waits(name) or len(seq.token_ids) < MOST_TOKENS
            if seq.status is SequenceStatus.RUNNING and may:
                self._go_on(name, 1)

    def _go_on(self, name: str, length: int) -> None:
        """New tokens; or, where some wait for a slot, these once more (rule 11)."""
        if self._waits(name):
            self.manager.allocate_slots(name)
        else:
            self.manager.append(name, self._says(length))

    def _waits(self, name: str) -> bool:
        seq = self.manager.sequences[name]
        return len(seq.token_ids) > seq.num_computed_tokens

    # --- tokens ---------------------------------------------------------------------

    def _typed(self, text: str) -> list[int]:
        """The ids of a text, one token a word; a word has the id that it had before."""
        for word in text.split():
            if word not in self._words:
                self._words[word] = self._new(word)
        return [self._words[word] for word in text.split()]

    def _numbers(self, length: int) -> list[int]:
        return [self._new(f"{next(self._numbered)}") for _ in range(length)]

    def _says(self, length: int) -> list[int]:
        return [self._new(f"g{next(self._generated)}") for _ in range(length)]

    def _new(self, label: str) -> int:
        """A token that nobody has, shown as `label`."""
        self.labels[len(self.labels)] = label
        return len(self.labels) - 1
