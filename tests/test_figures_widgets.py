"""BlockMap and Player without a browser: what they send, and what they do when told."""

from __future__ import annotations

import gc
import json
import re
import weakref
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ipywidgets.widgets import widget as ipywidget

from blockmgr import BlockManager, Event
from figures import BlockMap, Player, picture, show
from figures.film import FIRST_SENTENCE, Film
from figures.legend import legend_svg
from figures.machine import SPEEDS
from figures.stage import WIDGET_VIEW, Stage, shell
from tests.drawing import NASTY, busy, draw, log_of, parsed, svg_of, texts

LABELS = {11: "and", 12: NASTY}


@pytest.fixture
def player() -> Iterator[Player]:
    made = Player(busy(), labels=LABELS)
    yield made
    made.close()


def tell(widget: Any, act: str, value: object = None, n: int | None = None) -> None:
    """What the page sends."""
    number = widget.frame["n"] if n is None else n
    widget._heard(widget, {"act": act, "value": value, "n": number}, [])


def part(widget: Any, name: str) -> str:
    return str(widget.frame["parts"][name])


# --- the player ---------------------------------------------------------------------


def test_it_opens_at_the_start_and_steps_by_its_trait(player: Player) -> None:
    last = len(player.film) - 1
    assert part(player, "say") == FIRST_SENTENCE
    player.step = 3
    assert "B got token “and”" in part(player, "say")
    assert part(player, "count") == f"step 3 of {last}"
    player.step = 999
    assert player.step == last
    player.step = -5
    assert player.step == 0


def test_the_buttons_do_what_they_say(player: Player) -> None:
    last = len(player.film) - 1
    for act, step in (
        *(("forward", 1), ("forward", 2), ("back", 1), ("last", last)),
        *(("forward", last), ("first", 0), ("back", 0)),
    ):
        tell(player, act)
        assert player.step == step
        assert player.frame["controls"]["step"]["value"] == step
    tell(player, "step", 5)
    assert player.step == 5


def test_every_request_is_answered_by_one_frame_with_the_next_number(
    player: Player,
) -> None:
    seen = []
    player.observe(lambda change: seen.append(change["new"]["n"]), names="frame")
    for act in ("forward", "forward", "first", "first", "play", "play", "speed"):
        tell(player, act, 2.0)
    assert seen == list(range(seen[0], seen[0] + 7))


def test_buttons_that_lead_nowhere_say_so(player: Player) -> None:
    controls = player.frame["controls"]
    assert controls["back"] == {"ariaDisabled": "true"}
    assert controls["forward"] == {"ariaDisabled": "false"}
    player.step = 999
    assert player.frame["controls"]["forward"] == {"ariaDisabled": "true"}


def test_it_plays_to_the_end_and_starts_again(player: Player) -> None:
    last = len(player.film) - 1
    player.step = last - 2
    tell(player, "play")
    assert player.playing
    assert player.frame["tick"] == SPEEDS[1.0]
    assert player.frame["controls"]["play"]["label"] == "pause"
    tell(player, "tick")
    tell(player, "tick")
    assert (player.step, player.playing) == (last, False)
    assert player.frame["tick"] == 0
    tell(player, "play")
    assert (player.step, player.playing) == (0, True)
    tell(player, "forward")
    assert not player.playing


def test_a_tick_of_an_old_frame_is_ignored(player: Player) -> None:
    """Two views of one widget both tick; the run must not go twice as fast."""
    tell(player, "play")
    number = player.frame["n"]
    tell(player, "tick", n=number)
    tell(player, "tick", n=number)
    assert player.step == 1


def test_speed_takes_the_nearest_that_there_is(player: Player) -> None:
    tell(player, "speed", 3.1)
    assert player.speed == 4.0
    player.playing = True
    assert player.frame["tick"] == SPEEDS[4.0]


def test_the_picture_of_a_step_is_the_renderers(player: Player) -> None:
    player.step = 4
    frame = player.film.frame(4)
    options: dict[str, Any] = {"labels": LABELS, "room": player.film.room_at(4)}
    expected = draw(busy(), 4, prefix=player.prefix, interactive=True, **options)
    assert part(player, "picture") == expected
    assert player.svg(frame) == draw(busy(), 4, labels=LABELS)
    assert "every invariant holds" in part(player, "audit")
    assert "<table>" in part(player, "tables")


