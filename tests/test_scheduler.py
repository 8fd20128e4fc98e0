"""The scheduler: everybody ends once, no block is lost, no token depends on preemption.

That it decides what vLLM decides is shown by `test_replay_sched.py`. Here random loads
run on a stand-in for the model. It knows of the blocks only what the scheduler's output
tells, keeps K and V by slot, carries the copies out, and chooses each next token from
**all** the values that it reads through its table. So a block that was given away too
early, never written, or copied wrongly changes the tokens.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockmgr import (
    BlockManager,
    DuplicateSequence,
    InvalidRequest,
    UnknownSequence,
)
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.request import Refusal, Request, RequestStatus, SchedulerOutput
from blockmgr.scheduler import ENDS, Scheduler

NEVER_WRITTEN = 123_456_789
VOCABULARY = 5  # few tokens, so that contents repeat and the prefix cache has hits


def value_at(values: list[int], token: int) -> int:
    """K and V of one token: they depend on it, and on all before it."""
    return hash((*values, token))


def chosen(values: list[int]) -> int:
    """The token that a model would choose after these."""
    return sum(values) % VOCABULARY


def generated(prompt: Iterable[int], count: int) -> list[int]:
    """What the model says when nobody disturbs it."""
    values: list[int] = []
    for token in prompt:
        values.append(value_at(values, token))
    said = []
    for _ in range(count):
        said.append(chosen(values))
        values.append(value_at(values, said[-1]))
    return said


class StandIn:
    """A model with memory in blocks, that is told everything by `SchedulerOutput`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.block_size = scheduler.manager.block_size
        self.device: dict[int, dict[int, int]] = {}
        self.host: dict[int, dict[int, int]] = {}
        self.tables: dict[str, list[int]] = {}

    def run(self, output: SchedulerOutput) -> dict[str, int]:
        """One step. The tokens that it chooses, one for each of `to_sample`."""
        self._copy(output.blocks_to_swap_out, self.device, self.host)
        self._copy(output.blocks_to_swap_in, self.host, self.device)
        self._copy(output.blocks_to_copy, self.device, self.device)
        for name in output.finished_req_ids:
            self.tables.pop(name, None)
        tokens = {}
        came = {*output.scheduled_new_reqs, *output.resumed_req_ids}
        scheduled = {**output.scheduled_new_reqs, **output.scheduled_cached_reqs}
        for name, (block_ids, _) in scheduled.items():
            if name in came:
                self.tables[name] = []
            self.tables[name] += block_ids
        for name, n in output.num_scheduled_tokens.items():
            request = self.scheduler.requests[name]
            said = [*request.prompt_token_ids, *request.output_token_ids]
            computed = scheduled[name].num_computed_tokens
            values = [self._cell(name, i) for i in range(computed)]
            for token in said[computed : computed + n]:
                values.append(value_at(values, token))
                self._write(name, len(values) - 1, values[-1])
            if name in output.to_sample:
                assert len(values) == len(said)
                tokens[name] = chosen(values)
        return tokens

    def _copy(
        self, pairs: list[tuple[int, int]], source: dict[int, Any], to: dict[int, Any]
    ) -> None:
        for a, b in pairs:
            to[b] = dict(source.get(a, {}))

    def _cell(self, name: str, position: int) -> int:
        block, offset = divmod(position, self.block_size)
        return self.device[self.tables[name][block]].get(offset, NEVER_WRITTEN)

    def _write(self, name: str, position: int, value: int) -> None:
        block, offset = divmod(position, self.block_size)
        self.device.setdefault(self.tables[name][block], {})[offset] = value


def tokens(n: int, first: int = 0) -> list[int]:
    """`n` tokens, all different."""
    return list(range(first, first + n))


MANAGER_OPTIONS = (
    "enable_caching",
    "groups",
    "max_model_len",
    "num_host_blocks",
    "watermark",
)


def scheduler_of(num_blocks: int, block_size: int = 4, **options: Any) -> Scheduler:
    """A scheduler. Options that are none of its own go to the manager."""
    for_manager = {
        name: options.pop(name) for name in MANAGER_OPTIONS if name in options
    }
    return Scheduler(BlockManager(num_blocks, block_size, **for_manager), **options)


def step(scheduler: Scheduler, token: int = 7) -> SchedulerOutput:
    """One step with a model that always says the same."""
    output = scheduler.schedule()
    scheduler.update_from_output(output, dict.fromkeys(output.to_sample, token))
    scheduler.manager.audit()
    return output


def run_to_the_end(scheduler: Scheduler, limit: int = 200) -> list[SchedulerOutput]:
    """All steps. More than `limit` means that it does not end."""
    outputs = []
    while scheduler.has_requests():
        outputs.append(step(scheduler))
        assert len(outputs) <= limit
    assert_all_free(scheduler)
    return outputs


