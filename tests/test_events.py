"""What happened, and the states between: the log alone tells everything."""

import copy
import pickle
from array import array
from typing import Any

import pytest

from blockmgr import BlockManager, Event, EventLog, MultiModal, SequenceView, Snapshot
from blockmgr.events import (
    Cleared,
    Released,
    Removed,
    Stored,
    Taken,
    Touched,
)
from blockmgr.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, kv_events
from blockmgr.prefix import BlockHash, extend_hashes
from blockmgr.replay import RECORDINGS, read_trace, replay_log


def names(tokens: list[int], block_size: int = 4) -> list[str]:
    """The hex digests of a plain prompt's full blocks."""
    hashes: list[BlockHash] = []
    extend_hashes(hashes, array("Q", tokens), block_size)
    return [name.hex() for name in hashes]


def day() -> BlockManager:
    """Every operation once, granted and refused: what the tests below look at."""
    manager = BlockManager(num_blocks=6, block_size=4, record=True)
    manager.allocate("a", [*range(8), 50])  # 0
    manager.allocate("b", [*range(8), 60])  # 1: hits 1, 2
    manager.allocate("c", range(100, 108))  # 2: LATER
    manager.append("a", [51])  # 3: in place
    manager.preempt("b")  # 4
    manager.allocate_slots("a", num_lookahead=4)  # 5
    manager.free("a")  # 6
    manager.resume("b")  # 7
    manager.reset_prefix_cache()  # 8: False
    manager.evict_blocks([2])  # 9
    manager.free("b")  # 10
    manager.allocate("d", range(200, 220))  # 11: takes all, evicts
    manager.append("d", [220])  # 12: NEVER
    manager.free("d")  # 13
    manager.reset_prefix_cache()  # 14: True
    return manager


DAY = day()
LOG: Any = DAY.log


def test_one_event_an_operation() -> None:
    told = [(event.op, event.seq_id, event.status) for event in LOG]
    assert told == [
        ("allocate", "a", "OK"),
        ("allocate", "b", "OK"),
        ("allocate", "c", "LATER"),
        ("append", "a", "OK"),
        ("preempt", "b", "OK"),
        ("allocate_slots", "a", "OK"),
        ("free", "a", "OK"),
        ("resume", "b", "OK"),
        ("reset", None, "LATER"),
        ("evict", None, "OK"),
        ("free", "b", "OK"),
        ("allocate", "d", "OK"),
        ("append", "d", "NEVER"),
        ("free", "d", "OK"),
        ("reset", None, "OK"),
    ]
    assert repr(LOG) == "EventLog(15 events)"
    assert len(LOG) == 15


def test_an_event_says_what_was_asked_and_answered() -> None:
    hit, refused, in_place, never = (LOG.events[i] for i in (1, 2, 3, 12))
    assert (hit.hits, hit.new, hit.token_ids) == ((1, 2), (4,), (60,))
    assert (hit.needed, hit.free) == (1, 2)
    assert refused.token_ids == tuple(range(100, 108))
    assert (refused.needed, refused.free, refused.new) == (2, 1, ())
    assert (in_place.new, in_place.token_ids) == ((), (51,))
    assert (never.token_ids, never.needed, never.free) == ((220,), 1, 0)


def test_a_refused_admission_asked_for_what_lies_behind_its_hits() -> None:
    manager = BlockManager(num_blocks=4, block_size=4, record=True)
    manager.allocate("a", range(8))
    manager.allocate("b", [0, 1, 2, 3, *range(50, 57)])
    log: Any = manager.log
    event = log.events[-1]
    assert (event.status, event.hits) == ("LATER", (1,))
    assert event.token_ids == tuple(range(50, 57))


def test_a_refused_operation_changed_nothing() -> None:
    for event in LOG:
        if event.status != "OK":
            assert (event.changes, dict(event.sequences)) == ((), {})


def test_an_event_holds_every_change_in_order() -> None:
    h = names([*range(8)])
    kinds = [[type(change) for change in event.changes] for event in LOG]
    assert kinds[0] == [Taken, Stored]
    assert LOG.events[1].changes == (Touched((1, 2)), Taken((4,)))
    assert LOG.events[4].changes == (Released((4, 2, 1), head=(4,), tail=()),)
    assert LOG.events[6].changes == (Released((4, 3, 2, 1), head=(4, 3), tail=(2, 1)),)
    assert LOG.events[9].changes == (Removed(((2, h[1]),)),)
    assert LOG.events[11].changes[0] == Taken((4, 2, 3, 5, 1), ((1, h[0]),))
    assert LOG.events[14].changes == (Cleared(),)


