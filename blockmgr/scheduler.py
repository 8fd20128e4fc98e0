"""The scheduler: whose tokens the model computes in its next step.

A step has room for so many tokens. `Scheduler.schedule` shares them out and reads like
the two rules that it follows: those that run come first, and get their blocks at the
cost of the least urgent (rule 18); only if nobody had to be sent back does anybody come
in, up to the first that does not fit (rule 19). The model then runs, and
`update_from_output` takes the tokens that it chose.

In vLLM: `Scheduler` in `vllm/v1/core/sched/scheduler.py` (release 0.33). That one
preempts by recompute only and without a bound, and waits for ever for what can't fit;
swapping is as in `vllm/core/scheduler.py` (release 0.6.3).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from typing import Any

from blockmgr.answers import Allocation, Status
from blockmgr.block import NULL_BLOCK_ID
from blockmgr.checks import check_count
from blockmgr.errors import DuplicateSequence, InvalidRequest, UnknownSequence
from blockmgr.manager import BlockManager
from blockmgr.request import Refusal, Request, RequestStatus, SchedulerOutput
from blockmgr.sequence import pack_tokens

ENDS = tuple(status for status in RequestStatus if status.name.startswith("FINISHED"))


class Scheduler:
    """Shares out the steps of the model, over a `BlockManager` that is its own.

    At most `max_num_seqs` requests run, and a step computes at most
    `max_num_batched_tokens` tokens: a longer prompt comes in chunks. `policy` is "fcfs"
    (first come, first served) or "priority". `full_sequence_must_fit` lets a request in
    when all its tokens have room, and not just its first chunk.

    `preemption` is "recompute", or "swap": into the host pool, and recompute where that
    has no room. `max_preemptions` bounds how often one request is sent back. One that
    reached it waits until nobody runs; then whoever comes in after it is sent back in
    its place, so it runs to its end. None is no bound, as in vLLM.

    Raises `InvalidRequest` for values that can't work.
    """

    def __init__(
        self,
        manager: BlockManager,
        *,
        max_num_seqs: int = 128,
        max_num_batched_tokens: int = 2048,
        policy: str = "fcfs",
        preemption: str = "recompute",
        full_sequence_must_fit: bool = True,
        max_preemptions: int | None = None,
    ) -> None:
        check_count("max_num_seqs", max_num_seqs, 1)
        check_count("max_num_batched_tokens", max_num_batched_tokens, 1)
        _check_choice("policy", policy, "fcfs", "priority")
        _check_choice("preemption", preemption, "recompute", "swap")
        if preemption == "swap" and manager.host is None:
            raise InvalidRequest("swap needs a BlockManager with num_host_blocks")
        if max_preemptions is not None:
            check_count("max_preemptions", max_preemptions, 1)
        self.manager = manager
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.policy = policy
        self.preemption = preemption
        self.full_sequence_must_fit = full_sequence_must_fit
        self.max_preemptions = max_preemptions
        self.requests: dict[str, Request] = {}  # all that have not ended
        self.running: list[Request] = []
        self.waiting: list[Request] = []  # new ones and preempted ones, by rank
        self.swapped: list[Request] = []  # by rank
        self._num_arrived = 0
        self._ended: list[str] = []
        self._in_flight: SchedulerOutput | None = None

    # --- a step ---------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
        """Decide what the model computes in its next step.

        Raises `InvalidRequest` while the step before is not handed back.
        """
        if self._in_flight is not None:
            raise InvalidRequest("hand the last step to update_from_output first")
        step = SchedulerOutput()
        self._schedule_running(step)
        if not step.preempted_req_ids:
            self._admit(self.swapped, step)
            if not self.swapped:
                self._admit(self.waiting, step)
        step.finished_req_ids, self._ended = self._ended, []
        self._in_flight = step
        return step

    def _schedule_running(self, step: SchedulerOutput) -> None:
        """Rule 18: those that run get their next tokens, at the cost of others."""
        for request in list(self.running):
            n = self._next_tokens(request, step)
            # It may be sent back in its turn, or before, to make room for another.
            while n > 0 and request.status is RequestStatus.RUNNING:
                answer = self.manager.allocate_slots(request.request_id, n)
                if answer:
                    step.give(request, n, answer.new_blocks)
                    step.blocks_to_copy += answer.copies
                    break
                # LATER means when others have left. With no others it means never.
                if answer.status is Status.NEVER or self.running == [request]:
                    self._end_as_never(request)
                else:
                    self._preempt(self._victim(), step)

    def _admit(self, queue: list[Request], step: SchedulerOutput) -> None:
        """Rule 19: others come in, up to the first that does not fit."""
        while queue and self._has_place(queue[0], step):
            request = queue[0]
            answer = self._ask_for_room(request, self._budget(step))
            if answer:
                self._start(queue.pop(0), answer, step)
            elif answer.status is Status.NEVER or not self.running:
                self._end_as_never(request)
            else:
                return

    def _ask_for_room(self, request: Request, num_tokens: int) -> Allocation:
        name = request.request_id
        if request.status is RequestStatus.SWAPPED:
            return self.manager.swap_in([name])
        how: dict[str, Any] = {
            "num_tokens": num_tokens,
            "full_sequence_must_fit": self.full_sequence_must_fit,
        }
        if request.status is RequestStatus.PREEMPTED:
            return self.manager.resume(name, **how)
        salt, tokens = request.cache_salt, request.prompt_token_ids
        return self.manager.allocate(name, tokens, cache_salt=salt, **how)

    def _start(
        self, request: Request, answer: Allocation, step: SchedulerOutput
    ) -> None:
        """Let a request run that has just got room."""
        name, before = request.request_id, request.status
        request.status = RequestStatus.RUNNING
        self.running.append(request)
        n = answer.num_scheduled_tokens
        if before is RequestStatus.SWAPPED:
            # Its blocks are back, but its next tokens have no slots yet. If there is
            # no room for them now, it asks again in the next step, as one that runs.
            step.blocks_to_swap_in += answer.copies
            n = self._next_tokens(request, step)
            n = n if self.manager.allocate_slots(name, n) else 0
        else:
            request.num_computed_tokens = answer.num_cached_tokens
        step.give(request, n, self.manager.block_table(name))
        if before is RequestStatus.WAITING:
            step.scheduled_new_reqs[name] = step.scheduled_cached_reqs.pop(name)
        else:
            step.resumed_req_ids.append(name)

    # --- sending back ---------------------------------------------------------------

    def _victim(self) -> Request:
        """The last by rank; with equal urgency that is the last that came in."""
        return max((r for r in self.running if not self._at_bound(r)), key=self._rank)

    def _preempt(self, victim: Request, step: SchedulerOutput) -> None:
        """Send a running request back, to its place in front of those that wait."""
        self.running.remove(victim)
        victim.num_preemptions += 1
        step.preempted_req_ids.append(victim.request_id)
        n = step.take_back(victim)
        if not self._swap_out(victim, n, step):
            unwritten = self._unwritten(victim, n)
            self.manager.preempt(victim.request_id)
            if unwritten:
                self.manager.evict_blocks(unwritten)
            victim.status = RequestStatus.PREEMPTED
            victim.num_computed_tokens = 0
            insort(self.waiting, victim, key=self._rank)

    def _swap_out(self, victim: Request, n: int, step: SchedulerOutput) -> bool:
        """Move a victim to the host. False if it must be computed again instead: there
        is no room, the `n` tokens of this step are not written yet, or it holds so much
        that it could never come back (`swap_in` asks for one block more)."""
        name = victim.request_id
        held = self._blocks(name, 0, victim.num_tokens)
        too_many = len(held) == self.manager.pool.num_usable_blocks
        if self.preemption != "swap" or n or too_many:
            return False
        moved = self.manager.swap_out([name])
        if moved:
            step.blocks_to_swap_out += moved.copies
            victim.status = RequestStatus.SWAPPED
            insort(self.swapped, victim, key=self._rank)
        return bool(moved)

    def _unwritten(self, victim: Request, n: int) -> set[int]:
        """Blocks that the `n` tokens of this step were to fill. They are in the prefix
        cache already (rule 6) and must not stay there: nobody will write them."""
        computed, size = victim.num_computed_tokens, self.manager.block_size
        return self._blocks(victim.request_id, computed // size, (computed + n) // size)

    def _blocks(self, name: str, first: int, last: int) -> set[int]:
        """The blocks in places `first` to `last - 1` of a request's tables."""
        groups = range(len(self.manager.groups))
        tables = [self.manager.block_table(name, group) for group in groups]
        return {b for table in tables for b in table[first:last]} - {NULL_BLOCK_ID}

    # --- the model has run ----------------------------------------------------------

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, int]
    ) -> list[Request]:
        """Take the tokens that the model chose; the requests that end with them.

        Those are freed in the order in which they were scheduled.
        Raises `InvalidRequest` if this is not the last step, or if there is not one
        token for each of its `to_sample`.
        """
        if self._in_flight is None or output is not self._in_flight:
            raise InvalidRequest("expected the output of the last schedule(), once")
        if not isinstance(sampled_token_ids, Mapping):
            raise InvalidRequest(f"expected a dict, got {sampled_token_ids!r:.40}")
        if sampled_token_ids.keys() != output.to_sample:
            raise InvalidRequest(
                f"expected a token for each of {sorted(output.to_sample)}, "
                f"got them for {sorted(sampled_token_ids, key=str)}"
            )
        tokens = pack_tokens(sampled_token_ids.values())
        sampled = dict(zip(sampled_token_ids, tokens, strict=True))
        self._in_flight = None
        ended = []
        for name, n in output.num_scheduled_tokens.items():
            request = self.requests.get(name)
            if request is None or request.status is not RequestStatus.RUNNING:
                continue  # aborted while the model ran
            request.num_computed_tokens += n
            if name in sampled:
                self._take_token(request, sampled[name])
            if name not in self.requests:
                ended.append(request)
        return ended

    def _take_token(self, request: Request, token_id: int) -> None:
        request.output_token_ids.append(token_id)
        capped = len(request.output_token_ids) == request.max_tokens
        longest = self.manager.max_model_len
        if token_id in request.stop_token_ids:
            self._finish(request, RequestStatus.FINISHED_STOPPED)
        elif capped or (longest is not None and request.num_tokens >= longest):
            self._finish(request, RequestStatus.FINISHED_LENGTH_CAPPED)
        else:
            self.manager.add_tokens(request.request_id, [token_id])

    # --- coming and going -----------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Let a new request wait behind the others, or at its place by priority.

        Raises `DuplicateSequence`, and `InvalidRequest` for one that was here before
        or is longer than `max_model_len`.
        """
        if not isinstance(request, Request):
            raise InvalidRequest(f"expected a Request, got {request!r:.40}")
        name, longest = request.request_id, self.manager.max_model_len
        if name in self.requests or name in self.manager.sequences:
            raise DuplicateSequence(f"request {name!r} is here: choose another name")
        if request.arrival >= 0:
            raise InvalidRequest(f"request {name!r} was here before: make a new one")
        if longest is not None and request.num_tokens > longest:
            raise InvalidRequest(
                f"request {name!r} has {request.num_tokens} tokens, more than "
                f"max_model_len={longest}: shorten its prompt"
            )
        request.arrival = self._num_arrived
        self._num_arrived += 1
        self.requests[name] = request
        insort(self.waiting, request, key=self._rank)

    def finish_requests(
        self,
        request_ids: str | Iterable[str],
        status: RequestStatus = RequestStatus.FINISHED_ABORTED,
    ) -> None:
        """End requests from outside (an abort), whatever they are doing.

        Raises `UnknownSequence` for one that is not here, or no longer.
        """
        names = [request_ids] if isinstance(request_ids, str) else request_ids
        if not isinstance(names, Iterable):
            raise InvalidRequest(f"expected the ids of requests, got {names!r}")
        requests = [self._known(name) for name in names]
        if not any(status is end for end in ENDS):
            raise InvalidRequest(f"{status!r} is no end: choose one of {ENDS}")
        for request in dict.fromkeys(requests):
            self._finish(request, status)

    def has_requests(self) -> bool:
        """Whether anybody is left who runs or waits."""
        return bool(self.requests)

    def _end_as_never(self, request: Request) -> None:
        # The tokens fill so many blocks in each group of layers.
        needed = self.manager.blocks_for(request.num_tokens) * len(self.manager.groups)
        request.refusal = Refusal(needed, self.manager.pool.num_usable_blocks)
        self._finish(request, RequestStatus.FINISHED_NEVER)

    def _finish(self, request: Request, status: RequestStatus) -> None:
        if request.status is not RequestStatus.WAITING:
            self.manager.free(request.request_id)
        for queue in (self.running, self.waiting, self.swapped):
            if request in queue:
                queue.remove(request)
        request.status = status
        self._ended.append(request.request_id)
        del self.requests[request.request_id]

    def _known(self, name: str) -> Request:
        try:
            return self.requests[name]
        except (KeyError, TypeError):
            here = ", ".join(map(repr, self.requests)) or "none"
            raise UnknownSequence(
                f"no request {name!r} here (there are: {here})"
            ) from None

    # --- small questions ------------------------------------------------------------

    def _rank(self, request: Request) -> tuple[int, int]:
        """A request's place among the others, the smallest first."""
        urgency = request.priority if self.policy == "priority" else 0
        return urgency, request.arrival

    def _budget(self, step: SchedulerOutput) -> int:
        return self.max_num_batched_tokens - step.total_num_scheduled_tokens

    def _next_tokens(self, request: Request, step: SchedulerOutput) -> int:
        pending = request.num_tokens - request.num_computed_tokens
        return min(pending, self._budget(step))

    def _has_place(self, request: Request, step: SchedulerOutput) -> bool:
        if self.running and self._at_bound(request):
            return False
        return len(self.running) < self.max_num_seqs and self._budget(step) > 0

    def _at_bound(self, request: Request) -> bool:
        return request.num_preemptions == self.max_preemptions


def _check_choice(name: str, value: object, *known: str) -> None:
    if value not in known:
        raise InvalidRequest(f"{name} must be one of {known}, got {value!r}")