def assert_all_free(scheduler: Scheduler) -> None:
    manager = scheduler.manager
    assert manager.num_free_blocks == manager.pool.num_usable_blocks
    if manager.host is not None:
        assert manager.host.num_free_blocks == manager.host.num_usable_blocks


def num_preemptions(outputs: Iterable[SchedulerOutput]) -> int:
    return sum(len(output.preempted_req_ids) for output in outputs)


# --- properties of random loads -----------------------------------------------------


LAST_ARRIVAL = 4


@dataclass
class Arrival:
    """A request of a random load, the step in which it comes, and its abort if any."""

    at: int
    prompt: list[int]
    max_tokens: int
    priority: int
    abort_after: int | None


ARRIVALS = st.builds(
    Arrival,
    at=st.integers(0, LAST_ARRIVAL),
    prompt=st.lists(st.integers(0, 1), min_size=1, max_size=10),
    max_tokens=st.integers(1, 14),
    priority=st.integers(0, 2),
    abort_after=st.sampled_from([None, None, None, 0, 1, 2, 3, 5, 8, 12]),
)

OPTIONS = st.fixed_dictionaries(
    {
        "num_blocks": st.integers(4, 9),
        "block_size": st.integers(1, 3),
        "num_host_blocks": st.integers(1, 6),
        "enable_caching": st.booleans(),
        "watermark": st.sampled_from([0.0, 0.1, 0.3]),
        "max_num_seqs": st.integers(2, 6),
        "max_num_batched_tokens": st.integers(2, 16),
        "policy": st.sampled_from(["fcfs", "priority"]),
        "preemption": st.sampled_from(["recompute", "swap"]),
        "full_sequence_must_fit": st.booleans(),
        "max_preemptions": st.none() | st.integers(1, 2),
    }
)


def play(options: dict[str, Any], arrivals: list[Arrival]) -> Iterator[Any]:
    """Run a load to its end; after every step the scheduler, its output and everybody
    who came. It must not take longer than one after the other would."""
    scheduler = scheduler_of(**options)
    model = StandIn(scheduler)
    requests: dict[str, Request] = {}
    work = sum(len(a.prompt) + a.max_tokens + 2 for a in arrivals)
    for now in range(20 + work):
        for i, arrival in enumerate(arrivals):
            name = f"r{i}"
            if arrival.at == now:
                requests[name] = Request(
                    name, arrival.prompt, arrival.max_tokens, priority=arrival.priority
                )
                scheduler.add_request(requests[name])
            after = arrival.abort_after
            gone = name not in scheduler.requests
            if after is not None and arrival.at + after == now and not gone:
                scheduler.finish_requests([name])
        output = scheduler.schedule()
        ended = scheduler.update_from_output(output, model.run(output))
        scheduler.manager.audit()
        yield scheduler, output, ended, requests
        if now >= LAST_ARRIVAL and not scheduler.has_requests():
            return
    raise AssertionError(f"still there: {list(scheduler.requests.values())}")


LOADS = given(options=OPTIONS, arrivals=st.lists(ARRIVALS, min_size=3, max_size=6))
OFTEN = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@OFTEN
@LOADS
def test_everybody_ends_once_in_bounded_steps_and_says_what_it_would_alone(
    options: dict[str, Any], arrivals: list[Arrival]
) -> None:
    played = list(play(options, arrivals))
    scheduler, _, _, requests = played[-1]
    ends = [name for _, output, _, _ in played for name in output.finished_req_ids]
    ends += scheduler.schedule().finished_req_ids
    assert sorted(ends) == sorted(requests)
    assert_all_free(scheduler)
    for request, arrival in zip(
        (requests[f"r{i}"] for i in range(len(arrivals))), arrivals, strict=True
    ):
        said = request.output_token_ids
        assert said == generated(arrival.prompt, len(said))
        usable = scheduler.manager.pool.num_usable_blocks
        needed = scheduler.manager.blocks_for(request.num_tokens)
        assert request.status in ENDS
        if request.status is RequestStatus.FINISHED_NEVER:
            assert request.refusal == Refusal(needed, usable)
            assert needed > usable
        elif request.status is not RequestStatus.FINISHED_ABORTED:
            assert request.status is RequestStatus.FINISHED_LENGTH_CAPPED
            assert len(said) == arrival.max_tokens