def test_the_log_leads_through_every_state() -> None:
    """Taken beside the operations, the snapshots are those that the log tells."""
    states = LOG.snapshots()
    assert len(states) == len(LOG) + 1
    assert states[0] == LOG.initial == BlockManager(6, block_size=4).snapshot()
    assert states[-1] == DAY.snapshot()
    assert states[3] == states[2]  # a refused operation
    assert states[1].sequences["a"] == SequenceView(
        "a", (1, 2, 3), (*range(8), 50), "running"
    )
    assert states[5].sequences["b"] == SequenceView("b", (), (), "preempted")
    assert "a" not in states[7].sequences
    assert states[15].cache == {}


@pytest.mark.parametrize("start", ["00_", "11_", "14_", "25_", "29_", "30_"])
def test_the_log_tells_a_recorded_run_step_by_step(start: str) -> None:
    """Against vLLM's own states, so the log is checked by somebody else's."""
    path = next(RECORDINGS.glob(f"{start}*"))
    steps = [s for s in read_trace(path)[1][:150] if s["op"] != "lookup"]
    states = replay_log(path, 150).snapshots()[1:]
    assert len(states) == len(steps)
    for state, step in zip(states, steps, strict=True):
        assert list(state.ref_cnt) == step["rc"]
        assert list(state.free_queue) == step["fq"]
        assert len(state.cache) == step["ck"]


def test_a_log_can_start_in_the_middle() -> None:
    states = LOG.snapshots()
    rest = EventLog(states[6], LOG.events[6:])
    assert rest.snapshots() == states[6:]


# --- snapshots ----------------------------------------------------------------------


def test_equal_states_compare_equal_and_others_do_not() -> None:
    one, other = BlockManager(6, 4), BlockManager(6, 4)
    for manager in (one, other):
        manager.allocate("a", range(6))
    assert one.snapshot() == other.snapshot()
    other.append("a", [6])
    assert one.snapshot() != other.snapshot()


def test_the_order_of_the_queue_is_part_of_the_state() -> None:
    state = BlockManager(6, 4).snapshot()
    assert state != state._replace(free_queue=(2, 1, 3, 4, 5))


def test_an_old_snapshot_stays_what_it_was() -> None:
    manager = BlockManager(6, 4, record=True)
    manager.allocate("a", range(6))
    state = manager.snapshot()
    as_text = repr(state)
    manager.append("a", range(4))
    manager.free("a")
    manager.reset_prefix_cache()
    assert repr(state) == as_text
    state.after(Event("evict", changes=(Cleared(),)))
    assert repr(state) == as_text


def test_a_snapshot_can_not_be_changed() -> None:
    state: Any = BlockManager(6, 4).snapshot()
    with pytest.raises(AttributeError):
        state.free_queue = ()
    with pytest.raises(TypeError):
        state.ref_cnt[1] = 5