def test_what_is_selected_stays_selected_from_step_to_step(player: Player) -> None:
    player.step = 4
    player.selected = "block:1"
    assert part(player, "picture").count("aria-selected='true'") == 1
    player.step = 5
    assert part(player, "picture").count("aria-selected='true'") == 1


def test_nothing_jumps_from_step_to_step(player: Player) -> None:
    """The picture grows when somebody arrives; nothing in it ever moves up again."""
    heights, pools = [], []
    for step in range(len(player.film)):
        player.step = step
        svg = part(player, "picture")
        heights.append(float(re.findall(r"viewBox='0 0 [\d.]+ ([\d.]+)'", svg)[0]))
        pools.append(float(re.findall(r"-pool' transform='[^']*?([\d.]+)\)'", svg)[0]))
        assert len(part(player, "say")) <= len(part(player, "space"))
    assert heights == sorted(heights) and pools == sorted(pools)
    assert heights[0] < heights[-1]


def test_a_long_run_is_opened_at_once() -> None:
    m = BlockManager(40, 4, record=True)
    for i in range(1500):
        m.allocate(f"r{i}", [i])
        m.free(f"r{i}")
    player = Player(m)
    assert player.film.room_at(1500).pool > 0
    player.close()


@pytest.mark.parametrize("message", [None, 5, "x", [], {}, {"act": None}])
def test_a_message_that_is_none_of_ours_breaks_nothing(
    player: Player, message: Any
) -> None:
    player._heard(player, message, [])
    assert player.step == 0


@pytest.mark.parametrize("kind", [Player, BlockMap])
def test_a_widget_that_was_closed_can_still_be_told_things(kind: Any) -> None:
    m = busy()
    widget = kind(m)
    widget.close()
    widget.draw()
    if kind is BlockMap:
        widget.refresh()
        widget.show(m.snapshot())
    widget.selected = "block:1"


@pytest.mark.parametrize("kind", [Player, BlockMap])
@pytest.mark.parametrize("label", [None, 5, b"x", ""])
def test_labels_that_are_no_text_are_shown_somehow(kind: Any, label: Any) -> None:
    widget = kind(busy(), labels={1: label})
    assert "<table>" in part(widget, "tables")


@pytest.mark.parametrize("labels", ["abc", 5, ["a"]])
def test_labels_that_map_nothing_are_refused_in_words(labels: Any) -> None:
    with pytest.raises(TypeError, match="labels must map token ids to their text"):
        picture(busy(), labels=labels)


def test_the_player_says_how_to_read_its_picture(player: Player) -> None:
    for html in (player.shell, player.page()):
        assert "<summary>How to read this picture</summary>" in html
    for word in ("new", "hit", "freed", "−1", "lost", "hash"):
        assert word in texts(parsed(legend_svg()))


def test_an_error_is_shown_and_the_picture_stays(player: Player) -> None:
    player.step = 2
    tell(player, "play")
    before = part(player, "picture")
    tell(player, "step", "<b>x")
    assert "ValueError" in part(player, "error")
    assert "&lt;b&gt;x" in part(player, "error")
    assert part(player, "picture") == before
    assert not player.playing
    tell(player, "forward")
    assert part(player, "error") == ""
    assert player.step == 3


def test_a_broken_record_is_reported_in_the_widget() -> None:
    m = busy()
    player = Player(m)
    log_of(m).events.append(Event("append", "nobody", changes=("nonsense",)))  # type: ignore[arg-type]
    log_of(m).events.append(Event("free", sequences={"x": 3}))  # type: ignore[dict-item]
    tell(player, "last")
    assert "That did not work" in part(player, "error")
    player.close()


def test_the_film_grows_with_the_log() -> None:
    m = BlockManager(8, 4, record=True)
    m.allocate("a", [1])
    player = Player(m)
    m.append("a", [2])
    m.allocate("b", [3])
    tell(player, "last")
    assert player.step == 3
    assert player.frame["controls"]["step"]["max"] == 3
    assert "b arrived" in part(player, "say")
    player.close()