@OFTEN
@LOADS
def test_every_step_keeps_to_its_limits_and_to_the_order(
    options: dict[str, Any], arrivals: list[Arrival]
) -> None:
    came_in: list[int] = []
    for scheduler, output, _, requests in play(options, arrivals):
        assert output.total_num_scheduled_tokens <= options["max_num_batched_tokens"]
        assert len(scheduler.running) <= options["max_num_seqs"]
        assert all(n > 0 for n in output.num_scheduled_tokens.values())
        came = [*output.scheduled_new_reqs, *output.resumed_req_ids]
        if output.preempted_req_ids:
            assert not came  # rule 19
        if scheduler.swapped:
            assert not output.scheduled_new_reqs  # those come back first
        for queue in (scheduler.waiting, scheduler.swapped):
            assert queue == sorted(queue, key=scheduler._rank)
        by_status = {
            RequestStatus.RUNNING: scheduler.running,
            RequestStatus.WAITING: scheduler.waiting,
            RequestStatus.PREEMPTED: scheduler.waiting,
            RequestStatus.SWAPPED: scheduler.swapped,
        }
        here = [*scheduler.running, *scheduler.waiting, *scheduler.swapped]
        assert len(here) == len(scheduler.requests)
        for request in scheduler.requests.values():
            assert request in by_status[request.status]
            if options["max_preemptions"] is not None:
                assert request.num_preemptions <= options["max_preemptions"]
        came_in += [requests[name].arrival for name in output.scheduled_new_reqs]
    if options["policy"] == "fcfs":
        assert came_in == sorted(came_in)


def test_the_random_loads_reach_what_they_are_about() -> None:
    """Preemption of both kinds, NEVER, chunks, cache hits, aborts in every state."""
    seen: set[str] = set()

    @settings(OFTEN, database=None, derandomize=True)
    @LOADS
    def look(options: dict[str, Any], arrivals: list[Arrival]) -> None:
        before: dict[str, RequestStatus] = {}
        for scheduler, output, _, requests in play(options, arrivals):
            for name, request in requests.items():
                if request.status is RequestStatus.FINISHED_ABORTED:
                    seen.add(f"aborted while {before.pop(name, 'gone')}")
                elif name in scheduler.requests:
                    before[name] = request.status
            seen.update(request.status for request in requests.values())
            if output.blocks_to_swap_in:
                seen.add("swapped in")
            if output.num_scheduled_tokens.keys() - output.to_sample:
                seen.add("chunk")
            new = output.scheduled_new_reqs.values()
            if any(scheduled.num_computed_tokens for scheduled in new):
                seen.add("hit")
            if any(r.status is RequestStatus.PREEMPTED for r in scheduler.waiting):
                seen.add(f"recompute although {options['preemption']}")

    look()
    assert seen >= {
        *(set(RequestStatus) - {RequestStatus.FINISHED_STOPPED}),
        *(f"aborted while {s}" for s in set(RequestStatus) - set(ENDS)),
        *("swapped in", "chunk", "hit"),
        *("recompute although swap", "recompute although recompute"),
    }


# --- NEVER --------------------------------------------------------------------------


def test_a_prompt_that_can_never_fit_ends_at_once_and_the_next_one_runs() -> None:
    """Row 8. Were NEVER taken for LATER, both would wait for ever."""
    for must_fit in (True, False):
        scheduler = scheduler_of(4, full_sequence_must_fit=must_fit)
        large, small = Request("large", tokens(13), 2), Request("small", tokens(4), 2)
        scheduler.add_request(large)
        scheduler.add_request(small)
        first = step(scheduler)
        assert large.status is RequestStatus.FINISHED_NEVER
        assert large.refusal == Refusal(needed=4, usable=3)
        assert first.finished_req_ids == ["large"]
        assert first.num_scheduled_tokens == {"small": 4}
        run_to_the_end(scheduler)
        assert small.status is RequestStatus.FINISHED_LENGTH_CAPPED
        assert small.refusal is None


def test_a_long_prompt_in_chunks_that_can_never_fit_ends_too() -> None:
    """Each chunk by itself would fit."""
    scheduler = scheduler_of(4, max_num_batched_tokens=3, full_sequence_must_fit=False)
    large = Request("large", tokens(13), 2)
    scheduler.add_request(large)
    run_to_the_end(scheduler, limit=5)
    assert large.refusal == Refusal(needed=4, usable=3)


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_growth_that_can_never_fit_ends_and_preempts_nobody(preemption: str) -> None:
    """Row 8. Alone in the pool, a request would preempt itself again and again."""
    scheduler = scheduler_of(3, preemption=preemption, num_host_blocks=8)
    request = Request("r", tokens(8), 8)
    scheduler.add_request(request)
    outputs = run_to_the_end(scheduler, limit=3)
    assert num_preemptions(outputs) == request.num_preemptions == 0
    assert request.status is RequestStatus.FINISHED_NEVER
    assert request.refusal == Refusal(needed=3, usable=2)
    assert len(request.output_token_ids) == 1  # it keeps what it had


