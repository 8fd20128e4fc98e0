"""Block tables on the device: the tensor and its slots say what the manager says."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import BlockManager, InvalidRequest, UnknownSequence
from blockmgr.device_tables import BlockTables, TablesFull, TableTooLong
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.storage import PAD, InvalidAccess, KVCache, KVCacheSpec
from blockmgr.v0 import RingWindow

NEEDS_CUDA = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs an NVIDIA GPU and PyTorch for CUDA"
)
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NEEDS_CUDA])]
B = 4


def tables(device: str = "cpu", rows: int = 3, width: int = 4) -> BlockTables:
    return BlockTables(rows, width, num_blocks=100, block_size=B, device=device)


def lists(tensor: torch.Tensor) -> list[Any]:
    found: list[Any] = tensor.tolist()
    return found


# --- the property: whatever the manager does, the device knows ------------------------

RUNNING, PREEMPTED, SWAPPED = "running", "preempted", "swapped"
STEPS = {  # the status that each needs, and the one that it leaves
    "append": (RUNNING, RUNNING),
    "chunk": (RUNNING, RUNNING),
    "fork": (RUNNING, RUNNING),
    "preempt": (RUNNING, PREEMPTED),
    "resume": (PREEMPTED, RUNNING),
    "swap_out": (RUNNING, SWAPPED),
    "swap_in": (SWAPPED, RUNNING),
    "free": (RUNNING, None),
}
NAMES = ["a", "b", "c", "d"]
WIDTH = 12
KINDS: list[tuple[Any, bool]] = [
    (FullAttention(), False),
    (FullAttention(), True),
    (SlidingWindow(5), True),
    (SlidingWindow(9), False),
    (RingWindow(8), False),
]


def act(
    manager: BlockManager, here: dict[str, str | None], step: str, at: int, n: int
) -> None:
    """One step, for a sequence that can take it; if there is none, a new one."""
    needs, leaves = STEPS[step]
    able = [seq_id for seq_id in here if here[seq_id] == needs]
    unused = [name for name in NAMES if here.get(name) is None]
    if not able or (step == "fork" and not unused):
        if unused and manager.allocate(unused[0], [1] * n, num_tokens=1 + n // 2):
            here[unused[0]] = RUNNING
        return
    seq_id = able[at % len(able)]
    done: Any = True
    match step:
        case "append":
            manager.append(seq_id, range(n))
        case "chunk":
            manager.allocate_slots(seq_id, n)
        case "fork":
            manager.fork(seq_id, unused[0])
            here[unused[0]] = RUNNING
        case "swap_out" | "swap_in":
            done = getattr(manager, step)([seq_id])
        case "resume":
            done = manager.resume(seq_id)
        case _:
            getattr(manager, step)(seq_id)
    here[seq_id] = leaves if done else needs


@settings(max_examples=100, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    num_blocks=st.integers(6, 20),
    script=st.lists(
        st.tuples(
            st.sampled_from([*STEPS, "append", "append", "append"]),
            st.integers(0, 3),
            st.integers(1, 11),
            st.booleans(),
        ),
        min_size=5,
        max_size=30,
    ),
)
def test_row_by_row_it_is_what_the_manager_says(
    kind: tuple[Any, bool], num_blocks: int, script: list[tuple[str, int, int, bool]]
) -> None:
    group, caching = kind
    manager = BlockManager(
        num_blocks,
        B,
        num_host_blocks=num_blocks,
        groups=(group,),
        enable_caching=caching,
        max_model_len=WIDTH * B,
    )
    device = BlockTables(
        len(NAMES), WIDTH, num_blocks=num_blocks, block_size=B, device="cpu"
    )
    address = device.commit().data_ptr()
    here: dict[str, str | None] = {}
    running: set[str] = set()
    for step, at, n, look in script:
        with suppress(InvalidRequest):  # a ring can't fork, a length has its end
            act(manager, here, step, at, n)
        was, running = running, {name for name in here if here[name] == RUNNING}
        for name in running:
            device.assign(name, manager.block_table(name))
        for gone in was - running:
            device.release(gone)
        if look:
            compare(manager, device, running)
    compare(manager, device, running)
    assert device.commit().data_ptr() == address


def compare(manager: BlockManager, device: BlockTables, running: set[str]) -> None:
    seq_ids = sorted(running)
    tensor = device.commit()
    assert tensor.dtype == torch.int32
    in_use = lists(device.rows(seq_ids))
    for seq_id, row in zip(seq_ids, lists(tensor[in_use]), strict=True):
        table = list(manager.block_table(seq_id))
        assert row == table + [PAD] * (WIDTH - len(table))
    unused = set(range(len(NAMES))) - set(in_use)
    assert torch.all(tensor[sorted(unused)] == PAD)

    slots = {seq_id: manager.slot_mapping(seq_id) for seq_id in seq_ids}
    spans = [(s, len(slots[s]) // 3, len(slots[s])) for s in seq_ids]
    expected = [x for s, start, _ in spans for x in slots[s][start:]]
    got = device.slot_mapping(spans)
    assert got.dtype == torch.int64
    assert lists(got) == expected
    out = torch.full((len(expected) + 3,), 77)
    assert lists(device.slot_mapping(spans, out)) == expected + [PAD] * 3


def test_a_token_in_a_null_block_has_no_slot() -> None:
    device = tables()
    device.assign("w", [0, 0, 7])
    assert lists(device.slot_mapping([("w", 6, 10)])) == [PAD, PAD, 28, 29]


# --- increments -----------------------------------------------------------------------


def test_only_what_changed_is_sent() -> None:
    device = tables(width=50)
    sent = []

    def step(change: Callable[[], None]) -> None:
        before = device.num_entries_sent
        change()
        device.commit()
        sent.append(device.num_entries_sent - before)

    step(lambda: device.assign("a", range(1, 41)))
    step(lambda: device.append("a", [41]))
    step(lambda: device.append("a", []))
    step(lambda: device.assign("a", range(1, 42)))  # the same again
    step(lambda: device.assign("a", [*range(1, 41), 50]))  # copy-on-write of the last
    step(lambda: device.assign("a", [0, 0, *range(3, 41), 50]))  # out of the window
    step(lambda: device.assign("a", [0, 0, *range(3, 41), 50, 51, 52]))
    step(lambda: device.assign("b", [60]))
    step(lambda: device.release("a"))
    assert sent == [40, 1, 0, 0, 1, 2, 2, 1, 43]


def test_changes_of_many_steps_go_together_and_the_last_one_counts() -> None:
    device = tables(rows=1)
    device.assign("a", [1, 2, 3])
    device.append("a", [4])
    device.release("a")
    device.assign("b", [5])
    assert device.num_entries_sent == 0
    assert lists(device.commit()) == [[5, PAD, PAD, PAD]]
    assert device.num_entries_sent == 4


def test_a_decode_step_sends_one_entry_in_b_tokens() -> None:
    """64 sequences of 2,000 tokens, 32 steps: 128 entries, not 256,000."""
    manager = BlockManager(9000, 16, enable_caching=False)
    device = BlockTables(64, 128, num_blocks=9000, device="cpu")
    names = [f"s{i}" for i in range(64)]
    for name in names:
        manager.allocate(name, [1] * 2000)
        device.assign(name, manager.block_table(name))
    device.commit()
    assert device.num_entries_sent == 64 * 125
    for step in range(2000, 2032):
        for name in names:
            device.append(name, manager.append(name, [2]).new_blocks)
        slots = device.slot_mapping([(name, step, step + 1) for name in names])
    assert device.num_entries_sent == 64 * (125 + 2)
    assert lists(slots) == [manager.slot_mapping(name)[-1] for name in names]


# --- on every device ------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_slots_that_were_computed_here_can_be_trusted(device: str) -> None:
    """From the tables straight to `scatter`, and back by `gather` of a whole batch."""
    spec = KVCacheSpec(
        num_layers=2, num_kv_heads=2, head_size=4, block_size=B, dtype=torch.float32
    )
    cache = KVCache(spec, num_blocks=12, device=device)
    on_device = BlockTables(4, 3, num_blocks=12, block_size=B, device=device)
    on_device.assign("a", [5, 2])
    on_device.assign("b", [9, 4, 7])
    graph_input = torch.zeros(16, dtype=torch.int64, device=device)
    slots = on_device.slot_mapping([("b", 1, 10), ("a", 3, 7)], graph_input)
    assert slots is graph_input
    key = torch.arange(2 * 16 * 2 * 4.0, device=device).view(2, 16, 2, 4) + 1
    cache.scatter(key, -key, slots)
    batch = on_device.commit()[on_device.rows(["b", "a"])]
    got_key, got_value = cache.gather(batch)
    assert got_key.shape == (2, 2, 3 * B, 2, 4)
    for tokens, seq, start in ((range(9), 0, 1), (range(9, 13), 1, 3)):
        stop = start + len(tokens)
        assert torch.equal(got_key[:, seq, start:stop], key[:, tokens])
        assert torch.equal(got_value[:, seq, start:stop], -key[:, tokens])
    assert int(cache.kv.count_nonzero()) == 2 * 2 * 13 * 2 * 4  # the pads left nothing


@pytest.mark.gpu
@NEEDS_CUDA
def test_on_cuda_the_slots_are_computed_without_waiting() -> None:
    device = tables("cuda")
    device.assign("a", [1, 2])
    torch.cuda.set_sync_debug_mode("error")
    try:
        device.append("a", [3])
        slots = device.slot_mapping([("a", 4, 12)])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert lists(slots) == list(range(8, 16))


def test_slots_beyond_32_bits() -> None:
    """Row 38's kind: the entries are int32, the slots must not be."""
    device = BlockTables(1, 1, num_blocks=2**31, block_size=64, device="cpu")
    device.assign("a", [2**31 - 1])
    assert lists(device.slot_mapping([("a", 63, 64)])) == [2**31 * 64 - 1]


