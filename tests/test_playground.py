"""The playground without a browser: commands, sessions, files, buttons, the widget."""

from __future__ import annotations

import json
import random
from base64 import b64decode
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ipywidgets.widgets import widget as ipywidget

from blockmgr import BlockManager
from blockmgr.audit import audit
from blockmgr.events import Snapshot
from figures import Playground
from figures.playground import SCENARIOS, BadLog, CantDo, Command, Pool, Session
from figures.playground.commands import (
    FIELDS,
    MOST_SEQUENCES,
    MOST_STEPS,
    MOST_TOKENS,
    MOST_TYPED,
)
from figures.playground.desk import MOST_POOLS, Desk
from figures.playground.file import MOST_FILE, from_text, to_link, to_text
from figures.playground.workbench import MOST_PRESSES, Workbench
from tests.drawing import NASTY

STEP = Command("step")
SYSTEM, FULL, BEAMS, SWAP, EVICTED, TWICE, LAST_TOKEN, NO_CACHE, SLOTS = SCENARIOS


def ask(name: str, text: str) -> Command:
    return Command("request", name, text=text)


def numbers(name: str, length: int) -> Command:
    return Command("numbers", name, length=length)


def green(state: Snapshot) -> bool:
    return all(check.ok for check in audit(state))


def table(session: Session, name: str, at: int = -1) -> tuple[int, ...]:
    return session.moments[at].sequences[name].block_table


# --- scenarios: what they say is there to be seen -------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.title)
def test_every_moment_of_a_scenario_is_the_managers_own(scenario: Any) -> None:
    session = scenario.session()
    assert len(session) == len(scenario.commands) + 1
    for at, moment in enumerate(session.moments):
        session.go(at)
        manager = session.manager()
        assert manager.snapshot() == moment.state
        manager.audit()
        if session.before and moment.event:
            assert session.before.after(moment.event) == moment.state
    assert session.note == f"{scenario.title}. {scenario.look}"
    assert scenario.look.endswith(".") and len(scenario.look) < 180


def test_the_system_prompt_stands_in_memory_once() -> None:
    session = SYSTEM.session()
    assert table(session, "Ada")[:2] == table(session, "Ben")[:2] == (1, 2)
    assert session.now.state.ref_cnt[1:4] == (2, 2, 1)


def test_a_full_pool_says_later_and_a_preemption_makes_room() -> None:
    session = FULL.session()
    refused, preempted, after, back = (session.moments[k] for k in (6, 7, 8, 10))
    assert "r0 and r2 got no slot, as no block is free: LATER." in refused.said
    assert "Preempt or finish somebody, then step again." in refused.said
    assert [refused.waiting(n) for n in ("r0", "r1", "r2")] == [3, 0, 1]
    assert preempted.sequences["r1"].status == "preempted"
    assert [after.waiting(n) for n in ("r0", "r2")] == [0, 0]
    assert back.event is not None and back.event.hits == (3,)


def test_beams_are_copied_at_the_first_word_that_parts_them() -> None:
    session = BEAMS.session()
    forked, written = session.moments[3], session.moments[4]
    assert forked.state.ref_cnt[1:3] == (3, 3)
    assert all(m.event is None or not m.event.copies for m in session.moments[:4])
    assert written.event is not None
    assert written.event.copies == ((2, 3), (2, 4))
    assert written.sequences["beam3"].block_table == (1, 2)
    assert len(written.told) == 3


def test_a_swapped_sequence_comes_back_into_other_blocks() -> None:
    session = SWAP.session()
    away = session.moments[4]
    assert set(away.state.host_sequences) == {"r1"}
    assert away.state.ref_cnt[3:6] == (0, 0, 0)
    pairs = zip(table(session, "r1", 3), table(session, "r1", 7), strict=True)
    assert all(one != other for one, other in pairs)
    assert session.moments[7].event is not None
    assert len(session.moments[7].event.copies) == 3


def test_what_is_free_is_remembered_until_it_is_taken() -> None:
    session = EVICTED.session()
    assert session.moments[2].state.num_used == 0
    hits = [session.moments[k].event.hits for k in (3, 7)]  # type: ignore[union-attr]
    assert hits == [(1, 2), (1,)]
    taken = session.moments[5].event
    assert taken is not None and 2 in taken.new


def test_equal_answers_make_duplicates() -> None:
    state = TWICE.session().now.state
    assert sorted(len(ids) for ids in state.cache.values()) == [1, 2]