def test_what_can_never_fit_costs_nobody_else_their_blocks() -> None:
    """The less urgent one would be its victim, and for nothing."""
    scheduler = scheduler_of(
        4, policy="priority", max_num_batched_tokens=8, full_sequence_must_fit=False
    )
    other, large = Request("other", [1], 9, priority=5), Request("large", tokens(13), 1)
    scheduler.add_request(other)
    step(scheduler)
    scheduler.add_request(large)
    outputs = run_to_the_end(scheduler)
    assert num_preemptions(outputs) == 0
    assert outputs[0].num_scheduled_tokens == {"other": 1, "large": 7}
    assert outputs[1].finished_req_ids == ["large"]
    assert large.refusal == Refusal(needed=4, usable=3)
    assert len(other.output_token_ids) == 9


def test_what_can_never_fit_does_not_hold_up_those_behind_it() -> None:
    """It ends at once and not when all others have left."""
    scheduler = scheduler_of(4)
    scheduler.add_request(Request("runs", tokens(4), 4))
    step(scheduler)
    scheduler.add_request(Request("large", tokens(13), 1))
    scheduler.add_request(Request("small", tokens(4, 100), 1))
    output = step(scheduler)
    assert output.finished_req_ids == ["large"]
    assert list(output.scheduled_new_reqs) == ["small"]


def test_later_with_nobody_else_is_never() -> None:
    """LATER promises that others will leave. With a window it depends on the place of
    a chunk whether there is room: alone, nothing would ever change."""
    scheduler = scheduler_of(
        *(7, 2),
        groups=(SlidingWindow(6),),
        max_num_batched_tokens=7,
        full_sequence_must_fit=False,
    )
    scheduler.add_request(Request("short", [1], 1))
    long = Request("long", tokens(14), 1)
    scheduler.add_request(long)
    run_to_the_end(scheduler, limit=3)
    assert long.status is RequestStatus.FINISHED_NEVER
    assert long.num_preemptions == 0


def test_nobody_waits_for_blocks_that_nobody_here_will_give_back() -> None:
    """A scheduler's manager is its own. If somebody else holds blocks of it all the
    same, requests end instead of waiting for ever."""
    scheduler = scheduler_of(4)
    scheduler.manager.allocate("another's", tokens(8, 100))
    request = Request("r", tokens(8), 1)
    scheduler.add_request(request)
    step(scheduler)
    assert request.status is RequestStatus.FINISHED_NEVER


def test_with_two_groups_a_request_needs_blocks_in_each() -> None:
    scheduler = scheduler_of(6, groups=(FullAttention(), SlidingWindow(4)))
    request = Request("r", tokens(9), 1)
    scheduler.add_request(request)
    run_to_the_end(scheduler)
    assert request.refusal == Refusal(needed=6, usable=5)


# --- preemption ---------------------------------------------------------------------


def thrash(**options: Any) -> tuple[list[SchedulerOutput], list[Request]]:
    """Row 9: 5 usable blocks of 4; prompts of 8 and 8 are to become 20 and 12 tokens.
    In chunks, and if only the next chunk must fit, the second always tries again."""
    scheduler = scheduler_of(
        6,
        enable_caching=False,
        max_num_batched_tokens=4,
        full_sequence_must_fit=False,
        **options,
    )
    requests = [Request("a", tokens(8), 12), Request("b", tokens(8, 100), 4)]
    for request in requests:
        scheduler.add_request(request)
    return run_to_the_end(scheduler), requests


def test_preempting_again_and_again_ends_and_a_watermark_spares_most_of_it() -> None:
    """Row 9: everybody finishes; several preemptions, and one with the watermark."""
    without, requests = thrash()
    assert [len(r.output_token_ids) for r in requests] == [12, 4]
    assert num_preemptions(without) == 3
    assert requests[0].num_preemptions == 0  # whoever came first always goes on
    with_watermark, requests = thrash(watermark=0.17)  # 1 block of 6
    assert [len(r.output_token_ids) for r in requests] == [12, 4]
    assert num_preemptions(with_watermark) == 1


@pytest.mark.parametrize("bound", [1, 2])
def test_nobody_is_preempted_more_often_than_the_bound(bound: int) -> None:
    outputs, requests = thrash(max_preemptions=bound)
    assert [len(r.output_token_ids) for r in requests] == [12, 4]
    assert num_preemptions(outputs) == bound


