"""Replaying recorded runs of a whole scheduler: who runs, who waits, who is sent back.

A recording (`kvtrace-sched/1`) is one header line with the configuration, then one line
for each step of the model: the requests that came and those that were aborted before
it, what vLLM's scheduler decided, the tokens that were sampled, both queues and the
whole state of the blocks afterwards. Our scheduler gets the same requests and the same
tokens, and every field of every step is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from blockmgr.manager import BlockManager
from blockmgr.recording import Difference, Step, carry_out, first_difference, first_line
from blockmgr.replay_v1 import state_of
from blockmgr.request import Request, Scheduled
from blockmgr.scheduler import Scheduler

FORMAT = "kvtrace-sched/1"


def scheduler_for(header: Step) -> Scheduler:
    """A fresh scheduler with a recording's configuration. Raises `BadTrace`."""
    with first_line():
        manager = BlockManager(
            header["num_blocks"],
            header["block_size"],
            enable_caching=header["caching"],
            watermark=header["watermark"],
        )
        return Scheduler(
            manager,
            max_num_seqs=header["max_num_seqs"],
            max_num_batched_tokens=header["max_num_batched_tokens"],
            policy=header["policy"],
            full_sequence_must_fit=header["reserve_full_isl"],
        )


def replay_steps(header: Step, steps: list[Step]) -> Iterator[Difference | None]:
    """Carry out every step and say, step by step, the first field that differs.

    Raises `BadTrace` for a step that lacks a field or asks for something unknown.
    """
    scheduler = scheduler_for(header)
    yield first_difference(0, header["init"], _blocks(scheduler))
    for number, step in enumerate(steps, 1):
        answer = carry_out({"step": _step}, scheduler, number, step)
        expected = {**step, "res": _in_order(step["res"])}
        got = {"res": _in_order(answer), **_blocks(scheduler)}
        yield first_difference(number, expected, got)


def _in_order(answer: Any) -> Any:
    """An answer with lists of pairs for its dictionaries, so that their order counts:
    requests are freed in the order in which they were scheduled (rule 19)."""
    if not isinstance(answer, dict):
        return answer
    return {k: list(v.items()) if isinstance(v, dict) else v for k, v in answer.items()}


def _blocks(scheduler: Scheduler) -> Step:
    state = state_of(scheduler.manager)
    del state["ck"]  # was not recorded
    return state


def _step(scheduler: Scheduler, step: Step) -> Step:
    for new in step.get("add", ()):
        priority = new.get("prio", 0)
        scheduler.add_request(
            Request(new["r"], new["t"], new["max"], priority=priority)
        )
    scheduler.finish_requests(step.get("abort", ()))
    tokens = dict(step["res"]["tok"])  # a TypeError names what is no dict
    output = scheduler.schedule()
    scheduler.update_from_output(output, tokens)
    sampled = [r for r in output.num_scheduled_tokens if r in output.to_sample]
    return {
        "sched": output.num_scheduled_tokens,
        "new": _recorded(output.scheduled_new_reqs),
        "cached": _recorded(output.scheduled_cached_reqs),
        "resumed": sorted(output.resumed_req_ids),  # vLLM has sets here
        "preempted": sorted(output.preempted_req_ids),
        "tok": {name: tokens[name] for name in sampled},
        "run": [request.request_id for request in scheduler.running],
        "wait": [request.request_id for request in scheduler.waiting],
    }


def _recorded(scheduled: dict[str, Scheduled]) -> dict[str, list[Any]]:
    return {name: [list(ids), n] for name, (ids, n) in scheduled.items()}