# --- misuse ---------------------------------------------------------------------------


def state(device: BlockTables) -> object:
    rows = lists(device.rows(["a", "b"]))
    return lists(device.commit()), rows, repr(device), device.num_entries_sent


OUT = torch.zeros(8, dtype=torch.int64)
misuse: dict[str, tuple[Any, type[Exception], str]] = {
    "row 40: a table longer than its row": (
        lambda d: d.assign("a", [1, 2, 3, 4, 5]),
        TableTooLong,
        "at most 4 blocks; got 5: cap the sequence at 16 tokens with max_model_len",
    ),
    "row 40: grown longer than its row": (
        lambda d: d.append("a", [3, 4, 5]),
        TableTooLong,
        "at most 4 blocks; got 5",
    ),
    "a new one longer than its row": (
        lambda d: d.assign("c", [1, 2, 3, 4, 5]),
        TableTooLong,
        "at most 4 blocks; got 5",
    ),
    "a block past the pool": (
        lambda d: d.assign("a", [1, 100]),
        InvalidAccess,
        "block: expected 0..99; got 100",
    ),
    "a pad as a block": (
        lambda d: d.append("a", [PAD]),
        InvalidAccess,
        "block: expected 0..99; got -1",
    ),
    "blocks of fractions": (
        lambda d: d.assign("c", [1.5]),
        InvalidAccess,
        "block_ids: expected integers",
    ),
    "no table at all": (
        lambda d: d.assign("c", None),
        InvalidAccess,
        "block_ids: expected integers",
    ),
    "a name that is none": (
        lambda d: d.assign(7, [1]),
        InvalidRequest,
        "a sequence needs a name",
    ),
    "append to nobody": (
        lambda d: d.append("c", [1]),
        UnknownSequence,
        "no table of 'c' here (there are: 'a', 'b'): assign it first",
    ),
    "release nobody": (lambda d: d.release("c"), UnknownSequence, "no table of 'c'"),
    "a row of nobody": (lambda d: d.rows(["a", "c"]), UnknownSequence, "table of 'c'"),
    "slots of nobody": (
        lambda d: d.slot_mapping([("a", 0, 1), ([], 0, 1)]),
        UnknownSequence,
        "no table of []",
    ),
    "slots past the table": (
        lambda d: d.slot_mapping([("b", 0, 1), ("a", 0, 9)]),
        InvalidAccess,
        "span of 'a': expected 0 <= start <= stop <= 8, the slots of its table; got 0 "
        "and 9",
    ),
    "slots backwards": (
        lambda d: d.slot_mapping([("a", 3, 2)]),
        InvalidAccess,
        "got 3",
    ),
    "slots before the first": (
        lambda d: d.slot_mapping([("a", -1, 2)]),
        InvalidAccess,
        "got -1 and 2",
    ),
    "slots at half a position": (
        lambda d: d.slot_mapping([("a", 0.5, 2)]),
        InvalidAccess,
        "got 0.5 and 2",
    ),
    "an out too short": (
        lambda d: d.slot_mapping([("a", 0, 8), ("b", 0, 1)], OUT),
        InvalidAccess,
        "out: expected room for 9 slots; got 8",
    ),
    "an out of 32 bits": (
        lambda d: d.slot_mapping([("a", 0, 8)], OUT.int()),
        InvalidAccess,
        "out: expected (torch.int64, device(type='cpu'), 1); got (torch.int32,",
    ),
}


