"""Six chats and the smallest server there is: the run that lesson 00 plays.

The prompts and answers are ours. The "model" knows its answers already and gives one
word a step, so that all there is to watch is the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blockmgr import BlockManager, EventLog, Status
from figures.tokeniser import Words


class Chat(NamedTuple):
    """One request: who asks, in which step it arrives, what is asked and answered."""

    name: str
    arrives: int
    prompt: str
    answer: str


TUTOR = "You are a kind tutor . Be brief ."
"""The system prompt that Ada and Ben share: 9 words."""

SIX_CHATS = (
    Chat("Ada", 0, f"{TUTOR} Why is the sky blue ?", "Air scatters blue light most ."),
    Chat("Ben", 1, f"{TUTOR} What is a prime ?", "Two divisors only ."),
    Chat("Cleo", 2, "Tell me a joke .", "A byte walks into a bar ."),
    Chat("Dev", 3, "Name three rivers in Africa .", "Nile , Congo , Niger ."),
    Chat("Eva", 4, "Write about the sea , the wind and a boat .", "Salt sings low ."),
    Chat("Finn", 6, "Good morning in French ?", "Bonjour !"),
)


def serve(
    chats: Sequence[Chat] = SIX_CHATS, num_blocks: int = 13, block_size: int = 4
) -> tuple[EventLog, dict[int, str]]:
    """Serve the chats with a real block manager; give what happened, and the words.

    Each step, every running chat gets its next word; if there is no block for it, the
    chat that came last is preempted. Then those who wait are let in, in order, as long
    as they fit. The whole of it is rules 18 and 19 in small: lesson 09 has the rest.
    """
    words = Words()
    manager = BlockManager(num_blocks, block_size, record=True)
    server = _Server(manager, {c.name: words.encode(c.answer) for c in chats})
    prompts = {chat.name: words.encode(chat.prompt) for chat in chats}
    step = 0
    while step <= max(chat.arrives for chat in chats) or server.busy:
        server.waiting += [c.name for c in chats if c.arrives == step]
        if not server.decode():
            server.admit(prompts)
        step += 1
    assert manager.log is not None
    return manager.log, words.labels


class _Server:
    def __init__(self, manager: BlockManager, answers: dict[str, list[int]]) -> None:
        self.manager = manager
        self.answers = answers
        self.waiting: list[str] = []
        self.running: list[str] = []
        self.preempted: set[str] = set()
        self.stuck = False  # the head of the queue did not fit; nobody left since

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def decode(self) -> bool:
        """One word for every running chat; a chat without words left is finished.

        True if somebody was preempted: then nobody is let in in this step.
        """
        before = len(self.waiting)
        for name in list(self.running):
            if name not in self.running:  # preempted earlier in this step
                continue
            if not self.answers[name]:
                self.running.remove(name)
                self.manager.free(name)
                self.stuck = False
            else:
                self.grow(name)
        return len(self.waiting) > before

    def grow(self, name: str) -> None:
        answer = self.manager.append(name, [self.answers[name].pop(0)])
        while not answer:
            victim = self.running.pop()  # the one that came last
            self.manager.preempt(victim)
            self.stuck = False
            self.preempted.add(victim)
            self.waiting.insert(0, victim)
            if victim == name:
                return
            answer = self.manager.allocate_slots(name)

    def admit(self, prompts: dict[str, list[int]]) -> None:
        """Let in whoever waits, in order, until one must wait; NEVER is sent away."""
        while self.waiting and not self.stuck:
            name = self.waiting[0]
            if name in self.preempted:
                answer = self.manager.resume(name, full_sequence_must_fit=True)
            else:
                answer = self.manager.allocate(name, prompts[name])
            if answer.status is Status.LATER:
                self.stuck = True
                return
            self.waiting.pop(0)
            if answer:
                self.running.append(name)
            elif name in self.preempted:  # it grew beyond the whole pool: give up
                self.manager.free(name)
            self.preempted.discard(name)
