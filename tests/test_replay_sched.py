"""Recorded runs of vLLM's scheduler, step by step; a broken rule shows.

After each of the 4,300 steps our scheduler has chosen the same requests for the same
numbers of tokens, has sent the same ones back, and all blocks are as vLLM's were. That
such a comparison can fail is shown rule by rule.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blockmgr import BadTrace
from blockmgr import replay_sched as replay_module
from blockmgr.replay import RECORDINGS
from blockmgr.replay_sched import FORMAT, replay_steps, scheduler_for
from blockmgr.request import Request, RequestStatus, SchedulerOutput
from blockmgr.scheduler import Scheduler
from blockmgr.textfile import numbered_lines

FILES = sorted((RECORDINGS / "sched").glob("*.jsonl.gz"))
TOTAL_STEPS = 4_300


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the steps of a recording."""
    header, *steps = (json.loads(line) for _, line in numbered_lines(path))
    assert header["format"] == FORMAT
    return header, steps


def file(start: str) -> Path:
    """The recording whose name starts like this."""
    return next(path for path in FILES if path.name.startswith(start))


def differences(path: Path) -> list[Any]:
    """The first field that differs, of every step where one does."""
    return [d for d in replay_steps(*read(path)) if d is not None]


# --- vLLM and we decide the same ----------------------------------------------------


def test_all_recordings_are_here() -> None:
    assert len(FILES) == 10
    assert sum(len(read(path)[1]) for path in FILES) == TOTAL_STEPS


def test_the_recordings_exercise_what_the_rules_speak_of() -> None:
    """Else the replay would prove nothing about it."""
    headers, steps = zip(*(read(path) for path in FILES), strict=True)
    assert {header["policy"] for header in headers} == {"fcfs", "priority"}
    assert {header["caching"] for header in headers} == {True, False}
    assert {header["reserve_full_isl"] for header in headers} == {True, False}
    assert any(header["watermark"] for header in headers)
    every = [step for some in steps for step in some]
    results = [step["res"] for step in every]
    assert sum(len(step.get("abort", ())) for step in every) == 81
    assert sum(len(result["preempted"]) for result in results) == 359
    assert sum(len(result["resumed"]) for result in results) == 347
    assert sum(len(result["preempted"]) > 1 for result in results) == 22
    chunked = [r for r in results if r["sched"].keys() != r["tok"].keys()]
    assert len(chunked) == 91


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_every_step_of_the_recording(path: Path) -> None:
    header, steps = read(path)
    compared = 0
    for difference in replay_steps(header, steps):
        assert difference is None, str(difference)
        compared += 1
    assert compared == len(steps) + 1  # the state at the start as well


# --- one rule broken on purpose -----------------------------------------------------


def rule_18_the_first_is_sent_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "_victim", lambda self: min(self.running, key=self._rank))


def rule_18_the_one_that_asks_is_sent_back(patch: pytest.MonkeyPatch) -> None:
    asking: list[Request] = []
    next_tokens = Scheduler._next_tokens

    def remember(self: Scheduler, request: Request, step: Any) -> int:
        asking[:] = [request]
        return next_tokens(self, request, step)

    patch.setattr(Scheduler, "_next_tokens", remember)
    patch.setattr(Scheduler, "_victim", lambda self: asking[0])


def rule_18_the_one_that_asks_is_never_sent_back(patch: pytest.MonkeyPatch) -> None:
    rule_18_the_one_that_asks_is_sent_back(patch)
    asking = Scheduler._victim

    def another(self: Scheduler) -> Request:
        return max((r for r in self.running if r is not asking(self)), key=self._rank)

    patch.setattr(Scheduler, "_victim", another)


def rule_18_the_victim_goes_to_the_back(patch: pytest.MonkeyPatch) -> None:
    preempt = Scheduler._preempt

    def to_the_back(self: Scheduler, victim: Request, step: SchedulerOutput) -> None:
        preempt(self, victim, step)
        self.waiting.remove(victim)
        self.waiting.append(victim)

    patch.setattr(Scheduler, "_preempt", to_the_back)


def rule_18_the_victim_keeps_its_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SchedulerOutput, "take_back", lambda self, request: 0)


def rule_18_priority_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "_rank", lambda self, request: (0, request.arrival))


def rule_18_arrival_does_not_count_in_a_choice(patch: pytest.MonkeyPatch) -> None:
    def victim(self: Scheduler) -> Request:
        return max(self.running, key=lambda request: request.priority)

    patch.setattr(Scheduler, "_victim", victim)