def test_the_block_of_the_last_token_is_never_a_hit() -> None:
    session = LAST_TOKEN.session()
    hits = [m.event.hits for m in session.moments[1:] if m.event]
    assert hits == [(), (1,), (1, 2)]


def test_without_a_cache_nothing_is_shared_and_slots_of_one_waste_nothing() -> None:
    assert max(NO_CACHE.session().now.state.ref_cnt) == 1
    assert NO_CACHE.commands == SYSTEM.commands
    now = SLOTS.session().now
    views = now.sequences.values()
    assert [len(v.block_table) for v in views] == [len(v.token_ids) for v in views]


# --- a session ------------------------------------------------------------------------


def test_going_back_and_on_from_there_gives_up_what_came_after() -> None:
    session = Session(Pool(), [ask("a", "x y"), STEP, STEP, ask("b", "x y z")])
    session.go(1)
    assert list(session.now.sequences) == ["a"]
    session.do(ask("c", "one"))
    assert session.commands == [ask("a", "x y"), ask("c", "one")]
    assert session.now.state == Session(Pool(), session.commands).now.state
    assert session.plan.order == ("a", "c")


def test_typed_words_are_shared_and_numbers_are_new() -> None:
    typed = Session(Pool(), [ask("a", "1 2 3 4 5"), ask("b", "1 2 3 4 5")])
    assert typed.now.event is not None and typed.now.event.hits == (1,)
    counted = Session(Pool(), [numbers("a", 5), numbers("b", 5)])
    assert counted.now.event is not None and counted.now.event.hits == ()
    assert list(counted.labels.values()) == [str(n) for n in range(1, 11)]


REFUSED = [
    ([], STEP, "nobody is running"),
    ([], Command("finish", "a"), "no such sequence"),
    ([], ask("a", " "), "type a prompt first"),
    ([], ask(" ", "x"), "a name has 1 to 20 characters"),
    ([], ask("a" * 21, "x"), "a name has 1 to 20 characters"),
    ([], ask("a", "x " * 201), "201 words are too many"),
    ([], ask("a", "x" * 2001), "at most 2,000 characters"),
    ([], numbers("a", 0), "from 1 to 200"),
    ([], numbers("a", 201), "from 1 to 200"),
    ([], Command("fork", "a"), "fork needs name and child"),
    ([], Command("fly"), "there is no 'fly'"),
    ([ask("a", "x")], ask("a", "y"), "a is here already: choose another name"),
    ([ask("a", "x")], Command("fork", "a", child="a"), "a is here already"),
    ([ask("a", "x")], Command("resume", "a"), "a is running, not preempted"),
    ([ask("a", "x")], Command("swap_out", "a"), "no host blocks"),
    ([ask("a", "x"), Command("preempt", "a")], STEP, "nobody is running"),
    (
        [ask("a", "x"), Command("preempt", "a")],
        Command("append", "a", text="y"),
        "a is preempted: resume it first",
    ),
    ([numbers("a", 200)], Command("generate", "a", length=1), "the most here"),
    (
        [numbers("a", 199)],
        Command("append", "a", text="y z"),
        "201 tokens are too many",
    ),
    ([numbers("a", 200)], STEP, "everybody has 200 tokens"),
    ([numbers(f"r{i}", 1) for i in range(8)], numbers("r8", 1), "8 sequences are"),
]


@pytest.mark.parametrize(("before", "command", "why"), REFUSED)
def test_misuse_is_said_and_changes_nothing(
    before: list[Command], command: Command, why: str
) -> None:
    session = Session(Pool(64, 8), before)
    now = session.now
    with pytest.raises(CantDo, match=why):
        session.do(command)
    assert session.now is now and session.commands == before
    assert session.manager().snapshot() == now.state


def test_who_is_on_the_host_has_to_come_back_first() -> None:
    session = Session(Pool(8, 4, 4), [ask("a", "x y"), Command("swap_out", "a")])
    for command, why in [
        (Command("generate", "a", length=1), "a is on the host: swap it in first"),
        (Command("swap_out", "a"), "a is on the host: swap it in first"),
        (Command("resume", "a"), "a is on the host: swap it in"),
    ]:
        with pytest.raises(CantDo, match=why):
            session.do(command)
    session.do(Command("swap_in", "a"))
    with pytest.raises(CantDo, match="a is running already"):
        session.do(Command("swap_in", "a"))


