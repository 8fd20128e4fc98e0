"""The audit finds what is broken and names it.

An audit that can't fail proves nothing, so every invariant is broken here, in a state
and inside a living manager.
"""

from typing import Any

import pytest

from blockmgr import AuditError, BlockManager, SequenceView, Snapshot, audit
from blockmgr.replay import RECORDINGS, replay_log


def manager() -> BlockManager:
    """a: 1 2 3, b: 1 2 4; 5 is free and cached, 6 and 7 are free and blank."""
    made = BlockManager(num_blocks=8, block_size=4, record=True)
    made.allocate("a", [*range(8), 50])
    made.allocate("b", [*range(8), 60])
    made.allocate("c", range(100, 104))
    made.free("c")
    return made


STATE = manager().snapshot()


def put(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    """A tuple with one entry changed."""
    return (*values[:index], value, *values[index + 1 :])


def view(seq_id: str, table: tuple[int, ...], n: int) -> dict[str, SequenceView]:
    """The sequences of `STATE`, one of them another."""
    return {**STATE.sequences, seq_id: SequenceView(seq_id, table, tuple(range(n)))}


def cached(key: str, *block_ids: int) -> dict[str, tuple[int, ...]]:
    """The cache of `STATE` with one more (or another) entry."""
    return {**STATE.cache, key: block_ids}


KEY_OF_1, KEY_OF_5 = STATE.block_hash[1], STATE.block_hash[5]
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "block 0 has a user": (
        {"ref_cnt": put(STATE.ref_cnt, 0, 1)},
        "the null block is nobody's",
    ),
    "block 0 has a hash": (
        {"block_hash": put(STATE.block_hash, 0, "ab"), "cache": cached("ab", 0)},
        "the null block is nobody's",
    ),
    "block 0 is free": (
        {"free_queue": (*STATE.free_queue, 0)},
        "the null block is nobody's",
    ),
    "a free block is lost": (
        {"free_queue": STATE.free_queue[1:]},
        "every block is free or in use",
    ),
    "a free block stands twice": (
        {"free_queue": (*STATE.free_queue, 6)},
        "every block is free or in use",
    ),
    "a block in use is free": (
        {"free_queue": (*STATE.free_queue, 1)},
        "every block is free or in use",
    ),
    "a block that is not there is free": (
        {"free_queue": (*STATE.free_queue, 99)},
        "free + in use = usable",
    ),
    "one user too many": (
        {"ref_cnt": put(STATE.ref_cnt, 1, 3)},
        "ref counts = table entries",
    ),
    "one user too few": (
        {"ref_cnt": put(STATE.ref_cnt, 1, 1)},
        "ref counts = table entries",
    ),
    "a sequence that nobody counted": (
        {"sequences": view("new", (1,), 2)},
        "ref counts = table entries",
    ),
    "a block twice in one table": (
        {"sequences": view("a", (1, 2, 3, 3), 9)},
        "tables hold their tokens",
    ),
    "a block that is not there in a table": (
        {"sequences": view("a", (1, 2, 3, 99), 9)},
        "tables hold their tokens",
    ),
    "a token without a slot": (
        {"sequences": view("a", (1, 2, 3), 13)},
        "tables hold their tokens",
    ),
    "a block whose hash the map lacks": (
        {"block_hash": put(STATE.block_hash, 6, "ab")},
        "map and blocks agree",
    ),
    "a block that lost the hash it has in the map": (
        {"block_hash": put(STATE.block_hash, 5, None)},
        "map and blocks agree",
    ),
    "a block that is also under its old hash": (
        {"cache": {"0" * 64: (5,), **STATE.cache}},
        "map and blocks agree",
    ),
    "a block under another's hash": (
        {"cache": cached(str(KEY_OF_1), 5)},
        "map and blocks agree",
    ),
    "a block twice under its hash": (
        {"cache": cached(str(KEY_OF_5), 5, 5)},
        "map and blocks agree",
    ),
    "a block that is not there in the map": (
        {"cache": cached("ab", 99)},
        "map and blocks agree",
    ),
}


def failed(state: Snapshot) -> list[str]:
    return [check.name for check in audit(state) if not check.ok]


def test_a_sound_state_passes_every_check_with_figures() -> None:
    checks = audit(STATE)
    assert all(check.ok for check in checks)
    details = [check.detail for check in checks]
    assert details[2] == "7 usable = 4 in use + 3 free (1 of them cached)"
    assert details[3] == "6 table entries, 6 references"
    assert details[5] == "3 registered blocks under 3 hashes"


@pytest.mark.parametrize(("change", "name"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_state_is_named(change: dict[str, Any], name: str) -> None:
    broken = STATE._replace(**change)
    assert name in failed(broken)
    (detail,) = [check.detail for check in audit(broken) if check.name == name]
    assert detail, "it says what broke the invariant"


def test_each_check_can_fail() -> None:
    names = {check.name for check in audit(STATE)}
    assert names == {name for _, name in BROKEN.values()}


@pytest.mark.parametrize("start", ["00_", "11_", "14_", "29_", "30_"])
def test_every_moment_of_a_recorded_run_is_sound(start: str) -> None:
    path = next(RECORDINGS.glob(f"{start}*"))
    for state in replay_log(path, 200).snapshots():
        assert failed(state) == []


# --- inside a living manager --------------------------------------------------------


def leak(made: BlockManager) -> None:
    made.pool.get_new_blocks(1)


def lose_a_reference(made: BlockManager) -> None:
    made.pool.blocks[3].ref_cnt -= 1


def keep_a_stale_name(made: BlockManager) -> None:
    made.pool.blocks[5].block_hash = None


def swap_two_blocks(made: BlockManager) -> None:
    blocks = made.pool.blocks
    blocks[6], blocks[7] = blocks[7], blocks[6]


def forget_an_event(made: BlockManager) -> None:
    assert made.log is not None
    made.log.events.pop()


def free_behind_the_managers_back(made: BlockManager) -> None:
    made.pool.free_blocks(made.pool.blocks[3:4])


INSIDE = {
    leak: "ref counts = table entries",
    lose_a_reference: "every block is free or in use",
    keep_a_stale_name: "map and blocks agree",
    swap_two_blocks: "no block lost",
    forget_an_event: "the log tells the state",
    free_behind_the_managers_back: "ref counts = table entries",
}


@pytest.mark.parametrize("break_it", INSIDE, ids=lambda it: it.__name__)
def test_a_broken_manager_raises_with_the_invariants_name(break_it: Any) -> None:
    made = manager()
    made.audit()
    break_it(made)
    with pytest.raises(AuditError, match=INSIDE[break_it].replace("+", r"\+")):
        made.audit()


def test_a_sound_manager_answers_with_its_checks() -> None:
    names = [check.name for check in manager().audit()]
    assert names[-2:] == ["no block lost", "the log tells the state"]
    assert len(names) == len(audit(STATE)) + 2
    assert "the log tells the state" not in [
        check.name for check in BlockManager(8, 4).audit()
    ]