def test_at_the_bound_a_request_comes_back_alone_and_then_goes_first() -> None:
    """Under priority it would be the next victim, for it is the least urgent."""
    scheduler = scheduler_of(
        6, policy="priority", enable_caching=False, max_preemptions=1
    )
    least = Request("least", tokens(4), 12, priority=9)
    scheduler.add_request(Request("a", tokens(12, 100), 4))
    scheduler.add_request(least)
    while not least.num_preemptions:
        step(scheduler)
    scheduler.add_request(Request("b", tokens(8, 200), 8, priority=1))
    while least.status is RequestStatus.PREEMPTED:
        step(scheduler)
    urgent = Request("urgent", tokens(4, 300), 8)
    scheduler.add_request(urgent)
    run_to_the_end(scheduler)
    assert least.num_preemptions == 1
    assert len(least.output_token_ids) == 12
    assert urgent.num_preemptions == 1  # it had to go, and came back


def full_pool(prompt: int = 11, **options: Any) -> tuple[Scheduler, Request, Request]:
    """6 usable blocks of 4, and none free: "a" and "b" hold 3 each, and "b" needs a
    fourth in the next step. So does "a", unless its prompt is shorter than 11."""
    scheduler = scheduler_of(7, enable_caching=False, **options)
    a, b = Request("a", tokens(prompt), 6), Request("b", tokens(11, 100), 6)
    scheduler.add_request(a)
    scheduler.add_request(b)
    for _ in range(2):
        step(scheduler)
    assert scheduler.manager.num_free_blocks == 0
    return scheduler, a, b


def test_the_last_that_runs_is_sent_to_the_front_and_nobody_comes_in() -> None:
    """Rules 18 and 19."""
    scheduler, a, b = full_pool()
    c = Request("c", tokens(1), 1)
    scheduler.add_request(c)
    output = step(scheduler)
    assert output.preempted_req_ids == ["b"]
    assert list(output.num_scheduled_tokens) == ["a"]
    assert scheduler.running == [a]
    assert scheduler.waiting == [b, c]  # c would fit, and waits all the same
    assert (b.status, b.num_computed_tokens) == (RequestStatus.PREEMPTED, 0)
    output = step(scheduler)
    assert list(output.num_scheduled_tokens) == ["a"]
    assert scheduler.waiting == [b, c]  # b does not fit, so c is not even asked


def test_a_victim_gives_back_the_tokens_of_this_step() -> None:
    """Under priority the victim may be one that was scheduled a moment ago."""
    scheduler, a, b = full_pool(prompt=10, policy="priority")
    a.priority, b.priority = 5, 1
    output = step(scheduler)
    assert output.preempted_req_ids == ["a"]
    assert output.num_scheduled_tokens == {"b": 1}
    assert list(output.scheduled_cached_reqs) == ["b"]
    assert output.to_sample == {"b"}
    assert len(a.output_token_ids) == 2  # none in this step


def test_tokens_that_were_taken_back_are_not_swapped() -> None:
    """They are not written, so the host would get a block with a hole."""
    for prompt, status in ((10, RequestStatus.PREEMPTED), (11, RequestStatus.SWAPPED)):
        scheduler, a, b = full_pool(
            prompt, policy="priority", preemption="swap", num_host_blocks=6
        )
        a.priority, b.priority = 5, 1
        assert step(scheduler).preempted_req_ids == ["a"]
        assert a.status is status


def asked_for_blocks_that_nobody_wrote() -> tuple[list[int], list[int]]:
    """What "late" says, and what it should. In the second step, "low" is to fill the
    block of (3, 4th token) and then has to give it back: "long" needs more. That is not
    enough, so "long" goes too, and nobody takes that block. "late" asks for the very
    same tokens and more."""
    scheduler = scheduler_of(
        6, 2, policy="priority", max_num_batched_tokens=8, full_sequence_must_fit=False
    )
    model = StandIn(scheduler)
    fourth = generated([1, 2, 3], 1)
    scheduler.add_request(Request("first", [9], 2))
    scheduler.add_request(Request("long", tokens(10, 100), 1, priority=2))
    low = Request("low", [1, 2, 3], 4, priority=1)
    scheduler.add_request(low)
    late = Request("late", [1, 2, 3, *fourth, 4], 3)
    for now in range(40):
        output = scheduler.schedule()
        if now == 0:
            low.priority = 3  # it came in before "long", and is less urgent from now
        if now == 1:
            assert sorted(output.preempted_req_ids) == ["long", "low"]
            scheduler.add_request(late)
        scheduler.update_from_output(output, model.run(output))
        scheduler.manager.audit()
    assert not scheduler.has_requests()
    return late.output_token_ids, generated([1, 2, 3, *fourth, 4], 3)