def rule_18_nobody_goes_on_behind_one_sent_back(patch: pytest.MonkeyPatch) -> None:
    asking: list[Request] = []
    next_tokens = Scheduler._next_tokens

    def stop(self: Scheduler, request: Request, step: SchedulerOutput) -> int:
        if asking and asking[0].request_id in step.preempted_req_ids:
            return 0
        asking[:] = [request]
        return next_tokens(self, request, step)

    patch.setattr(Scheduler, "_next_tokens", stop)


def rule_18_new_ones_come_before_those_that_run(patch: pytest.MonkeyPatch) -> None:
    running = Scheduler._schedule_running

    def others_first(self: Scheduler, step: SchedulerOutput) -> None:
        before = list(self.running)
        self._admit(self.waiting, step)
        came = [request for request in self.running if request not in before]
        self.running = [r for r in self.running if r in before]
        running(self, step)
        self.running += came

    patch.setattr(Scheduler, "_schedule_running", others_first)


def rule_18_the_budget_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "_budget", lambda self, step: 1_000_000)


def rule_19_others_come_in_although_one_was_sent_back(
    patch: pytest.MonkeyPatch,
) -> None:
    running = Scheduler._schedule_running

    def and_admit(self: Scheduler, step: SchedulerOutput) -> None:
        running(self, step)
        self._admit(self.waiting, step)

    patch.setattr(Scheduler, "_schedule_running", and_admit)


def rule_19_one_that_does_not_fit_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    admit = Scheduler._admit

    def pass_over(self: Scheduler, queue: list[Request], step: SchedulerOutput) -> None:
        admit(self, queue, step)
        if queue and self._has_place(queue[0], step):
            first = queue.pop(0)
            admit(self, queue, step)
            queue.insert(0, first)

    patch.setattr(Scheduler, "_admit", pass_over)


def rule_19_any_number_may_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Scheduler, "_has_place", lambda self, request, step: self._budget(step) > 0
    )


def rule_19_only_whole_prompts_come_in(patch: pytest.MonkeyPatch) -> None:
    has_place = Scheduler._has_place

    def whole(self: Scheduler, request: Request, step: SchedulerOutput) -> bool:
        fits = request.num_tokens <= self._budget(step)
        return fits and has_place(self, request, step)

    patch.setattr(Scheduler, "_has_place", whole)


def rule_19_the_ended_are_freed_in_another_order(patch: pytest.MonkeyPatch) -> None:
    update = Scheduler.update_from_output

    def backwards(self: Scheduler, output: SchedulerOutput, tokens: Any) -> Any:
        given = output.num_scheduled_tokens
        output.num_scheduled_tokens = dict(reversed(given.items()))
        ended = update(self, output, tokens)
        output.num_scheduled_tokens = given
        return ended

    patch.setattr(Scheduler, "update_from_output", backwards)


def rule_12_one_that_comes_back_is_not_looked_up(patch: pytest.MonkeyPatch) -> None:
    ask = Scheduler._ask_for_room

    def ask_for_all(self: Scheduler, request: Request, num_tokens: int) -> Any:
        answer = ask(self, request, num_tokens)
        if request.status is RequestStatus.PREEMPTED:
            return answer._replace(num_cached_tokens=0)
        return answer

    patch.setattr(Scheduler, "_ask_for_room", ask_for_all)


def rule_9_the_other_way_of_fitting(patch: pytest.MonkeyPatch) -> None:
    scheduler_for = replay_module.scheduler_for

    def other(header: Any) -> Scheduler:
        turned = {**header, "reserve_full_isl": not header["reserve_full_isl"]}
        return scheduler_for(turned)

    patch.setattr(replay_module, "scheduler_for", other)


def rule_9_no_watermark(patch: pytest.MonkeyPatch) -> None:
    scheduler_for = replay_module.scheduler_for
    patch.setattr(
        replay_module,
        "scheduler_for",
        lambda header: scheduler_for({**header, "watermark": 0.0}),
    )


