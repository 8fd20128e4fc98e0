"""What the scheduler is handed and what it hands on: requests, and steps of the model.

In vLLM: `Request` and `RequestStatus` in `vllm/v1/request.py`, and `SchedulerOutput` in
`vllm/v1/core/sched/output.py` (release 0.33). FINISHED_NEVER is ours: there, a request
that can't fit waits for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from blockmgr.checks import check_count, check_name, extra_keys
from blockmgr.errors import InvalidRequest
from blockmgr.sequence import pack_tokens


class RequestStatus(StrEnum):
    """Where a request is. The four that begin with FINISHED are final."""

    WAITING = "waiting"  # holds nothing yet
    RUNNING = "running"
    PREEMPTED = "preempted"  # holds nothing, and computes all its tokens again
    SWAPPED = "swapped"  # holds blocks of the host
    FINISHED_STOPPED = "stopped"  # by one of its stop tokens
    FINISHED_LENGTH_CAPPED = "length"  # has all the tokens it may have
    FINISHED_ABORTED = "aborted"
    FINISHED_NEVER = "never"  # can't fit into the pool, not even alone


class Refusal(NamedTuple):
    """Why a request ended as FINISHED_NEVER: its tokens need so many blocks, and the
    pool has so many. A larger pool helps, or a shorter prompt and fewer `max_tokens`.
    """

    needed: int
    usable: int


@dataclass(eq=False)
class Request:
    """What somebody asks for, and what became of it so far.

    At most `max_tokens` tokens are generated, fewer if one of `stop_token_ids` comes.
    A smaller `priority` is more urgent. `arrival` counts the requests as they come.

    Raises `InvalidRequest` for values that can't mean anything.
    """

    request_id: str
    prompt_token_ids: Sequence[int]
    max_tokens: int
    priority: int = 0
    stop_token_ids: Collection[int] = ()
    cache_salt: str | None = None
    status: RequestStatus = field(default=RequestStatus.WAITING, init=False)
    arrival: int = field(default=-1, init=False)
    output_token_ids: list[int] = field(default_factory=list, init=False)
    num_computed_tokens: int = field(default=0, init=False)
    num_preemptions: int = field(default=0, init=False)
    refusal: Refusal | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_name(self.request_id)
        self.prompt_token_ids = pack_tokens(self.prompt_token_ids)
        check_count("number of prompt tokens", len(self.prompt_token_ids), 1)
        check_count("max_tokens", self.max_tokens, 1)
        self.stop_token_ids = frozenset(pack_tokens(self.stop_token_ids))
        extra_keys(None, (), self.cache_salt)
        if not isinstance(self.priority, int):
            raise InvalidRequest(
                f"priority must be a whole number, got {self.priority!r}"
            )

    @property
    def num_tokens(self) -> int:
        """Tokens that it has, those of the prompt and those generated."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)


class Scheduled(NamedTuple):
    """The blocks that a request gets in a step, and its tokens computed before it.

    One that comes in or comes back gets its whole table. With two groups these are the
    blocks of the first; `BlockManager.block_table` has the others.
    """

    block_ids: tuple[int, ...]
    num_computed_tokens: int


@dataclass(eq=False)
class SchedulerOutput:
    """What the model has to do in one step.

    `num_scheduled_tokens` says how many tokens of which request, in the order in which
    they were scheduled. `to_sample` names those whose last token is among them: the
    model chooses the next one. Copies, pairs of block ids (from, to), come before
    anything else: out to the host, in from it, then within the pool. `finished_req_ids`
    ended since the step before this one.
    """

    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    scheduled_new_reqs: dict[str, Scheduled] = field(default_factory=dict)
    scheduled_cached_reqs: dict[str, Scheduled] = field(default_factory=dict)
    to_sample: set[str] = field(default_factory=set)
    preempted_req_ids: list[str] = field(default_factory=list)
    resumed_req_ids: list[str] = field(default_factory=list)
    finished_req_ids: list[str] = field(default_factory=list)
    blocks_to_swap_out: list[tuple[int, int]] = field(default_factory=list)
    blocks_to_swap_in: list[tuple[int, int]] = field(default_factory=list)
    blocks_to_copy: list[tuple[int, int]] = field(default_factory=list)

    @property
    def total_num_scheduled_tokens(self) -> int:
        """Tokens that the step computes."""
        return sum(self.num_scheduled_tokens.values())

    def give(self, request: Request, n: int, block_ids: tuple[int, ...]) -> None:
        """Compute the `n` next tokens of a request; with 0 it only gets its blocks."""
        name, computed = request.request_id, request.num_computed_tokens
        self.scheduled_cached_reqs[name] = Scheduled(block_ids, computed)
        if n:
            self.num_scheduled_tokens[name] = n
        if computed + n == request.num_tokens:
            self.to_sample.add(name)

    def take_back(self, request: Request) -> int:
        """Undo `give`, and say for how many tokens it was."""
        self.scheduled_cached_reqs.pop(request.request_id, None)
        self.to_sample.discard(request.request_id)
        return self.num_scheduled_tokens.pop(request.request_id, 0)
