"""What lesson 05 quotes about sharing, computed again from the real Alpaca lengths."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from blockmgr.profile import load_profile
from blockmgr.sampling import PUBLISHED_BEAM, PUBLISHED_PARALLEL, Saving, beam, parallel
from blockmgr.workloads import Lengths, read_alpaca

pytestmark = pytest.mark.realdata
Find = Callable[[str], Path]


@pytest.fixture(scope="session")
def alpaca(trace_file: Find) -> list[Lengths]:
    return read_alpaca(trace_file("alpaca_lengths"))


@pytest.fixture(scope="session")
def shared(alpaca: list[Lengths]) -> dict[int, Saving]:
    return {n: parallel(alpaca, n) for n in (2, 4, 6)}


def test_savings_of_parallel_sampling(
    alpaca: list[Lengths], shared: dict[int, Saving]
) -> None:
    assert [round(s.over_time, 2) for s in shared.values()] == [4.72, 7.08, 7.87]
    assert [round(s.at_end, 2) for s in shared.values()] == [6.03, 9.05, 10.06]
    full_only = [parallel(alpaca, n, share_partial=False) for n in (2, 4, 6)]
    assert [round(s.over_time, 2) for s in full_only] == [4.54, 6.81, 7.57]
    assert [s.at_end for s in full_only] == [s.at_end for s in shared.values()]


def test_the_same_by_plain_loops_over_the_raw_lines(
    trace_file: Find, shared: dict[int, Saving]
) -> None:
    lines = gzip.decompress(trace_file("alpaca_lengths").read_bytes()).decode()
    rows = [list(map(int, line.split(",")[-2:])) for line in lines.split()[1:]]
    alone = sum(2 * -(-(prompt + output) // 16) for prompt, output in rows)
    saved = sum(prompt // 16 for prompt, _ in rows)
    assert (alone, alone - saved) == (17_618, 16_555)
    copied = sum(prompt % 16 > 0 for prompt, _ in rows)
    assert copied == shared[2].copies == 1_704


def test_a_longer_prompt_by_one_token_saves_noticeably_more(
    alpaca: list[Lengths],
) -> None:
    """OPT's tokenizer begins every text with a token of its own; our lengths have none.
    Only prompts of 16 tokens and more have a full block to share."""
    longer = [Lengths(r.prompt_tokens + 1, r.output_tokens) for r in alpaca]
    assert [round(100 * _shareable(some), 1) for some in (alpaca, longer)] == [
        42.6,
        47.4,
    ]
    saving = parallel(longer, 2)
    assert (round(saving.over_time, 2), round(saving.at_end, 2)) == (5.2, 6.55)


def _shareable(requests: list[Lengths]) -> float:
    return sum(r.prompt_tokens >= 16 for r in requests) / len(requests)


def test_drawn_lengths_save_about_what_the_real_ones_do(
    alpaca: list[Lengths], shared: dict[int, Saving]
) -> None:
    drawn = load_profile("alpaca_lengths").draw(len(alpaca), seed=5)
    for n, real in shared.items():
        ours = parallel(drawn, n)
        assert ours.over_time == pytest.approx(real.over_time, rel=0.05)
        assert ours.at_end == pytest.approx(real.at_end, rel=0.05)


@pytest.mark.parametrize(
    ("stay", "saved"),
    [
        (1, [4.4, 6.6, 7.3]),
        (0.9, [35.1, 50.2, 54.3]),
        (0.8, [37.4, 54.4, 59.5]),
        (0.5, [39.1, 57.5, 63.2]),
    ],
)
def test_savings_of_beams(
    alpaca: list[Lengths], stay: float, saved: list[float]
) -> None:
    savings = [beam(alpaca[:300], n, stay=stay, seed=5).over_time for n in (2, 4, 6)]
    assert [round(saving, 1) for saving in savings] == saved


def test_the_published_figures_are_those_on_file() -> None:
    file = Path(os.environ.get("BLOCKMGR_DATA", "")) / "published_figures.json"
    if not file.is_file():
        pytest.skip("published_figures.json does not lie beside the traces")
    published = json.loads(file.read_text())["pagedattention_fig15_saving_percent"]
    assert list(PUBLISHED_PARALLEL.values()) == published["alpaca_parallel_2_4_6"]
    assert list(PUBLISHED_BEAM.values()) == published["alpaca_beam_2_4_6"]