def test_refusals_by_the_manager_are_kept_and_told() -> None:
    pool = Pool(4, 4)
    session = Session(pool, [numbers("a", 8), numbers("b", 8), numbers("c", 16)])
    assert "LATER. Nothing has changed. Make room, then ask again." in (
        session.moments[2].said
    )
    assert "NEVER. Nothing has changed. It needs a larger pool." in session.now.said
    session = Session(pool, [numbers("a", 12), STEP])
    assert "NEVER" in session.now.said and "Finish it, or undo" in session.now.said
    session = Session(pool, [numbers("a", 12), Command("reset")])
    assert "can't be reset while 3 blocks are in use" in session.now.said


def test_what_the_device_refuses_is_not_drawn_on_the_host() -> None:
    widget = Playground(num_blocks=4, num_host_blocks=2)
    for text in ("8", "2", "8"):
        widget.typed("text", text)
        widget.act("request", None)
    assert "LATER" in part(widget, "picture")
    assert "LATER" not in part(widget, "host")
    widget.act("append", None)
    assert "Preempt, finish or swap out somebody" in part(widget, "say")
    widget.act("undo", None)
    widget.act("choose", 0)
    widget.act("swap", None)
    widget.act("choose", 0)
    widget.act("swap", None)
    assert "LATER" in part(widget, "host") and "LATER" in part(widget, "say")


def test_tokens_without_a_slot_are_tried_again_and_none_is_added() -> None:
    session = Session(
        Pool(4, 4),
        [numbers("a", 8), numbers("b", 4), Command("generate", "a", length=2)],
    )
    assert session.now.waiting("a") == 2
    session.do(STEP)  # a waits still, b asks for its first
    assert session.now.lengths == {"a": 10, "b": 5}
    session.do(Command("finish", "b"))
    session.do(Command("generate", "a", length=200))
    assert session.now.lengths == {"a": 10} and session.now.waiting("a") == 0


def test_the_last_tokens_that_fit_are_tried_again_too() -> None:
    full = [numbers("a", 192), numbers("b", 1), Command("generate", "a", length=8)]
    session = Session(Pool(14, 16), [*full, Command("finish", "b"), STEP])
    assert session.moments[3].waiting("a") == 8 and session.now.waiting("a") == 0
    with pytest.raises(CantDo, match="everybody has 200 tokens"):
        session.do(STEP)


def test_in_a_step_who_has_all_tokens_is_left_out() -> None:
    session = Session(Pool(64, 8), [numbers("a", 200), numbers("b", 1), STEP])
    assert session.now.lengths == {"a": 200, "b": 2}