def test_it_opens_where_it_is_told_and_says_what_is_wrong() -> None:
    m = busy()
    last = len(log_of(m))
    assert Player(m, at=-1).step == last
    assert Player(log_of(m), at=2).step == 2
    with pytest.raises(IndexError, match="step 99 is not in 0"):
        Player(m, at=99)
    with pytest.raises(ValueError, match="record=True"):
        Player(BlockManager(4, 4))
    with pytest.raises(TypeError, match="not str"):
        Player("log")  # type: ignore[arg-type]


def test_a_page_without_a_kernel_has_picture_story_and_audit(player: Player) -> None:
    html = player.page()
    root = ElementTree.fromstring(f"<x>{html}</x>")
    items = ["".join(item.itertext()) for item in root.iter("li")]
    assert items == [player.film.sentence(k) for k in range(len(player.film))]
    fullest = player.film.fullest()
    assert svg_of(html) == draw(busy(), fullest, labels=LABELS)
    assert player.film.state(fullest).num_used == 7
    assert f"Step {fullest}:" in html
    assert "every invariant holds" in html
    chosen = Player(busy(), at=1, labels=LABELS)
    assert svg_of(chosen.page()) == draw(busy(), 1, labels=LABELS)


# --- both ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Player, BlockMap])
def test_the_saved_output_is_the_same_in_every_run(kind: Any) -> None:
    one, two = (kind(busy(), labels=LABELS) for _ in range(2))
    first, metadata = one._repr_mimebundle_()
    second, _ = two._repr_mimebundle_()
    assert first["text/html"] == second["text/html"]
    assert first["text/plain"] == second["text/plain"] == repr(one)
    assert "0x" not in repr(one)
    assert metadata == {}
    assert first[WIDGET_VIEW]["model_id"] != second[WIDGET_VIEW]["model_id"]
    assert "<script" not in first["text/html"]
    json.dumps(first)


@pytest.mark.parametrize("kind", [Player, BlockMap])
def test_two_widgets_of_one_run_share_no_ids(kind: Any) -> None:
    one, two = (kind(busy()) for _ in range(2))
    ids = [set(re.findall(r" id='([^']+)'", part(w, "picture"))) for w in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("kind", [Player, BlockMap])
def test_nothing_holds_a_widget_that_was_closed(kind: Any) -> None:
    """A cell that is run again and again piles nothing up on the manager."""
    m = busy()
    widget = kind(m)
    gone = weakref.ref(widget)
    widget.close()
    del widget
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("kind", [Player, BlockMap])
def test_everything_typed_reaches_the_page_as_text(kind: Any) -> None:
    m = BlockManager(4, 4, record=True)
    m.allocate(NASTY, [1])
    widget = kind(m, labels={1: NASTY * 1000})
    sent = json.dumps(widget.frame)
    assert "<script" not in sent
    assert len(sent) < 60_000


# --- the block map ------------------------------------------------------------------


def test_a_block_map_follows_its_manager() -> None:
    m = BlockManager(8, 4, record=True)
    m.allocate("a", [1, 2])
    widget = BlockMap(m)
    assert repr(widget) == "BlockMap(1 sequence, 1 of 7 blocks in use)"
    m.append("a", [3, 4, 5])
    widget.refresh()
    assert part(widget, "say").startswith("a got 3 tokens")
    widget.selected = "seq:a:logical:1"
    assert part(widget, "picture").count("aria-selected='true'") == 1
    assert widget.page().count("<img") == 1


def test_a_block_map_of_states_keeps_colours_and_sizes() -> None:
    m = busy()
    states = log_of(m).snapshots()
    widget = BlockMap(states[2])  # A and B
    assert part(widget, "say") == ""
    widget.show(states[6], sentence="A has <left>.")
    assert part(widget, "say") == "A has &lt;left&gt;."
    tag = re.search(r"-s(\d+)' class='tag (o\d)[^']*'", part(widget, "picture"))
    assert tag
    assert tag.groups() == ("1", "o1")  # B stays orange, though A is gone


def test_what_cannot_be_drawn_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="not list"):
        BlockMap([])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="record=True"):
        picture(BlockManager(4, 4), at=1)


# --- what any stage hears -----------------------------------------------------------


class Ear(Stage):
    """A stage that writes down what it hears."""

    def __init__(self) -> None:
        self.diary: list[tuple[str, object]] = []
        super().__init__(shell("tables"))
        self.draw()

    def act(self, name: str, value: float | None) -> None:
        self.diary.append((name, value))
        self.draw()

    def typed(self, name: str, text: str) -> None:
        if text == "bad":
            raise ValueError("<b>no</b>")
        self.diary.append((name, text))
        self.draw()

    def draw(self) -> None:
        self.place({"say": str(len(self.diary))})