def test_a_block_that_nobody_wrote_is_not_found_by_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks are registered when they are scheduled. One that is taken back in the
    same step would stay in the prefix cache without a content."""
    said, expected = asked_for_blocks_that_nobody_wrote()
    assert said == expected
    monkeypatch.setattr(Scheduler, "_unwritten", lambda self, victim, n: set())
    said, expected = asked_for_blocks_that_nobody_wrote()
    assert said != expected


# --- swap ---------------------------------------------------------------------------


def test_a_swapped_request_computes_nothing_again() -> None:
    scheduler, a, b = full_pool(preemption="swap", num_host_blocks=3)
    output = step(scheduler)
    assert output.preempted_req_ids == ["b"]
    assert [source for source, _ in output.blocks_to_swap_out] == [4, 5, 6]
    assert (b.status, b.num_computed_tokens) == (RequestStatus.SWAPPED, 12)
    assert scheduler.swapped == [b]
    back, *_ = [o for o in run_to_the_end(scheduler) if o.resumed_req_ids]
    assert back.resumed_req_ids == ["b"]
    assert len(back.blocks_to_swap_in) == 3
    assert back.num_scheduled_tokens["b"] == 1
    assert len(back.scheduled_cached_reqs["b"].block_ids) == 4  # its whole table
    assert [len(r.output_token_ids) for r in (a, b)] == [6, 6]


@pytest.mark.parametrize("num_host_blocks", [1, 2])
def test_without_room_on_the_host_a_victim_is_computed_again(
    num_host_blocks: int,
) -> None:
    """Row 21: the victim holds 3 blocks. Neither an abort nor a freeze."""
    scheduler, a, b = full_pool(preemption="swap", num_host_blocks=num_host_blocks)
    output = step(scheduler)
    assert output.preempted_req_ids == ["b"]
    assert output.blocks_to_swap_out == []
    assert (b.status, b.num_computed_tokens) == (RequestStatus.PREEMPTED, 0)
    outputs = run_to_the_end(scheduler)
    assert not any(output.blocks_to_swap_in for output in outputs)
    assert [len(r.output_token_ids) for r in (a, b)] == [6, 6]


def test_swapped_requests_come_back_before_new_ones_come_in() -> None:
    scheduler, _, b = full_pool(preemption="swap", num_host_blocks=3)
    c = Request("c", tokens(1, 200), 1)
    scheduler.add_request(c)
    step(scheduler)
    while b.status is RequestStatus.SWAPPED:
        assert c.status is RequestStatus.WAITING  # its 1 block would be there
        step(scheduler)
    run_to_the_end(scheduler)
    assert c.status is RequestStatus.FINISHED_LENGTH_CAPPED


def test_a_victim_that_could_not_come_back_is_computed_again() -> None:
    """It shares its first block with the other one and holds every usable block. To
    come back it would need one more (rule 23), and nobody can have that."""
    scheduler = scheduler_of(5, 2, preemption="swap", num_host_blocks=8)
    short, long = Request("short", [0, 0], 4), Request("long", [0, 0, *tokens(5)], 2)
    scheduler.add_request(short)
    scheduler.add_request(long)
    step(scheduler)
    assert len(scheduler.manager.block_table("long")) == 4
    assert step(scheduler).preempted_req_ids == ["long"]
    assert long.status is RequestStatus.PREEMPTED
    run_to_the_end(scheduler)
    assert [len(r.output_token_ids) for r in (short, long)] == [4, 2]


# --- abort, and what else ends a request --------------------------------------------


def one_in_state(state: str) -> tuple[Scheduler, Request]:
    """A scheduler with a request in this state, and others around it."""
    if state == "waiting":
        scheduler, _, _ = full_pool()
        request = Request("c", tokens(4), 1)
        scheduler.add_request(request)
    elif state == "running":
        scheduler, request, _ = full_pool()
    elif state == "preempted":
        scheduler, _, request = full_pool()
        step(scheduler)
    elif state == "swapped":
        scheduler, _, request = full_pool(preemption="swap", num_host_blocks=3)
        step(scheduler)
    else:
        scheduler = scheduler_of(9, max_num_batched_tokens=5)
        request = Request("chunked", tokens(17), 1)
        scheduler.add_request(request)
        step(scheduler)
        assert 0 < request.num_computed_tokens < 17
    return scheduler, request


STATES = ["waiting", "running", "preempted", "swapped", "in the middle of a prefill"]


@pytest.mark.parametrize("in_flight", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_an_abort_ends_a_request_in_every_state(state: str, in_flight: bool) -> None:
    scheduler, request = one_in_state(state)
    before = len(request.output_token_ids)
    if in_flight:  # between schedule and update, while the model runs
        output = scheduler.schedule()
        scheduler.finish_requests([request.request_id])
        ended = scheduler.update_from_output(output, dict.fromkeys(output.to_sample, 7))
        assert request not in ended
    else:
        scheduler.finish_requests(request.request_id)
    assert request.status is RequestStatus.FINISHED_ABORTED
    assert len(request.output_token_ids) == before
    assert request.request_id not in scheduler.requests
    assert request not in [*scheduler.running, *scheduler.waiting, *scheduler.swapped]
    scheduler.manager.audit()
    outputs = [scheduler.schedule()]
    assert outputs[0].finished_req_ids == [request.request_id]
    scheduler.update_from_output(outputs[0], dict.fromkeys(outputs[0].to_sample, 7))
    run_to_the_end(scheduler)


def test_a_name_is_free_again_after_an_abort_in_flight() -> None:
    """The tokens of the old request are not the new one's."""
    scheduler = scheduler_of(9)
    scheduler.add_request(Request("r", tokens(4), 3))
    output = scheduler.schedule()
    scheduler.finish_requests(["r"])
    new = Request("r", tokens(5), 3)
    scheduler.add_request(new)
    assert scheduler.update_from_output(output, {"r": 7}) == []
    assert (new.output_token_ids, new.num_computed_tokens) == ([], 0)
    run_to_the_end(scheduler)
    assert len(new.output_token_ids) == 3