def test_what_stops_in_the_middle_has_not_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Session(Pool(), [numbers("a", 3), numbers("b", 3)])
    calls, append = [], BlockManager.append

    def stopped(self: BlockManager, *args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return append(self, *args)

    monkeypatch.setattr(BlockManager, "append", stopped)
    with pytest.raises(KeyboardInterrupt):
        session.do(STEP)
    session.do(STEP)
    assert session.now.lengths == {"a": 4, "b": 4}
    assert session.manager().snapshot() == session.now.state


def test_names_are_given_in_order_and_never_twice() -> None:
    session = Session(Pool(4, 4))
    session.do(numbers(session.new_name(), 4))
    session.do(numbers(session.new_name(), 4))
    session.do(Command("finish", "r0"))
    assert session.new_name() == "r2"
    session.do(numbers("r2", 16))  # NEVER: it may ask again by this name
    assert session.new_name() == "r2"


def test_a_session_has_an_end_and_says_so() -> None:
    session = Session(Pool(), [numbers("a", 1)])
    for _ in range(MOST_STEPS - 1):
        session.do(Command("reset"))
    with pytest.raises(CantDo, match="500 steps are as many as are kept"):
        session.do(Command("reset"))
    session.go(MOST_STEPS - 1)
    session.do(Command("reset"))
    assert len(session.commands) == MOST_STEPS
    pool, commands = from_text(to_text(session.pool, session.commands))
    assert Session(pool, commands).now.state == session.now.state


def test_typed_text_has_an_end_and_every_session_can_be_saved() -> None:
    session = Session(Pool())
    with pytest.raises(CantDo, match=f"{MOST_TYPED:,} typed characters"):
        for _ in range(100):
            session.do(ask("\x00" * 19 + "x", "\x00" * 1999 + "x"))
            session.do(Command("finish", "\x00" * 19 + "x"))
    assert sum(len(c.text or "") for c in session.commands) == MOST_TYPED
    text = to_text(session.pool, session.commands)
    assert len(text) + (MOST_STEPS - len(session.commands)) * 300 < MOST_FILE
    assert from_text(text) == (session.pool, session.commands)


# --- the desk: undo over sessions -----------------------------------------------------


def test_undo_goes_back_over_a_new_pool() -> None:
    desk = Desk(Session(Pool(), [ask("a", "x")]))
    state = desk.session.now.state
    desk.begin(Session(Pool(8, 2)))
    desk.do(ask("b", "y"))
    for _ in range(2):
        desk.undo()
    assert desk.session.now.state == state
    for _ in range(2):
        desk.redo()
    assert list(desk.session.now.sequences) == ["b"] and desk.why_no_redo()
    for _ in range(3):
        desk.undo()
    assert desk.session.at == 0 and desk.why_no_undo()
    with pytest.raises(CantDo, match="nothing to undo"):
        desk.undo()
    desk.do(ask("c", "z"))
    with pytest.raises(CantDo, match="nothing to do again"):
        desk.redo()
    desk.begin(Session(Pool()))
    desk.undo()
    desk.begin(Session(Pool(9, 3)))
    assert desk.why_no_redo()


def test_of_very_many_pools_the_oldest_are_forgotten() -> None:
    desk = Desk(Session(Pool()))
    for size in range(MOST_POOLS + 5):
        desk.begin(Session(Pool(8, 1 + size % 16)))
    count = 0
    while not desk.why_no_undo():
        desk.undo()
        count += 1
    assert count == MOST_POOLS
    with pytest.raises(CantDo, match="only 50 pools are kept"):
        desk.undo()


# --- files ----------------------------------------------------------------------------


def log(**changes: Any) -> dict[str, Any]:
    pool = {"num_blocks": 8, "block_size": 4, "num_host_blocks": 0}
    good: dict[str, Any] = {
        "kind": "blockmgr playground",
        "version": 1,
        "pool": {**pool, "enable_caching": True},
        "commands": [{"op": "request", "name": "a", "text": "x y"}, {"op": "step"}],
    }
    return good | changes


def one(**command: Any) -> dict[str, Any]:
    return log(commands=[command])


def pool_of(**changes: Any) -> dict[str, Any]:
    return log(pool=log()["pool"] | changes)


BAD = {
    "nothing": "",
    "no JSON": "hello",
    "cut off": json.dumps(log())[:-20],
    "a number": "7",
    "another list": "[1, 2]",
    "foreign": json.dumps({"cells": [], "nbformat": 4}),
    "too long": " " * (MOST_FILE + 1),
    "deep": "[" * 100_000,
    "a huge number": json.dumps(log()).replace("8", "9" * 5000),
    "not a number": json.dumps(log()).replace("8", "NaN"),
    "a key twice": json.dumps(log()).replace(
        '"version": 1', '"version": 1, "version": 1'
    ),
    "another version": json.dumps(log(version=2)),
    "true is no version": json.dumps(log(version=True)),
    "1.0 is no version": json.dumps(log(version=1.0)),
    "more keys": json.dumps(log(__proto__={})),
    "no pool": json.dumps(log(pool=None)),
    "a huge pool": json.dumps(pool_of(num_blocks=10**9)),
    "half a block": json.dumps(pool_of(block_size=0.5)),
    "true blocks": json.dumps(pool_of(block_size=True)),
    "caching 1": json.dumps(pool_of(enable_caching=1)),
    "commands by name": json.dumps(log(commands={})),
    "501 commands": json.dumps(log(commands=[{"op": "step"}] * 501)),
    "a command that is none": json.dumps(log(commands=["step"])),
    "an op that is none": json.dumps(one(op="__init__")),
    "an op that is a list": json.dumps(one(op=[])),
    "a field too many": json.dumps(one(op="step", name="a")),
    "a field too few": json.dumps(one(op="request", name="a")),
    "a name of another kind": json.dumps(one(op="finish", name=3)),
    "a length of another kind": json.dumps(one(op="numbers", name="a", length=2.5)),
    "a true length": json.dumps(one(op="numbers", name="a", length=True)),
    "a long name": json.dumps(one(op="finish", name="x" * 10_000)),
    "a huge length": json.dumps(one(op="numbers", name="a", length=10**12)),
    "an empty prompt": json.dumps(one(op="request", name="a", text=" ")),
    "what can't be done": json.dumps(one(op="finish", name="<img src=x>")),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_file_is_named_and_changes_nothing(text: str) -> None:
    desk = Desk(SYSTEM.session())
    session = desk.session
    with pytest.raises(BadLog) as caught:
        desk.load(text)
    assert 10 < len(str(caught.value)) < 250
    assert desk.session is session and desk.why_no_redo()
    bench = Workbench(SYSTEM.session())
    session = bench.session
    bench.type("load", text)
    assert bench.session is session and bench.notice.startswith("nothing was loaded: ")


def test_the_place_of_what_is_wrong_is_named() -> None:
    with pytest.raises(BadLog, match=r"command 3 \(resume\): a is running"):
        Desk(Session(Pool())).load(
            json.dumps(
                log(commands=[*log()["commands"], {"op": "resume", "name": "a"}])
            )
        )
    with pytest.raises(BadLog, match="num_blocks must be a whole number from 4 to 64"):
        from_text(json.dumps(pool_of(num_blocks=3)))


def test_half_a_character_in_a_file_becomes_a_whole_one() -> None:
    _, (command,) = from_text(
        json.dumps(one(op="request", name="\ud800", text="\udfff"))
    )
    assert command == ask("?", "?")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.title)
def test_what_is_saved_can_be_loaded(scenario: Any) -> None:
    desk, other = Desk(scenario.session()), Desk(Session(Pool()))
    other.load(desk.save())
    assert other.session.now.state == desk.session.now.state
    assert other.session.commands == list(scenario.commands)
    link = to_link(desk.save())
    assert b64decode(link.partition("base64,")[2]).decode("utf-8") == desk.save()


# --- buttons --------------------------------------------------------------------------


@pytest.fixture
def bench() -> Workbench:
    return Workbench(Session(Pool(8, 4, 4)))


def test_a_number_is_a_length_and_words_are_a_prompt(bench: Workbench) -> None:
    bench.type("text", " 6 ")
    bench.press("request")
    assert bench.session.commands[-1] == numbers("r0", 6)
    bench.type("text", "hello you")
    bench.type("name", " Ada ")
    bench.press("request")
    assert bench.session.commands[-1] == ask("Ada", "hello you")
    assert (bench.chosen, bench.name, bench.text) == ("Ada", "", "hello you")
    bench.press("append")
    assert bench.session.commands[-1] == Command("append", "Ada", text="hello you")
    bench.type("text", "2")
    bench.press("append")
    assert bench.session.commands[-1] == Command("generate", "Ada", length=2)


@pytest.mark.parametrize("text", ["0", "201", "9" * 2000, "", "  ", "x " * 201])
def test_what_is_no_prompt_is_refused_in_words(bench: Workbench, text: str) -> None:
    bench.type("text", text)
    bench.press("request")
    assert bench.notice and not bench.session.commands


def test_two_buttons_turn_round_with_the_state_of_the_chosen(bench: Workbench) -> None:
    bench.press("request")
    for press, status in [
        ("pause", "preempted"),
        ("pause", "running"),
        ("swap", "swapped"),
        ("swap", "running"),
    ]:
        bench.press(press)
        assert (bench.notice, bench.chosen_status) == ("", status)


def test_quick_presses_all_count_up_to_a_limit(bench: Workbench) -> None:
    bench.press("request")
    bench.press("token", 3)
    assert len(bench.session.commands) == 4
    bench.press("token", 10**9)
    assert len(bench.session.commands) == 4 + MOST_PRESSES


def test_who_is_chosen_stays_chosen_and_a_click_chooses(bench: Workbench) -> None:
    bench.type("text", "a b c d e")
    bench.press("request", 2)
    assert bench.chosen == "r1"
    bench.choose_by_key("block:1")  # shared: nothing to change
    assert bench.chosen == "r1"
    for key in ("seq:r0", "seq:r0:logical:1", "block:2"):
        bench.press("choose", 1)
        bench.choose_by_key(key)
        assert bench.chosen == "r0"
    bench.choose_by_key("")
    bench.choose_by_key("block:99")
    assert bench.chosen == "r0"
    bench.press("finish")
    assert bench.chosen == "r1"
    bench.press("choose", 7)
    assert "no such sequence" in bench.notice


def test_a_scenario_to_which_something_was_added_can_be_chosen_anew() -> None:
    bench = Workbench(SYSTEM.session())
    assert bench.scenario == 0
    bench.press("undo")
    assert bench.scenario == 0
    bench.press("token")
    assert bench.scenario == -1
    bench.press("scenario", 0)
    assert (bench.scenario, bench.session.at) == (0, 3)
    bench.press("new")
    assert bench.scenario == -1
    bench.press("undo")
    assert bench.scenario == 0


def test_sizes_that_were_chosen_stay_until_another_pool_is_there() -> None:
    bench = Workbench(SYSTEM.session())
    bench.press("blocks", 20)
    bench.press("undo")
    assert bench.wanted.num_blocks == 20
    bench.press("blocks", 3)
    assert "num_blocks must be a whole number from 4 to 64" in bench.notice
    bench.press("new")
    assert bench.session.pool.num_blocks == 20
    bench.press("undo")
    assert bench.wanted == bench.session.pool == SYSTEM.pool


def test_the_same_empty_pool_again_is_nothing_to_undo() -> None:
    bench = Workbench(SYSTEM.session())
    bench.press("new", MOST_PRESSES)
    bench.press("undo")
    assert bench.session.commands == list(SYSTEM.commands)


# --- any commands whatever ------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "", NASTY[:20], "seq:a"])
COMMANDS = st.builds(
    Command,
    op=st.sampled_from([*FIELDS, "fly"]),
    name=st.none() | NAMES,
    text=st.none() | st.sampled_from(["x y z w", "x y z w v", "", "q " * 30]),
    length=st.none() | st.integers(-1, 30),
    child=st.none() | NAMES,
)


def fitting(command: Command) -> Command:
    """The command without the fields that it must not have."""
    fields = FIELDS.get(command.op, ())
    return Command(command.op, **{f: getattr(command, f) for f in fields})


POOLS = st.builds(
    Pool,
    st.integers(4, 9),
    st.sampled_from([1, 2, 4, 16]),
    st.integers(0, 4),
    st.booleans(),
)
ACTS = st.lists(
    COMMANDS.map(fitting) | COMMANDS | st.integers(0, 30) | POOLS, max_size=40
)


@settings(max_examples=150, deadline=None)
@given(POOLS, ACTS)
def test_any_commands_leave_it_right_and_all_of_it_can_be_undone(
    pool: Pool, acts: list[Command | int | Pool]
) -> None:
    desk = Desk(Session(pool))
    start = desk.session.now.state
    for act in acts:
        state = desk.session.now.state
        try:
            _act(desk, act)
        except CantDo:
            assert desk.session.now.state == state
        assert green(desk.session.now.state)
        assert desk.session.manager().snapshot() == desk.session.now.state
        _drawn_event_tells_the_state(desk.session)
    _there_and_back(desk, start)


def _drawn_event_tells_the_state(session: Session) -> None:
    """The one event of a command does all that its many events did."""
    event = session.now.event
    if event is not None and session.before is not None:
        assert session.before.after(event) == session.now.state


def _act(desk: Desk, act: Command | int | Pool) -> None:
    if isinstance(act, Command):
        desk.do(act)
    elif isinstance(act, Pool):
        desk.begin(Session(act))
    else:
        desk.session.go(act)


def _there_and_back(desk: Desk, start: Snapshot) -> None:
    """Save and load; undo all, and do all of it again."""
    while not desk.why_no_redo():
        desk.redo()
    end = desk.session.now.state
    loaded = Desk(Session(Pool()))
    loaded.load(desk.save())
    assert loaded.session.now.state == end
    while not desk.why_no_undo():
        desk.undo()
    assert desk.session.now.state == start
    while not desk.why_no_redo():
        desk.redo()
    assert desk.session.now.state == end


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_log_or_a_bad_log(text: str) -> None:
    desk = Desk(Session(Pool()))
    for damaged in (text, json.dumps(log()).replace("x y", text.replace('"', ""))):
        try:
            desk.load(damaged)
        except BadLog:
            continue
        assert green(desk.session.now.state)


# --- the widget -----------------------------------------------------------------------


@pytest.fixture
def playground() -> Any:
    made = Playground(0)
    yield made
    made.close()


def tell(widget: Playground, act: str, value: object = None, text: Any = None) -> None:
    """What the page sends."""
    message = {"act": act, "value": value, "n": widget.frame["n"]}
    widget._heard(widget, message if text is None else message | {"text": text}, [])


def part(widget: Playground, name: str) -> str:
    return str(widget.frame["parts"][name])


def control(widget: Playground, name: str) -> dict[str, Any]:
    return dict(widget.frame["controls"][name])


def test_it_opens_with_a_scenario_and_says_what_to_look_at(
    playground: Playground,
) -> None:
    assert repr(playground) == "Playground(2 sequences, 6 of 11 blocks in use)"
    assert part(playground, "look").startswith("Two chats, one system prompt. Blocks")
    assert part(playground, "count") == "step 3 of 3"
    assert "every invariant holds" in part(playground, "audit")
    assert part(playground, "told").count("<li>") == 2
    assert repr(Playground()) == "Playground(0 sequences, 0 of 11 blocks in use)"


@pytest.mark.parametrize(
    "sizes", [{"num_blocks": 3}, {"block_size": 17}, {"scenario": 99}]
)
def test_sizes_that_it_does_not_offer_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(CantDo):
        Playground(**sizes)  # type: ignore[arg-type]


def test_its_manager_is_a_real_one_of_your_own(playground: Playground) -> None:
    manager = playground.manager
    manager.free("Ada")
    assert set(playground.session.now.sequences) == {"Ada", "Ben"}
    assert manager.log is not None and len(manager.log) == 5
    manager.audit()


def test_buttons_that_make_no_sense_now_say_why_and_do_nothing(
    playground: Playground,
) -> None:
    assert control(playground, "swap") == {
        "ariaDisabled": "true",
        "title": "this pool has no host blocks: choose some for a new pool",
        "textContent": "Swap out",
    }
    state = playground.session.now.state
    tell(playground, "swap")
    assert playground.session.now.state is state
    assert "Not done:" in part(playground, "say") and "no host" in part(
        playground, "say"
    )
    tell(playground, "pause")
    assert control(playground, "pause")["textContent"] == "Resume"
    assert control(playground, "token")["title"] == "Ben is preempted: resume it first"
    assert "Not done" not in part(playground, "say")


def test_an_empty_pool_offers_a_request_and_little_else() -> None:
    disabled = {
        name
        for name, values in Playground().frame["controls"].items()
        if values.get("ariaDisabled") == "true"
    }
    chosen = {"append", "token", "fork", "finish", "pause", "swap"}
    assert disabled == chosen | {"step", "undo", "redo"}


def test_one_frame_answers_each_message(playground: Playground) -> None:
    seen: list[int] = []
    playground.observe(lambda change: seen.append(change["new"]["n"]), names="frame")
    messages: list[tuple[str, Any, Any]] = [
        *[("step", None, None), ("choose", 0, None), ("scenario", 2, None)],
        *[("text", None, "abc"), ("load", None, "{}"), ("undo", 3, None)],
        *[("no such", 1, None), ("moment", 1, None), ("new", None, None)],
    ]
    for act, value, text in messages:
        tell(playground, act, value, text)
    assert seen == list(range(seen[0], seen[0] + len(messages)))
    assert part(playground, "error") == ""


def test_while_somebody_types_the_picture_stays_and_the_button_tells(
    playground: Playground,
) -> None:
    parts = dict(playground.frame["parts"])
    for text, title in [
        ("a new prompt", "a new sequence with 3 tokens"),
        ("1", "a new sequence with 1 token"),
        (" ", "type a prompt first, or its length as a number, such as 12"),
        ("999", "a length is a whole number from 1 to 200"),
    ]:
        tell(playground, "text", text=text)
        assert playground.frame["parts"] == parts
        assert control(playground, "request")["title"] == title
    tell(playground, "text", text="1")
    tell(playground, "name", text="Ada")
    title = "Ada is here already: choose another name"
    assert control(playground, "request")["title"] == title
    tell(playground, "request")
    assert f"{title}." in part(playground, "say")


def test_what_is_chosen_is_marked_and_a_click_chooses(playground: Playground) -> None:
    tell(playground, "choose", 0)
    assert playground.selected == "seq:Ada"
    assert control(playground, "choose")["value"] == "0"
    playground.selected = "seq:Ben:logical:2"
    assert control(playground, "choose")["value"] == "1"
    tell(playground, "scenario", 1)
    assert playground.selected == ""


def test_nothing_in_the_picture_moves_up_again(playground: Playground) -> None:
    tell(playground, "scenario", 3)
    tops = []
    for act in ("token", "undo", "undo", "undo", "undo", "redo", "finish", "undo"):
        tell(playground, act)
        svg = part(playground, "picture")
        tops.append(
            float(svg.partition("-pool' transform='")[2].split(" ")[1].split(")")[0])
        )
    assert len(set(tops)) == 1


def test_everything_typed_reaches_the_page_as_text(playground: Playground) -> None:
    for _ in range(3):
        tell(playground, "name", text=NASTY[:20])
        tell(playground, "text", text=f"{NASTY} </script><img src=x onerror=alert(1)>")
        tell(playground, "request")
    tell(playground, "fork")
    parts = json.dumps(playground.frame["parts"])
    assert "<script" not in parts and "<img src=x" not in parts
    options = control(playground, "choose")["innerHTML"]
    assert "<script" not in options and "&lt;script" in options
    json.dumps(playground.frame).encode("utf-8")
    tell(playground, "name", text="\u2800")
    tell(playground, "request")
    shown = "\u2068␣\u2069 · 4 tokens<"  # from left to right, whatever the name is
    assert shown in control(playground, "choose")["innerHTML"]
    page = playground.page()
    assert "<script" not in page and "<img src=x" not in page


def test_a_page_without_a_kernel_shows_the_state_and_says_what_is_missing() -> None:
    one, two = (Playground(0) for _ in range(2))
    assert one.page() == two.page()
    assert one.page().count("<img") == 2  # the picture and its legend
    assert "run the cell" in one.page() and "every invariant holds" in one.page()
    assert "Decode step: Ada and Ben had room" in one.page()


def test_a_playground_that_was_closed_can_still_be_told_things() -> None:
    widget = Playground(0)
    widget.close()
    widget.act("step", None)
    widget.selected = "block:1"
    assert len(widget.session.commands) == 4


# --- 3,000 random acts ----------------------------------------------------------------

BUTTONS = ("request", "append", "step", "token", "fork", "finish", "pause", "swap")
RARE = ("reset", "undo", "redo", "new")
CHOICES = {
    "choose": range(-2, 12),
    "moment": range(-5, 700),
    "scenario": range(-2, len(SCENARIOS) + 1),
    "blocks": range(0, 70),
    "size": range(0, 20),
    "host": range(-1, 20),
    "cache": range(0, 2),
}
TEXTS = (
    *(
        "",
        " ",
        "12",
        "0",
        "201",
        "-3",
        "1e9",
        "a b c d e f g h",
        "Why is the sky blue ?",
    ),
    *(NASTY, "x" * 5000, "y " * 150, "🧱 🧱 🧱", "\u202eשלוש שלום", "<b>bold</b> & co"),
)


def random_act(widget: Playground, luck: random.Random) -> None:
    kind = luck.random()
    if kind < 0.5:
        tell(widget, luck.choice(BUTTONS), luck.choice((None, None, 2, 5)))
    elif kind < 0.7:
        tell(widget, luck.choice(RARE if luck.random() < 0.7 else RARE[:-1]))
    elif kind < 0.8:
        act = luck.choice([*CHOICES])
        if act != "scenario" or luck.random() < 0.2:
            tell(widget, act, luck.choice(CHOICES[act]))
    elif kind < 0.9:
        field = luck.choice(("text", "text", "name"))
        tell(widget, field, text=luck.choice(TEXTS))
    elif kind < 0.97:
        names = [f"seq:{name}" for name in widget.session.now.sequences]
        widget.selected = luck.choice([*names, "", f"block:{luck.randrange(70)}", "?"])
    else:
        tell(widget, "load", text=luck.choice([*BAD.values()][:12]))


def callbacks(widget: Playground) -> tuple[int, Counter[str]]:
    listeners = {
        f"{name}/{kind}": len(found)
        for name, kinds in widget._trait_notifiers.items()
        for kind, found in kinds.items()
    }
    return len(widget._msg_callbacks.callbacks), Counter(listeners)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_thousand_random_acts_leave_it_right(seed: int) -> None:
    luck = random.Random(seed)
    widget = Playground(seed - 1)
    start = widget.session.moments[0].state
    heard, alive = callbacks(widget), set(ipywidget._instances)
    pools = 0
    for _ in range(1000):
        session = widget.session
        random_act(widget, luck)
        pools += widget.session is not session
        assert part(widget, "error") == ""
        assert "every invariant holds" in part(widget, "audit")
        assert len(widget.session.now.sequences) <= MOST_SEQUENCES
        assert max(widget.session.now.lengths.values(), default=0) <= MOST_TOKENS
    assert pools > 10, "it was never put to the test"
    widget.manager.audit()
    assert (callbacks(widget), set(ipywidget._instances)) == (heard, alive)
    _save_and_load(widget)
    _undo_everything(widget, start)
    widget.close()


def _save_and_load(widget: Playground) -> None:
    state = widget.session.now.state
    href = control(widget, "save")["href"]
    text = b64decode(href.partition("base64,")[2]).decode("utf-8")
    tell(widget, "load", text=text)
    assert "Not done" not in part(widget, "say")
    assert widget.session.now.state == state


def _undo_everything(widget: Playground, start: Snapshot) -> None:
    presses = 0
    while control(widget, "undo")["ariaDisabled"] == "false":
        tell(widget, "undo", MOST_PRESSES)
        presses += 1
        assert presses < 5000
    assert widget.session.at == 0
    assert widget.session.now.state == start
    assert "every invariant holds" in part(widget, "audit")
