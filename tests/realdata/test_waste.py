"""Fig. 2 of PagedAttention from the real conversations instead of their profile."""

from collections.abc import Callable
from pathlib import Path

import pytest

from blockmgr.waste import PUBLISHED, figure2, that_fit
from blockmgr.workloads import Lengths, read_sharegpt

pytestmark = pytest.mark.realdata
Find = Callable[[str], Path]

OURS = {
    "Orca (Max)": (21.44, 14.1, 55.77, 8.69),
    "Orca (Pow2)": (25.71, 16.95, 10.96, 46.37),
    "Orca (Oracle)": (38.17, 25.22, 0.0, 36.61),
    "paged": (96.87, 1.5, 0.02, 1.6),
}


def test_the_first_2000_conversations_waste_what_the_paper_says(
    trace_file: Find,
) -> None:
    turns = read_sharegpt(trace_file("sharegpt_turns"))
    first = [
        Lengths(turn.prompt_tokens, turn.output_tokens)
        for turn in turns
        if turn.turn == 0
    ]
    requests = that_fit(first[:2_000])
    assert len(requests) == 1_938
    for name, ours in figure2(requests).items():
        percent = ours.slots.percent()
        assert [round(share, 2) for share in percent] == list(OURS[name])
        assert abs(percent[0] - PUBLISHED[name][0]) < 4