def test_an_unknown_request_can_not_end_and_then_nobody_does() -> None:
    scheduler, a, b = full_pool()
    for ids in (["a", "x"], "x", ["a", []], ["a", None]):
        with pytest.raises(UnknownSequence, match=r"there are: 'a', 'b'"):
            scheduler.finish_requests(ids)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="is no end"):
        scheduler.finish_requests(["a"], RequestStatus.WAITING)
    assert scheduler.running == [a, b]
    scheduler.finish_requests(["a", "a", "b"], RequestStatus.FINISHED_STOPPED)
    assert a.status is b.status is RequestStatus.FINISHED_STOPPED
    with pytest.raises(UnknownSequence, match="there are: none"):
        scheduler.finish_requests("a")
    assert_all_free(scheduler)


def test_a_stop_token_ends_a_request_and_stays_its_last_token() -> None:
    scheduler = scheduler_of(9)
    request = Request("r", tokens(4), 10, stop_token_ids=[8])
    scheduler.add_request(request)
    step(scheduler, token=7)
    output = scheduler.schedule()
    assert scheduler.update_from_output(output, {"r": 8}) == [request]
    assert request.status is RequestStatus.FINISHED_STOPPED
    assert request.output_token_ids == [7, 8]
    assert_all_free(scheduler)


@pytest.mark.parametrize(("prompt", "said"), [(6, 2), (7, 1), (8, 1)])
def test_the_longest_length_ends_a_request(prompt: int, said: int) -> None:
    """The last token may have no slot: nobody reads its K and V."""
    scheduler = scheduler_of(9, max_model_len=8)
    request = Request("r", tokens(prompt), 10)
    scheduler.add_request(request)
    run_to_the_end(scheduler)
    assert request.status is RequestStatus.FINISHED_LENGTH_CAPPED
    assert len(request.output_token_ids) == said


def test_a_salt_keeps_requests_apart() -> None:
    scheduler = scheduler_of(20)
    for name, salt in (("a", "x"), ("b", "y"), ("c", "x")):
        scheduler.add_request(Request(name, tokens(9), 1, cache_salt=salt))
    new = step(scheduler).scheduled_new_reqs
    assert [new[name].num_computed_tokens for name in "abc"] == [0, 0, 8]


def test_a_long_prompt_comes_in_chunks_and_is_asked_for_a_token_at_its_end() -> None:
    scheduler = scheduler_of(9, max_num_batched_tokens=5)
    scheduler.add_request(Request("r", tokens(12), 1))
    outputs = run_to_the_end(scheduler)
    assert [o.num_scheduled_tokens for o in outputs] == [{"r": 5}, {"r": 5}, {"r": 2}]
    assert [o.to_sample for o in outputs] == [set(), set(), {"r"}]
    computed = [0, 5, 10]
    given = [{**o.scheduled_new_reqs, **o.scheduled_cached_reqs} for o in outputs]
    assert [g["r"].num_computed_tokens for g in given] == computed


def test_a_copy_on_write_is_handed_on() -> None:
    """Somebody keeps a request's state by a fork; then the request goes on."""
    scheduler = scheduler_of(9)
    scheduler.add_request(Request("r", tokens(6), 3))
    step(scheduler)
    scheduler.manager.fork("r", "kept")
    shared = scheduler.manager.block_table("kept")[-1]
    assert step(scheduler).blocks_to_copy == [
        (shared, scheduler.manager.block_table("r")[-1])
    ]
    assert step(scheduler).blocks_to_copy == []


