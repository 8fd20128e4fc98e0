"""The beam tree: a search that decides as a plain one does, on blocks that are real."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise
from math import log
from typing import Any

import pytest

from blockmgr.errors import InvalidRequest
from figures import BeamTree
from figures.beams import Move, NotPossible, Search, tree_svg
from figures.beams.latest import latest
from figures.beams.layout import MOST_ROWS, tree_of
from figures.beams.model import PROMPT, UNEXPECTED, likely, log_probability
from figures.beams.page import sentence, story
from figures.beams.rules import LONGEST_WORD, MOST_BEAMS, MOST_MOVES, MOST_WORDS
from figures.beams.search import NAMES
from figures.beams.svg import text_of
from figures.theme import COLOURS
from tests.drawing import NASTY, parsed, texts


def step(width: int = 3) -> Move:
    return Move("step", width=width)


def words_of(search: Search) -> dict[str, str]:
    return {name: text_of(search, name) for name in search.beams}


# --- the search -----------------------------------------------------------------------


def test_what_follows_a_word_is_a_distribution() -> None:
    known = {"small"}
    for _ in range(20):
        known |= {follower for word in known for follower in likely(word)}
    for word in known:
        chances = list(likely(word).values())
        assert sum(chances) == pytest.approx(1)
        assert chances == sorted(chances, reverse=True)
        assert min(chances) > UNEXPECTED


def plain_search(width: int, steps: int) -> list[tuple[str, float]]:
    """Beam search as a textbook has it: sentences in a list, no beams with names."""
    beams: list[tuple[tuple[str, ...], float]] = [(("small",), 0.0)]
    for _ in range(steps):
        longer = [
            ((*words, word), score + log(chance))
            for words, score in beams
            for word, chance in likely(words[-1]).items()
        ]
        beams = sorted(longer, key=lambda beam: -beam[1])[:width]
    return sorted((" ".join(words[1:]), score) for words, score in beams)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_the_same_hypotheses_win_as_in_a_plain_search(width: int) -> None:
    search = Search()
    for steps in range(1, MOST_WORDS + 1):
        search.do(step(width))
        found = [(text_of(search, n), b.score) for n, b in search.beams.items()]
        expected = plain_search(width, steps)
        assert [text for text, _ in sorted(found)] == [text for text, _ in expected]
        assert [score for _, score in sorted(found)] == pytest.approx(
            [score for _, score in expected]
        )


def test_one_step_by_hand() -> None:
    """Three words may follow. A writes first and finds the half full block shared with
    two, so it gets a copy; so does B; C is alone with it then."""
    search = Search()
    search.do(step())
    assert words_of(search) == {"A": "cat", "B": "fox", "C": "robot"}
    assert [event.op for event in search.events] == ["fork"] * 2 + ["append"] * 3
    tables = {name: search.manager.block_table(name) for name in search.beams}
    assert tables == {"A": (1, 3), "B": (1, 4), "C": (1, 2)}
    assert search.copies == 2
    assert search.state.ref_cnt[1:5] == (3, 1, 1, 1)
    assert (search.state.num_used, search.blocks_alone) == (4, 6)


def test_losers_are_freed_before_anybody_writes() -> None:
    search = Search()
    for _ in range(3):
        search.do(step())
    assert [event.op for event in search.events] == ["fork", "free"] + ["append"] * 3


def test_the_manager_holds_exactly_the_living_beams() -> None:
    search = Search()
    for move in random_moves(seed=1, count=40):
        attempt(search, move)
        held = search.state.sequences
        assert set(held) == set(search.beams)
        for name in search.beams:
            token_ids = search.words.encode(f"{PROMPT} {text_of(search, name)}")
            tokens = (
                token_ids if search.length(name) else token_ids[: len(PROMPT.split())]
            )
            assert list(held[name].token_ids) == tokens
        search.manager.audit()


def test_no_two_living_beams_have_the_same_colour_after_a_move() -> None:
    for seed in range(5):
        search = Search()
        for move in random_moves(seed, count=40):
            attempt(search, move)
            colours = {NAMES.index(name) % len(COLOURS) for name in search.beams}
            assert len(colours) == len(search.beams)


def random_moves(seed: int, count: int) -> Iterator[Move]:
    rng = random.Random(seed)
    for _ in range(count):
        op = rng.choice(["step", "step", "fork", "prune", "give"])
        yield Move(op, rng.choice(NAMES), rng.choice(["red", "sat"]), rng.randint(1, 4))


def attempt(search: Search, move: Move) -> bool:
    """Do the move, on the first beam if its own is not there."""
    if move.beam not in search.beams:
        move = move._replace(beam=next(iter(search.beams)))
    try:
        search.do(move)
    except NotPossible:
        return False
    return True


@pytest.mark.parametrize("seed", range(6))
def test_undo_goes_back_through_the_very_same_states(seed: int) -> None:
    search = Search()
    states = [(search.state, dict(search.beams), search.copies)]
    for move in random_moves(seed, count=25):
        if attempt(search, move):
            states.append((search.state, dict(search.beams), search.copies))
    for expected in reversed(states):
        assert (search.state, search.beams, search.copies) == expected
        search.undo()
    search.undo()  # nothing is left
    assert (search.state, search.beams, search.copies) == states[0]


@pytest.mark.parametrize("seed", range(4))
def test_the_events_of_a_move_as_one_fold_into_the_same_state(seed: int) -> None:
    search = Search()
    for move in random_moves(seed, count=25):
        if attempt(search, move):
            event = latest(search)
            assert event is not None
            assert search.before.after(event) == search.state


def test_a_block_with_as_many_users_as_before_is_not_marked() -> None:
    """In the fifth step block 1 wins a user and loses one: three before, three after;
    block 2 has two before and after, and block 6 gets a token."""
    tree = BeamTree(steps=5)
    assert tree.search.before.ref_cnt[1:3] == tree.search.state.ref_cnt[1:3] == (3, 2)
    known = ("−1", "new", "fork", "+1")
    marks = [text for text in texts(parsed(tree.map())) if text in known]
    assert sorted(marks) == ["+1", "+1", "new"]


# --- what is too much -----------------------------------------------------------------


def refused(search: Search, move: Move) -> str:
    """The move is refused, and nothing at all has changed."""
    before = search.state, dict(search.beams), search.copies, list(search.moves)
    with pytest.raises(NotPossible) as problem:
        search.do(move)
    assert before == (search.state, search.beams, search.copies, search.moves)
    return str(problem.value)


def test_more_beams_than_fit_are_refused() -> None:
    search = Search()
    while len(search.beams) < MOST_BEAMS:
        search.do(Move("fork", "A"))
    assert "prune one first" in refused(search, Move("fork", "A"))


def test_the_last_beam_can_not_be_pruned() -> None:
    assert "A is the last beam" in refused(Search(), Move("prune", "A"))


def test_more_words_than_fit_are_refused() -> None:
    search = Search()
    for _ in range(MOST_WORDS):
        search.do(Move("give", "A", "red"))
    assert "10 words after the prompt" in refused(search, Move("give", "A", "red"))
    assert "A has 10 words" in refused(search, step())


def test_an_empty_pool_is_said_and_the_whole_step_is_taken_back() -> None:
    search = Search(num_blocks=4)  # 3 to use, of which the prompt has 2
    assert "Out of blocks" in refused(search, step(3))
    assert "prune a beam, or undo" in refused(search, step(4))
    search.do(step(2))


@pytest.mark.parametrize("word", ["", "two words", "x" * (LONGEST_WORD + 1)])
def test_what_is_no_word_is_refused(word: str) -> None:
    refused(Search(), Move("give", "A", word))


def test_a_beam_that_is_not_there_is_named() -> None:
    assert "called Z" in refused(Search(), Move("fork", "Z"))


def test_moves_are_bounded() -> None:
    search = Search()
    for _ in range(MOST_MOVES // 2):
        search.do(Move("fork", "A"))
        search.do(Move("prune", next(name for name in search.beams if name != "A")))
    assert "reset to begin again" in refused(search, step())
    search.reset()
    search.do(step())


@pytest.mark.parametrize("prompt", ["", "   ", "one two three four five six seven"])
def test_a_prompt_that_does_not_fit_is_named(prompt: str) -> None:
    with pytest.raises(InvalidRequest, match="1 to 6 words"):
        BeamTree(prompt)


# --- the tree -------------------------------------------------------------------------


def searches() -> Iterator[Search]:
    for seed in range(8):
        search = Search()
        for move in random_moves(seed, count=30):
            if attempt(search, move):
                yield search


def test_every_word_has_a_place_of_its_own() -> None:
    for search in searches():
        tree = tree_of(search)
        places = [(spot.node.depth, spot.row) for spot in tree.spots.values()]
        assert len(set(places)) == len(places)
        assert set(tree.beams) == set(search.beams)
        assert len(set(tree.beams.values())) == len(tree.beams)
        assert max([spot.row for spot in tree.spots.values()]) < tree.rows <= MOST_ROWS


def test_no_line_to_a_tag_runs_through_a_word() -> None:
    for search in searches():
        tree = tree_of(search)
        for name, row in tree.beams.items():
            depth = search.nodes[search.beams[name].node].depth
            beyond = [
                s for s in tree.spots.values() if s.row == row and s.node.depth > depth
            ]
            assert beyond == []


def test_words_know_the_living_beams_behind_them() -> None:
    search = Search()
    search.do(step())
    search.do(step())  # C is pruned
    spots = {spot.node.word: spot.beams for spot in tree_of(search).spots.values()}
    assert spots == {
        "small": ("A", "B", "D"),
        "cat": ("A", "D"),
        "fox": ("B",),
        "robot": (),
        "sat": ("A",),
        "ran": ("B",),
        "slept": ("D",),
    }


def test_of_many_dead_branches_the_oldest_are_left_out() -> None:
    search = Search()
    for _ in range(8):
        search.do(step(4))
    tree = tree_of(search)
    assert tree.rows == MOST_ROWS and tree.hidden > 0
    assert f"{tree.hidden} older branches not drawn" in texts(
        parsed(tree_svg(search, "A"))
    )


def test_what_was_typed_is_escaped_everywhere() -> None:
    search = Search()
    search.do(Move("give", "A", "<b>&'\"x"))
    for html in (tree_svg(search, "A"), story(search)):
        assert "<b>" not in html and "&lt;b&gt;" in html
    parsed(tree_svg(search, "A", interactive=True))


# --- the widget -----------------------------------------------------------------------


@pytest.fixture
def tree() -> Iterator[BeamTree]:
    made = BeamTree()
    yield made
    made.close()


def tell(widget: Any, act: str, value: object = None) -> None:
    message = {"act": act, "value": value, "n": widget.frame["n"]}
    widget._heard(widget, message, [])


def type_in(widget: Any, text: str) -> None:
    widget._heard(widget, {"act": "word", "text": text, "n": widget.frame["n"]}, [])


def part(widget: Any, name: str) -> str:
    return str(widget.frame["parts"][name])


def test_it_opens_with_the_prompt_and_steps(tree: BeamTree) -> None:
    assert repr(tree) == "BeamTree(1 beam, 2 blocks)"
    assert "One beam, A, holds the prompt: 6 tokens" in part(tree, "say")
    tell(tree, "step")
    assert repr(tree) == "BeamTree(3 beams, 4 blocks)"
    assert "Copied before writing: block 2 to 3 and 2 to 4." in part(tree, "say")
    assert "copied so far <b>2</b>" in part(tree, "gauge")
    assert "without sharing <b>6</b>, saved 33 %" in part(tree, "gauge")


def test_quick_presses_are_as_many_steps(tree: BeamTree) -> None:
    tell(tree, "step", 3)
    assert len(tree.search.moves) == 3
    tell(tree, "undo", 2)
    assert len(tree.search.moves) == 1
    tell(tree, "step", 10**9)
    assert "10 words after the prompt" in part(tree, "say")
    assert len(tree.search.moves) == MOST_WORDS


def test_the_width_is_what_the_next_step_keeps(tree: BeamTree) -> None:
    for asked, kept in ((1, 1), (4, 4), (99, 4), (2, 2)):
        tell(tree, "width", asked)
        assert part(tree, "count") == f"{kept} beam{'s' * (kept > 1)}"
        tell(tree, "step")
        assert len(tree.search.beams) <= kept
    assert len(tree.search.beams) == 2


def test_a_beam_is_forked_given_a_word_and_pruned(tree: BeamTree) -> None:
    tell(tree, "fork")
    assert "B is a fork of A: it shares 2 blocks" in part(tree, "say")
    tell(tree, "beam", 1)
    assert tree.chosen == "B"
    type_in(tree, "  dragon ")
    tell(tree, "give")
    assert "B got token “dragon”: block 2 is shared with A" in part(tree, "say")
    assert tree.frame["controls"]["word"]["value"] == ""
    assert tree.search.beams["B"].score == pytest.approx(log(UNEXPECTED))
    tell(tree, "prune")
    assert list(tree.search.beams) == ["A"] == [tree.chosen]
    tell(tree, "undo")
    assert list(tree.search.beams) == ["A", "B"]
    tell(tree, "reset")
    assert tree.search.moves == []


def test_a_click_chooses_a_beam_in_the_tree_and_in_the_map(tree: BeamTree) -> None:
    tell(tree, "step")
    for key, chosen in (
        ("seq:B", "B"),
        ("seq:C:logical:1", "C"),
        ("block:1", "C"),
        ("", "C"),
        ("seq:Z", "C"),
    ):
        tree.selected = key
        assert tree.chosen == chosen
        assert tree.frame["controls"]["beam"]["value"] == str("ABC".index(chosen))


@pytest.mark.parametrize("text", [NASTY, "", "a b", "🧱" * 17, "x" * 100_000])
def test_anything_that_is_typed_is_answered(tree: BeamTree, text: str) -> None:
    before = tree.frame["n"]
    type_in(tree, text)
    tell(tree, "give")
    assert tree.frame["n"] == before + 2
    assert part(tree, "error") == ""
    assert "<img" not in part(tree, "say") + part(tree, "picture")
    assert part(tree, "say").startswith("Not possible.") or len(tree.search.moves) == 1
    for svg in part(tree, "picture").split("<svg")[1:]:
        parsed(f"<svg{svg}")


@pytest.mark.parametrize("act", ["beam", "width", "fork", "undo", "reset", "nonsense"])
@pytest.mark.parametrize("value", [None, -1, 7, 1e9, "nine"])
def test_nonsense_from_the_page_is_answered(
    tree: BeamTree, act: str, value: object
) -> None:
    before = tree.frame["n"]
    tell(tree, act, value)
    assert tree.frame["n"] == before + 1
    assert len(tree.search.beams) <= MOST_BEAMS


def heights(tree: BeamTree) -> tuple[str, ...]:
    return tuple(re.findall(r"viewBox='0 0 \S+ (\S+?)'", part(tree, "picture")))


def test_the_picture_stands_still_in_the_first_steps_and_never_shrinks(
    tree: BeamTree,
) -> None:
    seen = [heights(tree)]
    for _ in range(4):
        tell(tree, "step")
        seen.append(heights(tree))
    assert len(set(seen)) == 1
    for act in ("step", "step", "step", "undo", "reset"):
        tell(tree, act)
        seen.append(heights(tree))
    for before, after in pairwise(seen):
        assert all(float(b) <= float(a) for b, a in zip(before, after, strict=True))


def test_the_page_without_a_kernel_says_the_same(tree: BeamTree) -> None:
    tell(tree, "step")
    page = tree.page()
    assert page.count("<img") == 2
    assert sentence(tree.search).split(":")[0] in page
    assert "block 1 (ref count 3), block 3 (ref count 1)" in page
    assert "<script" not in page and "None" not in page
    twin = BeamTree(steps=1)
    assert twin.page() == page  # the same in every run
    twin.close()


def test_the_unexpected_word_costs_what_it_should() -> None:
    assert log_probability("small", "cat") == log(0.45)
    assert log_probability("small", "dragon") == log(UNEXPECTED)
    assert log_probability("dragon", "and") == log(0.5)
