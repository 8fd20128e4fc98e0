"""What sharing saves when one prompt has several answers: counted, and by formula."""

from random import Random

import pytest

from blockmgr.errors import InvalidRequest
from blockmgr.profile import load_profile
from blockmgr.sampling import (
    PUBLISHED_BEAM,
    PUBLISHED_PARALLEL,
    Saving,
    beam,
    parallel,
)
from blockmgr.workloads import Lengths
from figures.charts.sharing import sharing_chart

DRAWN = load_profile("alpaca_lengths").draw(60, seed=5)


def blocks(tokens: int, size: int = 16) -> int:
    return -(-tokens // size)


def by_formula(requests: list[Lengths], n: int, share_partial: bool) -> Saving:
    """The same without a manager: what n answers hold after each token."""
    held, alone, ends, copies = 0, 0, [0, 0], 0
    for prompt, output in ((r.prompt_tokens, r.output_tokens) for r in requests):
        full = prompt // 16
        copies += (n - 1) * (share_partial and prompt % 16 > 0 and output > 0)
        for done in range(output + 1):
            shared = blocks(prompt) if share_partial and not done else full
            logical = n * blocks(prompt + done)
            held += logical - (n - 1) * shared
            alone += logical
        ends[0] += logical - (n - 1) * shared
        ends[1] += logical
    return Saving(n, held, alone, ends[0], ends[1], copies)


@pytest.mark.parametrize("share_partial", [True, False])
@pytest.mark.parametrize("n", [1, 2, 4, 6])
def test_parallel_sampling_is_what_the_formula_says(
    n: int, share_partial: bool
) -> None:
    counted = parallel(DRAWN, n, share_partial=share_partial)
    assert counted == by_formula(DRAWN, n, share_partial)


def test_one_request_by_hand() -> None:
    """20 tokens in blocks of 16, two answers of 2: one full block is shared, the other
    one is copied at the first token."""
    saving = parallel([Lengths(20, 2)], 2)
    assert saving == Saving(
        2, held=2 + 3 + 3, alone=3 * 4, held_at_end=3, alone_at_end=4, copies=1
    )
    assert saving.over_time == pytest.approx(100 / 3) and saving.at_end == 25


def test_a_prompt_of_full_blocks_is_never_copied() -> None:
    assert parallel([Lengths(32, 5)], 4).copies == 0
    assert parallel([Lengths(33, 5)], 4).copies == 3


def test_the_saving_grows_as_the_share_of_the_others_does() -> None:
    """Each answer after the first saves the same blocks: (n - 1) / n of a constant."""
    by_n = {n: parallel(DRAWN, n) for n in (2, 4, 6)}
    for n, saving in by_n.items():
        assert saving.over_time * n / (n - 1) == pytest.approx(by_n[2].over_time * 2)
        assert saving.at_end * n / (n - 1) == pytest.approx(by_n[2].at_end * 2)


def test_no_answer_at_all_is_one_state() -> None:
    saving = parallel([Lengths(20, 0)], 3)
    assert (
        (saving.held, saving.alone)
        == (2, 6)
        == (
            saving.held_at_end,
            saving.alone_at_end,
        )
    )
    assert parallel([], 3).over_time == 0.0


# --- beam search ----------------------------------------------------------------------


def test_beams_that_never_meet_are_parallel_samples() -> None:
    assert beam(DRAWN, 4, stay=1, seed=1) == parallel(DRAWN, 4)


def test_beams_share_more_than_parallel_samples_and_less_than_all() -> None:
    for width in (2, 4, 6):
        saving = beam(DRAWN, width, stay=0.8, seed=5)
        most = 100 * (width - 1) / width
        assert parallel(DRAWN, width).over_time < saving.over_time < most


def test_the_more_often_beams_change_parents_the_more_they_share() -> None:
    savings = [beam(DRAWN, 4, stay=stay, seed=5).over_time for stay in (1, 0.9, 0.5)]
    assert savings == sorted(savings) and savings[0] < savings[-1] - 20


def test_the_same_seed_draws_the_same_beams() -> None:
    one, same, other = (beam(DRAWN, 4, stay=0.5, seed=s) for s in (5, 5, 6))
    assert one == same != other


def test_beams_beside_plain_lists_of_tokens() -> None:
    """Blocks in use = different starts of the hypotheses, block by block. The trees are
    drawn here by other means: each token is new, and each beam keeps its own list."""
    for seed in range(20):
        request, width, size = Lengths(6, 12), 3, 4
        rng = Random(seed)
        prompt = [(0, i) for i in range(request.prompt_tokens)]
        beams = [list(prompt) for _ in range(width)]
        alone = []
        for step in range(1, request.output_tokens + 1):
            parents = [
                place if rng.random() < 0.5 else int(rng.random() * width)
                for place in range(width)
            ]
            beams = [[*beams[p], (step, place)] for place, p in enumerate(parents)]
            full = {
                tuple(b[: (i + 1) * size]) for b in beams for i in range(len(b) // size)
            }
            ends = {tuple(b) for b in beams if len(b) % size}
            alone.append(len(full) + len(ends))
        saving = beam([request], width, stay=0.5, seed=seed, block_size=size)
        assert saving.held == blocks(6, size) + sum(alone)
        assert saving.held_at_end == alone[-1]


# --- misuse ---------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "two"])
def test_a_number_of_answers_that_is_none_is_named(n: object) -> None:
    with pytest.raises(InvalidRequest, match="n must be"):
        parallel(DRAWN, n)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="width must be"):
        beam(DRAWN, n, stay=0.5, seed=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("stay", [-0.1, 1.1, float("nan")])
def test_a_probability_that_is_none_is_named(stay: float) -> None:
    with pytest.raises(InvalidRequest, match="stay is a probability"):
        beam(DRAWN, 2, stay=stay, seed=1)


def test_a_prompt_without_tokens_and_a_block_without_slots_are_named() -> None:
    with pytest.raises(InvalidRequest, match="prompt_tokens"):
        parallel([Lengths(0, 4)], 2)
    with pytest.raises(InvalidRequest, match="block_size"):
        parallel(DRAWN, 2, block_size=0)


def test_the_published_figures_are_those_of_figure_15() -> None:
    assert list(PUBLISHED_PARALLEL.values()) == [6.09, 8.53, 9.79]
    assert list(PUBLISHED_BEAM.values()) == [37.56, 53.13, 55.16]


# --- as a chart -----------------------------------------------------------------------


def test_the_chart_says_what_was_counted_beside_what_was_published() -> None:
    savings = [parallel(DRAWN, n) for n in (2, 4, 8)]
    chart = sharing_chart(savings, PUBLISHED_PARALLEL, "Longer <answers>")
    assert [row["published (%)"] for row in chart.records()] == [6.09, 8.53, None]
    first = chart.records()[0]
    assert first["blocks alone, at the end"] == savings[0].alone_at_end
    assert first["blocks shared, at the end"] == savings[0].held_at_end
    assert first["ours, over time (%)"] == round(savings[0].over_time, 2)
    assert first["ours, at the end (%)"] == round(savings[0].at_end, 2)
    for drawn in ("2 sequences", "8 sequences", "8.5", "ours, at the end", "published"):
        assert drawn in chart.svg
    assert "<answers>" not in chart._repr_html_()