# --- misuse -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs must be"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens must be"),
        ({"policy": "fair"}, r"policy must be one of \('fcfs', 'priority'\)"),
        ({"preemption": "kill"}, r"preemption must be one of \('recompute', 'swap'\)"),
        ({"preemption": "swap"}, "num_host_blocks"),
        ({"max_preemptions": 0}, "max_preemptions must be"),
    ],
)
def test_options_that_can_not_work_are_named(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        scheduler_of(9, **options)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"request_id": ""}, "needs a name"),
        ({"request_id": 5}, "needs a name"),
        ({"prompt_token_ids": []}, "number of prompt tokens must be"),
        ({"prompt_token_ids": [-1]}, "token ids are whole numbers"),
        ({"prompt_token_ids": "text"}, "not text"),
        ({"max_tokens": 0}, "max_tokens must be"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"stop_token_ids": ["x"]}, "token ids are whole numbers"),
        ({"cache_salt": 7}, "cache_salt must be text"),
    ],
)
def test_a_request_that_means_nothing_is_named(
    fields: dict[str, Any], message: str
) -> None:
    good = {"request_id": "r", "prompt_token_ids": [1], "max_tokens": 1}
    with pytest.raises(InvalidRequest, match=message):
        Request(**{**good, **fields})


def test_a_request_comes_once() -> None:
    scheduler = scheduler_of(9, max_model_len=8)
    request = Request("r", tokens(4), 1)
    scheduler.add_request(request)
    with pytest.raises(DuplicateSequence, match="request 'r' is here"):
        scheduler.add_request(Request("r", tokens(4), 1))
    run_to_the_end(scheduler)
    with pytest.raises(InvalidRequest, match="was here before"):
        scheduler.add_request(request)
    with pytest.raises(InvalidRequest, match="9 tokens, more than max_model_len=8"):
        scheduler.add_request(Request("long", tokens(9), 1))
    assert not scheduler.has_requests()


def test_steps_and_their_outputs_take_turns_and_a_wrong_one_changes_nothing() -> None:
    scheduler = scheduler_of(9)
    request = Request("r", tokens(4), 2)
    scheduler.add_request(request)
    with pytest.raises(InvalidRequest, match="of the last schedule"):
        scheduler.update_from_output(SchedulerOutput(), {})
    output = scheduler.schedule()
    with pytest.raises(InvalidRequest, match="hand the last step"):
        scheduler.schedule()
    bad: list[dict[str, Any]] = [{}, {"r": 1, "x": 2}, {"x": 1}, {"r": -1}, {"r": "x"}]
    for tokens_of_others in bad:
        with pytest.raises(InvalidRequest):
            scheduler.update_from_output(output, tokens_of_others)
        assert (request.output_token_ids, request.num_computed_tokens) == ([], 0)
    scheduler.update_from_output(output, {"r": 1})
    with pytest.raises(InvalidRequest, match="of the last schedule"):
        scheduler.update_from_output(output, {"r": 1})
    assert request.output_token_ids == [1]


def test_a_step_with_nothing_to_do_is_empty() -> None:
    output = step(scheduler_of(9))
    assert output.total_num_scheduled_tokens == 0
    assert output.num_scheduled_tokens == {}


# --- misuse ---------------------------------------------------------------------------


def test_misuse_is_named_and_changes_nothing() -> None:
    manager = BlockManager(9, 4)
    scheduler = Scheduler(manager)
    wrong: Any
    for wrong in (None, "x", 5):
        with pytest.raises(InvalidRequest, match="expected a Request"):
            scheduler.add_request(wrong)
        with pytest.raises(InvalidRequest, match="the last schedule"):
            scheduler.update_from_output(wrong, {})
    manager.allocate("mine", [1])
    with pytest.raises(DuplicateSequence, match="'mine' is here"):
        scheduler.add_request(Request("mine", [1, 2], max_tokens=1))
    scheduler.add_request(Request("a", [1, 2], max_tokens=1))
    output = scheduler.schedule()
    for wrong in (None, [], 5):
        with pytest.raises(InvalidRequest, match="expected a dict"):
            scheduler.update_from_output(output, wrong)
    wrong = {"a": 1, 5: 2}
    with pytest.raises(InvalidRequest, match="a token for each of"):
        scheduler.update_from_output(output, wrong)
    wrong = 5
    with pytest.raises(InvalidRequest, match="the ids of requests"):
        scheduler.finish_requests(wrong)
    wrong = "aborted"
    with pytest.raises(InvalidRequest, match="is no end"):
        scheduler.finish_requests("a", wrong)
    assert [r.request_id for r in scheduler.update_from_output(output, {"a": 7})] == [
        "a"
    ]
