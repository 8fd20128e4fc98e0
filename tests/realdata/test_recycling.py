"""What lesson 06 says of the conversation trace, computed again."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from blockmgr import simulate as module
from blockmgr.block import Block
from blockmgr.gauges import serve_trace
from blockmgr.pool import BlockPool
from blockmgr.workloads import read_mooncake

pytestmark = pytest.mark.realdata
Find = Callable[[str], Path]


class HeadFirst(BlockPool):
    """A pool that frees a table's first block first."""

    def free_blocks(self, blocks: Sequence[Block]) -> None:
        super().free_blocks(blocks[::-1])


# Blocks found at the starts of prompts, by pool size: an earlier, separate simulator of
# ours, when a request's blocks are touched back to front, and front to back.
BOTH_ORDERS = {1_000: (12_847, 12_831), 10_000: (61_046, 60_921)}


@pytest.mark.parametrize("size", BOTH_ORDERS)
def test_tail_first_against_head_first(
    size: int, trace_file: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = read_mooncake(trace_file("mooncake_conversation"))
    tail_first = module.simulate(requests, size).hit_blocks
    monkeypatch.setattr(module, "BlockPool", HeadFirst)
    head_first = module.simulate(requests, size).hit_blocks
    assert (tail_first, head_first) == BOTH_ORDERS[size]


def test_the_gauges_of_a_pool_of_ten_thousand(trace_file: Find) -> None:
    requests = read_mooncake(trace_file("mooncake_conversation"))
    readings = serve_trace(requests, 10_000)
    assert {r.gauges.usable for r in readings} == {10_000}
    full = next(i for i, r in enumerate(readings) if not r.gauges.empty)
    assert readings[full].seconds == 150
    last_arrival = requests[-1].timestamp / 1000
    there = [r.gauges for r in readings[full:] if r.seconds <= last_arrival]
    assert max(g.empty for g in there) == 27
    assert max(r.gauges.live for r in readings) == 1_574
    assert tuple(readings[-1].gauges) == (0, 9_934, 66)