@pytest.mark.parametrize(
    "twin", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_log_can_be_stored_and_read_again(twin: Any) -> None:
    other = twin(LOG)
    assert other.snapshots() == LOG.snapshots()
    assert list(other) == list(LOG)


def test_a_snapshot_counts() -> None:
    state = LOG.snapshots()[2]  # a: 1 2 3, b: 1 2 4
    assert (state.num_usable, state.num_used, state.num_free) == (5, 4, 1)
    assert state.usage == 0.8
    assert state.owners(1) == ("a", "b")
    assert (state.owners(4), state.owners(5)) == (("b",), ())
    assert [state.filled(b) for b in range(6)] == [0, 4, 4, 1, 1, 0]


def test_a_block_with_look_ahead_only_is_empty() -> None:
    manager = BlockManager(6, 4)
    manager.allocate("a", [1, 2], num_lookahead=7)
    assert [manager.snapshot().filled(b) for b in (1, 2, 3)] == [2, 0, 0]


def test_usage_is_the_same_everywhere() -> None:
    manager = BlockManager(8, 4)
    for i in range(8):
        assert manager.usage == pytest.approx(manager.snapshot().usage)
        assert manager.usage == pytest.approx(i / 7)
        manager.allocate(f"r{i}", [1])


# --- vLLM's cache events ------------------------------------------------------------


def published(manager: BlockManager) -> list[Any]:
    log: Any = manager.log
    return [e for event in log for e in kv_events(event, manager.block_size)]


def test_one_stored_event_a_registering_call() -> None:
    manager = BlockManager(9, 2, record=True)
    manager.allocate("a", [1, 2, 3, 4, 5])
    manager.append("a", [6])
    h = names([1, 2, 3, 4, 5, 6], 2)
    first, second = published(manager)
    assert first == BlockStored(tuple(h[:2]), None, (1, 2, 3, 4), 2, ((), ()))
    assert second == BlockStored((h[2],), h[1], (5, 6), 2, ((),))


def test_a_hit_is_not_stored_again() -> None:
    manager = BlockManager(9, 2, record=True)
    manager.allocate("a", [1, 2, 3])
    manager.allocate("b", [1, 2, 3, 4])
    h = names([1, 2, 3, 4], 2)
    assert published(manager)[1:] == [BlockStored((h[1],), h[0], (3, 4), 2, ((),))]


def test_removed_and_cleared() -> None:
    manager = BlockManager(4, 2, record=True)
    manager.allocate("a", [1, 2, 3, 4])
    manager.free("a")
    manager.evict_blocks([2])
    manager.allocate("b", [7] * 5)
    h, other = names([1, 2, 3, 4], 2), names([7] * 4, 2)
    manager.free("b")
    assert manager.reset_prefix_cache()
    assert published(manager)[1:] == [
        BlockRemoved((h[1],)),
        BlockRemoved((h[0],)),
        BlockStored(tuple(other), None, (7, 7, 7, 7), 2, ((), ())),
        AllBlocksCleared(),
    ]


def test_a_stored_event_says_each_blocks_extra_keys() -> None:
    manager = BlockManager(9, 2, record=True)
    manager.allocate(
        "a", [1] * 4, lora=("l", "/l"), mm=(MultiModal("m", 2, 1),), cache_salt="s"
    )
    (stored,) = published(manager)
    assert stored.extra_keys == (
        (("lora", "l", "/l"), ("salt", "s")),
        (("lora", "l", "/l"), ("mm", "m", 0)),
    )


def test_whoever_follows_the_cache_events_knows_the_cache() -> None:
    """A router sees only what is published. It must end with our map."""
    for start in ("11_", "25_", "28_", "29_"):
        path = next(RECORDINGS.glob(f"{start}*"))
        log = replay_log(path, 300)
        known: list[str] = []
        for event in log:
            for told in kv_events(event, log.initial.block_size):
                match told:
                    case BlockStored(hashes):
                        known += hashes
                    case BlockRemoved(hashes):
                        known.remove(hashes[0])
                    case AllBlocksCleared():
                        known = []
        last: Snapshot = log.snapshots()[-1]
        ours = [key for key, blocks in last.cache.items() for _ in blocks]
        assert sorted(known) == sorted(ours)


def test_a_reset_is_told_whether_it_was_done_or_not() -> None:
    manager = BlockManager(6, block_size=4, record=True)
    manager.allocate("a", range(8))
    assert not manager.reset_prefix_cache()
    manager.free("a")
    assert manager.reset_prefix_cache()
    assert manager.log is not None
    told = [(event.op, event.status, event.changes) for event in manager.log][1::2]
    assert told == [("reset", "LATER", ()), ("reset", "OK", (Cleared(),))]


def test_every_operation_is_told_by_its_name() -> None:
    manager = BlockManager(8, block_size=4, record=True)
    manager.allocate("a", range(5))
    manager.append("a", [5])
    manager.add_tokens("a", [6])  # no slot, no block: nothing that a state shows
    manager.allocate_slots("a")
    manager.preempt("a")
    manager.evict_blocks([1])
    manager.resume("a")
    manager.free("a")
    assert manager.log is not None
    told = [(event.op, event.seq_id, event.status) for event in manager.log]
    assert told == [
        ("allocate", "a", "OK"),
        ("append", "a", "OK"),
        ("allocate_slots", "a", "OK"),
        ("preempt", "a", "OK"),
        ("evict", None, "OK"),
        ("resume", "a", "OK"),
        ("free", "a", "OK"),
    ]
    manager.audit()