BROKEN: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    rule_18_the_first_is_sent_back: "00_",
    rule_18_the_one_that_asks_is_sent_back: "00_",
    rule_18_the_one_that_asks_is_never_sent_back: "00_",
    rule_18_the_victim_goes_to_the_back: "00_",
    rule_18_the_victim_keeps_its_tokens: "06_",
    rule_18_priority_does_not_count: "06_",
    rule_18_arrival_does_not_count_in_a_choice: "06_",
    rule_18_nobody_goes_on_behind_one_sent_back: "07_",
    rule_18_new_ones_come_before_those_that_run: "00_",
    rule_18_the_budget_does_not_count: "04_",
    rule_19_others_come_in_although_one_was_sent_back: "00_",
    rule_19_one_that_does_not_fit_is_passed_over: "00_",
    rule_19_any_number_may_run: "05_",
    rule_19_only_whole_prompts_come_in: "04_",
    rule_19_the_ended_are_freed_in_another_order: "00_",
    rule_12_one_that_comes_back_is_not_looked_up: "00_",
    rule_9_the_other_way_of_fitting: "04_",
    rule_9_no_watermark: "05_",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_rule_is_found(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    header, steps = read(file(BROKEN[broken]))
    broken(monkeypatch)
    found = next((d for d in replay_module.replay_steps(header, steps) if d), None)
    assert found is not None
    assert found.step > 0


@pytest.mark.parametrize("field", ["res", "tb", "rc", "fq", "cb"])
def test_every_field_is_compared(field: str) -> None:
    header, steps = read(file("06_"))
    changed = {**steps[10], field: {"tok": steps[10]["res"]["tok"]}}
    found = [d for d in replay_steps(header, [*steps[:10], changed]) if d is not None]
    assert [(d.step, d.field) for d in found] == [(11, field)]


@pytest.mark.parametrize(
    "field", ["sched", "new", "cached", "resumed", "preempted", "run", "wait"]
)
def test_every_field_of_the_answer_is_compared(field: str) -> None:
    header, steps = read(file("06_"))
    changed = {**steps[10], "res": {**steps[10]["res"], field: ["another"]}}
    found = [d for d in replay_steps(header, [*steps[:10], changed]) if d is not None]
    assert [(d.step, d.field) for d in found] == [(11, "res")]


@pytest.mark.parametrize("field", ["sched", "new", "cached", "tok"])
def test_the_order_of_the_requests_is_compared(field: str) -> None:
    header, steps = read(file("06_"))
    at = next(i for i, step in enumerate(steps) if len(step["res"][field]) > 1)
    turned = dict(reversed(steps[at]["res"][field].items()))
    changed = {**steps[at], "res": {**steps[at]["res"], field: turned}}
    found = [d for d in replay_steps(header, [*steps[:at], changed]) if d is not None]
    assert [(d.step, d.field) for d in found] == [(at + 1, "res")]


def test_a_request_that_we_refuse_is_a_difference() -> None:
    header, steps = read(file("00_"))
    twice = {**steps[0], "add": steps[0]["add"] * 2}
    found = [d for d in replay_steps(header, [twice]) if d is not None]
    assert found[0].field == "res"
    assert "DuplicateSequence: request 'r0' is here" in found[0].got


def test_tokens_of_other_requests_are_a_difference() -> None:
    header, steps = read(file("00_"))
    other = {**steps[0], "res": {**steps[0]["res"], "tok": {}}}
    found = [d for d in replay_steps(header, [other]) if d is not None]
    assert "expected a token for each of ['r0'], got them for []" in found[0].got


# --- bad files ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"op": "dance"}, "step 1 asks for 'dance': known is 'step'"),
        ({"res": {}}, "step 1 lacks the field 'tok'"),
        ({"add": [{"r": "r0"}]}, "step 1 lacks the field 't'"),
        ({"add": 7}, "step 1 has a field of another kind"),
        ({"res": {"tok": [1]}}, "step 1 has a field of another kind"),
    ],
)
def test_a_bad_step_is_named(fields: dict[str, Any], message: str) -> None:
    header, steps = read(file("00_"))
    with pytest.raises(BadTrace, match=message):
        list(replay_steps(header, [{**steps[0], **fields}]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"policy": "fair"}, "policy must be one of"),
        ({"block_size": 0}, "block_size must be a whole number"),
        ({"watermark": "much"}, "makes no sense"),
    ],
)
def test_a_bad_header_is_named(fields: dict[str, Any], message: str) -> None:
    header, _ = read(file("00_"))
    with pytest.raises(BadTrace, match=message):
        scheduler_for({**header, **fields})


def test_a_header_without_a_field_is_named() -> None:
    header, _ = read(file("00_"))
    del header["max_num_seqs"]
    with pytest.raises(BadTrace, match="lacks 'max_num_seqs'"):
        scheduler_for(header)
    with pytest.raises(BadTrace, match="lacks 'max_num_seqs'"):
        list(replay_steps(header, []))