@pytest.fixture
def ear() -> Iterator[Ear]:
    made = Ear()
    yield made
    made.close()


def test_a_text_is_typed_and_everything_else_is_done(ear: Ear) -> None:
    for message in (
        *({"act": "word", "text": "cat"}, {"act": "word", "text": ""}),
        *({"act": "go"}, {"act": "pick", "value": 3, "press": True}),
        *({"act": "word", "text": None}, {"act": "word", "text": 5, "value": 1}),
    ):
        ear._heard(ear, message, [])
    assert ear.diary == [
        *(("word", "cat"), ("word", "")),
        *(("go", None), ("pick", 3), ("word", None), ("word", 1)),
    ]


def test_what_a_text_raises_is_shown_escaped(ear: Ear) -> None:
    ear._heard(ear, {"act": "word", "text": "bad"}, [])
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in part(ear, "error")
    assert part(ear, "say") == "0"
    ear._heard(ear, {"act": "word", "text": "good"}, [])
    assert part(ear, "error") == ""


def test_a_stage_without_fields_says_that_it_has_none(player: Player) -> None:
    player._heard(player, {"act": "word", "text": "cat"}, [])
    assert "That did not work" in part(player, "error")


def test_a_frame_names_the_last_request_that_it_knows_of(ear: Ear) -> None:
    """So a page with newer text in a field does not set it back."""
    assert ear.frame["heard"] == ""
    for number in (1, 2):
        ear._heard(ear, {"act": "word", "text": "x", "id": f"view:{number}"}, [])
        assert ear.frame["heard"] == f"view:{number}"
    ear.draw()
    assert ear.frame["heard"] == "view:2"
    ear._heard(ear, {"act": "word", "text": "bad", "id": "view:3"}, [])
    assert ear.frame["heard"] == "view:3"
    ear._heard(ear, {"act": "go", "id": ["x" * 1000]}, [])
    assert len(ear.frame["heard"]) <= 40


# --- still pictures and film --------------------------------------------------------


def test_show_displays_and_returns_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    assert show(busy(), labels=LABELS) is None  # type: ignore[func-returns-value]
    (still,) = shown
    assert repr(still).startswith("Picture(2 sequences, 6 of 11 blocks in use after")
    assert svg_of(still._repr_html_()) == still.svg == draw(busy(), labels=LABELS)


def test_show_takes_what_picture_takes() -> None:
    assert signature(show).parameters == signature(picture).parameters


def test_pictures_of_a_run_of_a_step_and_of_a_state() -> None:
    m = busy()
    log = log_of(m)
    assert picture(m).svg == picture(log).svg == draw(m)
    assert picture(m, at=2).svg == draw(m, 2)
    assert "B arrived" in picture(m, at=2).html
    assert "my words" in picture(log, at=2, sentence="my words").html
    assert "kvsay" not in picture(m.snapshot()).html
    assert "<details" not in picture(m, tables=False).html


def test_frames_are_made_on_demand_and_kept() -> None:
    log = log_of(busy())
    film = Film(log, LABELS)
    assert film.state(3) is film.state(3)
    assert [film.state(k) for k in range(len(film))] == log.snapshots()
    assert film.frame(-1).step == len(log)
    assert film.frame(0).sentence == FIRST_SENTENCE
    with pytest.raises(IndexError):
        film.state(len(film))


def test_the_page_script_draws_nothing_and_asks_for_nothing() -> None:
    folder = Path(__file__).resolve().parents[1] / "figures"
    script = (folder / "stage.js").read_text(encoding="utf-8")
    for word in ("createElementNS", "fetch(", "import(", "eval(", "http"):
        assert word not in script
    assert "prefers-reduced-motion" in script
    assert int(re.findall(r"MOVE = (\d+)", script)[0]) < 300
    style = (folder / "stage.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style


def test_a_closed_widget_leaves_nothing_behind() -> None:
    alive = ipywidget._instances
    before = set(alive)
    player = Player(busy())
    assert set(alive) - before
    player.close()
    player.close()
    assert set(alive) == before