@pytest.mark.parametrize("name", misuse)
def test_misuse_is_named_and_changes_nothing(name: str) -> None:
    device = tables()
    device.assign("a", [1, 2])
    device.assign("b", [3])
    before, out_before = state(device), OUT.clone()
    call, kind, message = misuse[name]
    with pytest.raises(kind, match=re.escape(message)):
        call(device)
    assert state(device) == before
    assert torch.equal(OUT, out_before)
    device.assign("c", [4])  # no row was lost


def test_no_row_left_is_named_and_changes_nothing() -> None:
    device = tables(rows=2)
    device.assign("a", [1])
    device.assign("b", [2])
    with pytest.raises(TablesFull, match="all 2 rows are taken: release a sequence"):
        device.assign("c", [3])
    device.assign("a", [5])  # whoever has a row keeps it
    device.release("b")
    device.assign("c", [3])
    assert lists(device.commit()[:, 0]) == [5, 3]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, None, True])
@pytest.mark.parametrize("at", range(4))
def test_sizes_are_whole_numbers(at: int, wrong: Any) -> None:
    sizes: list[Any] = [2, 2, 2, 2]
    sizes[at] = wrong
    with pytest.raises(InvalidRequest, match="must be a whole number of at least"):
        BlockTables(*sizes[:2], num_blocks=sizes[2], block_size=sizes[3], device="cpu")


def test_repr_is_short() -> None:
    device = tables()
    device.assign("a", [1])
    assert repr(device) == "BlockTables(1 of 3 rows, 4 blocks each)"
