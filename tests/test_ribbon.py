"""The free-queue ribbon: what it says moved is what moved, in picture, story, table."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given

from blockmgr import BlockManager
from blockmgr.replay import RECORDINGS, replay_log
from figures import QueueRibbon
from figures.film import FIRST_SENTENCE, Film
from figures.layout import LEFT, ROOM
from figures.ribbon import layout, ribbon_svg
from figures.ribbon.layout import MOST, line
from figures.ribbon.moves import EVICTED, HEAD, HIT, TAIL, TAKEN, moves
from figures.ribbon.story import INVITATION, Chronicle, block_of, outlook
from tests.drawing import NASTY, busy, groups, log_of, managers, parsed, texts


def lesson() -> BlockManager:
    """A hit in the middle of the queue, then an eviction at its head."""
    m = BlockManager(8, 4, record=True)
    m.allocate("a", range(10))
    m.allocate("b", range(100, 104))
    m.free("b")
    m.free("a")
    m.allocate("c", [*range(4), *range(50, 54)])
    m.allocate("d", range(200, 214))
    return m


def ribbon(manager: BlockManager, step: int, **options: Any) -> QueueRibbon:
    made = QueueRibbon(manager, **options)
    made.step = step
    return made


def part(widget: QueueRibbon, name: str) -> str:
    return str(widget.frame["parts"][name])


# --- what moved ---------------------------------------------------------------------


def test_every_way_out_and_in_has_its_name() -> None:
    film = Film(log_of(lesson()))
    freed, hit, taken = (moves(film.frame(k)) for k in (4, 5, 6))
    assert freed.came == {3: HEAD, 2: TAIL, 1: TAIL}
    assert freed.stayed() == (5, 6, 7, 4)
    assert hit.left == {3: TAKEN, 1: HIT}
    assert taken.left == {5: TAKEN, 6: TAKEN, 7: TAKEN, 4: EVICTED}
    assert list(taken.forgot) == [4]
    assert moves(film.frame(0)).before is None


def test_a_memory_lost_in_its_place() -> None:
    m = lesson()
    m.free("c")
    m.evict_blocks([3])
    m.free("d")
    m.reset_prefix_cache()
    film = Film(log_of(m))
    evict, reset = moves(film.frame(8)), moves(film.frame(10))
    assert (list(evict.forgot), evict.left, evict.came) == ([3], {}, {})
    assert set(reset.forgot) == {
        b for b, key in enumerate(film.state(9).block_hash) if key
    }
    svg = ribbon_svg(film.frame(8))
    assert "forgotten" in texts(parsed(svg))


@given(managers())
def test_moves_lead_from_one_queue_to_the_next(manager: BlockManager) -> None:
    film = Film(log_of(manager))
    for step in range(len(film)):
        told, frame = moves(film.frame(step)), film.frame(step)
        assert told.after == frame.after.free_queue
        assert set(told.left) == set(told.before or ()) - set(told.after)
        if told.before is not None:
            head = [b for b in told.after if told.came.get(b) == HEAD]
            tail = [b for b in told.after if told.came.get(b) == TAIL]
            assert told.after == (*head, *told.stayed(), *tail)
            assert [b for b in told.before if b not in told.left] == list(told.stayed())


@pytest.mark.parametrize(
    "name",
    [
        "33_swa_bs4_n24",
        "36_hybrid_bs4_n48",
        "v0/05_beams_bs4_g48",
        "v0/06_swap_bs4_g24",
    ],
)
def test_windows_beams_and_swaps_move_the_queue_too(name: str) -> None:
    widget = QueueRibbon(replay_log(RECORDINGS / f"{name}.jsonl.gz", 60))
    for step in range(1, len(widget.film)):
        told = moves(widget.film.frame(step))
        assert set(told.left) == set(told.before or ()) - set(told.after)
        assert set(told.came) == set(told.after) - set(told.before or ())
        widget.selected, widget.step = f"block:{1 + step % 5}", step
        assert part(widget, "error") == ""


# --- the picture --------------------------------------------------------------------


def test_the_picture_shows_both_queues_and_the_rest_of_the_pool() -> None:
    film = Film(log_of(lesson()))
    for step in range(1, len(film)):
        frame = film.frame(step)
        svg = ribbon_svg(frame, plan=film.plan)
        before, after, used = (groups(svg, kind) for kind in "pqb")
        assert frame.before is not None
        assert list(before) == [f"p{b}" for b in frame.before.free_queue]
        assert list(after) == [f"q{b}" for b in frame.after.free_queue]
        in_use = [b for b, n in enumerate(frame.after.ref_cnt) if n]
        assert list(used) == [f"b{b}" for b in in_use]


def test_what_happened_stands_there_in_words() -> None:
    film = Film(log_of(lesson()))
    said = [texts(parsed(ribbon_svg(film.frame(k)))) for k in range(len(film))]
    assert "the record begins here" in said[0]
    assert "taken" in said[1]
    assert {"to the head", "to the tail"} <= set(said[4])
    assert {"taken", "hit"} <= set(said[5])
    lost = film.state(5).block_hash[4]
    assert lost is not None and f"taken, forgets {lost[:4]}" in said[6]


def test_lines_join_the_same_block_and_never_cross() -> None:
    film = Film(replay_log(RECORDINGS / "01_mixed_bs4_n12.jsonl.gz"))
    joined = 0
    for step in range(1, len(film)):
        svg = ribbon_svg(film.frame(step))
        found = re.findall(
            r"-j(\d+)' class='join' .*?d='M([\d.]+) \d+V\d+L([\d.]+)",
            svg,
        )
        stayed = moves(film.frame(step)).stayed()
        assert [int(b) for b, _, _ in found] == list(stayed)
        tops = [float(x) for _, x, _ in found]
        ends = [float(x) for _, _, x in found]
        assert tops == sorted(tops) and ends == sorted(ends)
        joined += len(found)
    assert joined > 100


def test_a_remembered_block_is_hatched_and_named_by_its_hash() -> None:
    film = Film(log_of(lesson()))
    after = groups(ribbon_svg(film.frame(4)), "q")
    names = film.state(4).block_hash
    for b in film.state(4).free_queue:
        kept = names[b] is not None
        assert ("kept" in after[f"q{b}"].get("class", "")) == kept
        assert texts(after[f"q{b}"], "hash") == ([str(names[b])[:4]] if kept else [])


@pytest.mark.parametrize("count", [2, 8, 14, 65, 5000])
def test_a_queue_of_any_length_fits_into_its_line(count: int) -> None:
    queue = list(range(1, count))
    for wanted in ([], [count // 2], queue[::3], queue):
        made = line(queue, set(wanted), count)
        assert len(made.spots) <= MOST
        assert all(s.x + made.cell <= LEFT + ROOM - layout.OUTSET for s in made.spots)
        shown = [s.block_id for s in made.spots if s.block_id is not None]
        assert shown == sorted(shown)
        assert shown[:1] == queue[:1] and shown[-1:] == queue[-1:]
        assert len(shown) + sum(s.skipped for s in made.spots) == len(queue)
    one = line(queue, {count // 2}, count)
    assert count // 2 in [s.block_id for s in one.spots]


def test_words_side_by_side_do_not_touch() -> None:
    film = Film(replay_log(RECORDINGS / "11_dupes_bs4_n24.jsonl.gz"))
    pill = r"<g class='pill'><rect x='([-\d.]+)' y='(\d+)' width='([\d.]+)'"
    for step in range(len(film)):
        placed: dict[str, float] = {}
        for x, y, wide in re.findall(pill, ribbon_svg(film.frame(step))):
            assert float(x) >= placed.get(y, LEFT - 20)
            placed[y] = float(x) + float(wide)
        assert all(end <= 880 for end in placed.values())


# --- the widget ---------------------------------------------------------------------


def test_it_steps_like_a_player() -> None:
    widget = QueueRibbon(lesson())
    assert repr(widget) == "QueueRibbon(6 steps)"
    assert part(widget, "say") == FIRST_SENTENCE
    widget._heard(widget, {"act": "forward", "value": 2, "n": 1}, [])
    assert (widget.step, part(widget, "count")) == (2, "step 2 of 6")
    widget._heard(widget, {"act": "last"}, [])
    assert "forgotten" in part(widget, "say") and widget.step == 6
    with pytest.raises(ValueError, match="record=True"):
        QueueRibbon(BlockManager(4, 4))


def test_a_click_tells_the_story_of_a_block() -> None:
    widget = ribbon(lesson(), 4)
    assert INVITATION in part(widget, "story")
    widget.selected = "block:4"
    said = part(widget, "story")
    assert "Number 5 of 7 in the queue. 4 blocks will be taken before it" in said
    assert "Step 2: b took it from the head; full, and remembered as" in said
    assert "Step 3: b let go of it: still remembered, so to the tail." in said
    assert part(widget, "picture").count("aria-selected='true'") == 2  # before, after
    widget.step = 6
    assert "In use by d (1 user)" in part(widget, "story")
    assert "d took it from the head and it forgot" in part(widget, "story")
    widget.selected = "block:1"
    assert "Step 5: c found it in the cache." in part(widget, "story")


def test_the_outlook_is_the_place_in_the_queue() -> None:
    """Whoever is told to be number n really is the n-th to be taken."""
    m = lesson()
    state = m.snapshot()
    m.free("d")
    for place, b in enumerate(m.snapshot().free_queue, 1):
        assert f"Number {place} of" in outlook(m.snapshot(), b)
    order = [b.block_id for b in m.pool.get_new_blocks(len(m.snapshot().free_queue))]
    assert "the next to be taken" in outlook(state, state.free_queue[0])
    assert order == list(log_of(m).snapshots()[-1].free_queue)


@pytest.mark.parametrize("key", ["block:0", "block:99", "block:²", "seq:a", "x", ""])
def test_what_is_no_block_has_no_story(key: str) -> None:
    widget = ribbon(lesson(), 4)
    widget.selected = key
    assert INVITATION in part(widget, "story")
    assert part(widget, "error") == ""
    assert block_of(key, lesson().snapshot()) is None


def test_the_story_grows_with_the_log() -> None:
    m = lesson()
    chronicle = Chronicle(Film(log_of(m)))
    before = chronicle.facts(5, 99)
    m.free("d")
    assert len(chronicle.facts(5, 99)) == len(before) + 1
    assert chronicle.facts(5, 5) == []


def test_the_tables_say_the_same() -> None:
    widget = ribbon(lesson(), 5)
    tables = part(widget, "tables")
    assert "Free queue after step 5, head first" in tables
    first = "<tr><th scope='row'>1</th><td>5</td><td>blank</td><td>2</td><td>stayed"
    assert first in tables
    assert "<th scope='row'>1</th><td>found again and pulled out</td>" in tables
    assert "<th scope='row'>3</th><td>taken from the head</td>" in tables
    widget.step = 0
    assert "What left" not in part(widget, "tables")


def test_a_page_without_a_kernel_has_all_of_it() -> None:
    page = QueueRibbon(lesson()).page()
    assert page.count("<img") == 1
    assert "Step 6: d arrived" in page  # the step in which most blocks moved
    assert "<script" not in page
    for step in range(7):
        assert f"<li value='{step}'>" in page
    assert "Step 5:" in QueueRibbon(lesson(), at=5).page()


def test_everything_typed_reaches_the_page_as_text() -> None:
    m = BlockManager(4, 4, record=True)
    m.allocate(NASTY * 50, [1, 2, 3, 4, 5])
    m.free(NASTY * 50)
    widget = ribbon(m, 1)
    widget.selected = "block:1"
    sent = json.dumps(widget.frame) + widget.page()
    assert "<script" not in sent
    for step in range(3):
        parsed(ribbon_svg(widget.film.frame(step)))


def test_two_ribbons_share_no_ids() -> None:
    ids = [
        set(re.findall(r" id='([^']+)'", part(ribbon(busy(), 7), "picture")))
        for _ in range(2)
    ]
    assert ids[0] and not ids[0] & ids[1]
