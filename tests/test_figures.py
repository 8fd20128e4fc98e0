"""The pictures: what they say is what the snapshot says, and they can be read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blockmgr import BlockManager, SequenceView, Snapshot
from blockmgr.groups import FullAttention, SlidingWindow
from figures import Plan, block_map, describe
from figures.captions import summary
from figures.draw_pool import short_names
from figures.heat import ranges
from figures.keys import related
from figures.layout import LEFT, MAX_ROWS
from figures.page import page
from figures.panel import audit_panel
from figures.readme import blockmap_svg, main
from figures.scene import scene
from figures.sheet import map_css
from figures.still import picture
from figures.theme import (
    BAD,
    COLOURS,
    CONTROLS,
    EDGE_CONTRAST,
    FONT_SIZE,
    GOOD,
    MIN_SCALE,
    OKABE_ITO,
    TEXT_CONTRAST,
    TEXT_PAIRS,
    TOKENS,
    arrival_order,
    base_css,
    contrast,
    owner_class,
    readable,
)
from figures.tokeniser import Words
from figures.words import BLANK, clip, esc, fitted, isolate, visible, width, wrap
from figures.workflow import STORY, workflow_svg
from tests.drawing import (
    NASTY,
    SVG,
    busy,
    draw,
    groups,
    log_of,
    managers,
    parsed,
    texts,
)

ROOT = Path(__file__).resolve().parents[1]


# --- words --------------------------------------------------------------------------


@given(st.text(max_size=60))
def test_what_is_escaped_can_stand_in_xml(text: str) -> None:
    root = parsed(f"<a b='{esc(text)}'>{esc(text)}</a>")
    assert (root.text or "") == visible(text)
    assert "<" not in esc(text)
    assert "'" not in esc(text)


@given(st.text(max_size=80), st.floats(20, 200))
def test_what_is_cut_fits(text: str, room: float) -> None:
    shown = clip(text, room)
    assert width(shown.strip("\u2066\u2067\u2068\u2069"), 13) <= room + 0.01
    if shown != visible(text).strip():
        assert shown == BLANK or "…" in shown or "\u2068" in shown


def test_a_joined_emoji_is_not_cut_in_pieces() -> None:
    family = "👨‍👩‍👧‍👦"
    shown = clip(family * 5, 80)
    assert shown.endswith("…")
    assert set(shown.rstrip("…").split(family)) == {""}


def test_direction_marks_go_and_right_to_left_names_are_isolated() -> None:
    assert visible("a\u202eb") == "ab"
    assert isolate("שלום") == "\u2068שלום\u2069"
    assert isolate("r0") == "r0"


@pytest.mark.parametrize(
    ("text", "inside", "squeezed"),
    [
        ("cat", "cat", False),
        ("\n", "⏎", False),
        ("", "∅", False),
        ("xxxxxx", "xxxxxx", True),  # 46 px
        ("x" * 20, "xxxx…<title>" + "x" * 20 + "</title>", True),
    ],
)
def test_a_token_is_squeezed_before_it_is_cut(
    text: str, inside: str, squeezed: bool
) -> None:
    attribute, shown = fitted(text, 40)
    assert shown == inside
    assert ("textLength='40.0'" in attribute) == squeezed


def test_words_are_numbered_as_they_appear() -> None:
    words = Words()
    assert words.encode("to be or not to be") == [0, 1, 2, 3, 0, 1]
    assert words.encode("be  kind") == [1, 4]
    assert words.labels == dict(enumerate(["to", "be", "or", "not", "kind"]))


def test_long_titles_wrap_and_lose_nothing() -> None:
    text = "one two three four five six seven"
    lines = wrap(text, 100)
    assert len(lines) > 1
    assert " ".join(lines) == text


# --- colours ------------------------------------------------------------------------


@pytest.mark.parametrize("page_", [0, 1], ids=["light", "dark"])
def test_every_text_has_the_contrast_it_needs(page_: int) -> None:
    roles = TOKENS | CONTROLS
    for text, behind in TEXT_PAIRS:
        ratio = contrast(roles[text][page_], roles[behind][page_])
        assert ratio >= TEXT_CONTRAST, (text, behind, ratio)
    # JupyterLab's own papers stand behind the same texts.
    for paper in (TOKENS["paper"][page_], ("#ffffff", "#111111")[page_]):
        for text in ("ink", "muted", "good", "bad"):
            assert contrast(TOKENS[text][page_], paper) >= TEXT_CONTRAST
        for colour in COLOURS:
            assert contrast(colour.text[page_], paper) >= TEXT_CONTRAST, colour
            assert contrast(colour.edge[page_], paper) >= EDGE_CONTRAST, colour
        for edge in ("edge", "good-edge", "bad-edge", "action"):
            assert contrast(roles[edge][page_], paper) >= EDGE_CONTRAST
        for edge in (GOOD, BAD):  # one for both pages
            assert contrast(edge, paper) >= EDGE_CONTRAST


def test_every_colour_stands_in_the_theme() -> None:
    folder = ROOT / "figures"
    for path in sorted({*folder.rglob("*.py"), *folder.rglob("*.css")}):
        if path.name != "theme.py":
            text = path.read_text(encoding="utf-8")
            assert not re.findall(r"#[0-9a-f]{3,8}\b", text), path.name


def test_text_on_an_owner_is_dark_or_light_as_it_must_be() -> None:
    assert [(c.name, c.fill) for c in COLOURS] == list(OKABE_ITO)
    for colour in COLOURS:
        assert contrast(colour.on, colour.fill) >= TEXT_CONTRAST, colour
    assert COLOURS[0].on == "#ffffff"
    assert {c.on for c in COLOURS[1:]} == {"#111111"}


def test_a_colour_that_can_be_read_already_stays_as_it_is() -> None:
    assert readable("#0072b2", "#ffffff", 4.5) == "#0072b2"
    assert contrast(readable("#f0e442", "#ffffff", 4.5), "#ffffff") >= 4.5


def test_all_colours_come_from_the_theme() -> None:
    """A literal colour elsewhere would be in no contrast test."""
    rules = map_css().removeprefix(base_css())
    assert not re.findall(r"#[0-9a-f]{3,8}\b|rgb|hsl", rules)


def test_no_text_is_small() -> None:
    sizes = [float(s) for s in re.findall(r"font-size:([\d.]+)px", map_css())]
    assert min(sizes) >= FONT_SIZE
    assert FONT_SIZE * MIN_SCALE >= 12
    svg = draw(busy())
    assert "font-size=" not in svg
    least = re.search(r"min-width:(\d+)px", page(svg, busy().snapshot()))
    shown = int(parsed(svg).get("width") or 0)
    assert least is not None
    assert int(least[1]) / shown * FONT_SIZE >= 11.99


def test_a_sequence_keeps_its_colour_when_others_leave() -> None:
    m = busy()
    order = arrival_order(log_of(m))
    assert order == ("A", "B", "C", "D", "E")  # E was turned away, and has one too
    for step in range(len(log_of(m)) + 1):
        for name, tag in groups(draw(m, step), "s").items():
            if "-" not in name:
                index = int(name[1:])
                assert f"o{index}" in (tag.get("class") or "").split()
                assert texts(tag, "name") == [order[index]]


def test_beyond_seven_colours_come_again_with_a_stripe() -> None:
    assert [owner_class(i) for i in (0, 6, 7, 15)] == [
        "o0",
        "o6",
        "o0 striped",
        "o1 striped",
    ]


# --- the picture is pure ------------------------------------------------------------


def test_the_same_state_gives_the_same_string() -> None:
    assert draw(busy()) == draw(busy())
    m = busy()
    log = log_of(m)
    for step in range(len(log) + 1):
        assert draw(m, step) == draw(m, step)


def test_it_is_the_same_in_every_process() -> None:
    """nbval compares it as text, so neither hash seeds nor addresses may show."""
    code = (
        "from figures.readme import blockmap_svg; from zlib import crc32;"
        "print(crc32(blockmap_svg().encode()))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_drawing_needs_no_widgets_and_no_torch() -> None:
    code = (
        "import sys, figures; assert not {'anywidget', 'IPython', 'torch', "
        "'matplotlib', 'ipywidgets'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("first", ["AddressExplorer", "KVShape", "address_svg"])
def test_what_is_loaded_later_is_what_its_name_says(first: str) -> None:
    """A module of the same name would take the place of a function."""
    code = (
        f"from figures import {first}; import figures; "
        "found = {name: getattr(figures, name) for name in figures.__all__}; "
        "assert all(map(callable, found.values())), found"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_two_pictures_share_no_ids() -> None:
    m = busy()
    ids = [set(re.findall(r" id='([^']+)'", draw(m, step))) for step in (3, 4, 5)]
    assert not ids[0] & ids[1]
    assert not ids[1] & ids[2]


def test_ids_are_stable_from_step_to_step() -> None:
    """The widget finds what moved by its id."""
    m = busy()
    for step in range(1, len(log_of(m))):
        one, two = draw(m, step, prefix="kx"), draw(m, step + 1, prefix="kx")
        for block in range(12):
            assert f" id='kx-b{block}'" in one
            assert f" id='kx-b{block}'" in two
    b_first = draw(m, 3, prefix="kx"), draw(m, 8, prefix="kx")
    assert all(" id='kx-s1-l0'" in svg for svg in b_first)


# --- it says what the snapshot says -------------------------------------------------


def test_every_block_stands_in_the_pool_once_with_its_state() -> None:
    m = busy()
    for step, s in enumerate(log_of(m).snapshots()):
        blocks = groups(draw(m, step), "b")
        assert sorted(blocks) == sorted(f"b{i}" for i in range(12))
        for block_id in range(1, 12):
            g = blocks[f"b{block_id}"]
            kinds = (g.get("class") or "").split()
            assert ("free" in kinds) == (s.ref_cnt[block_id] == 0)
            assert texts(g, "id") == [str(block_id)]
            key = s.block_hash[block_id]
            assert texts(g, "hash") == ([key[:4]] if key else [])
            refs = s.ref_cnt[block_id]
            assert texts(g, "refs") == ([str(refs)] if refs > 1 else [])
            assert texts(g, "who") == list(s.owners(block_id))
            assert ("kept" in kinds) == (refs == 0 and key is not None)


def test_the_bars_show_how_full_each_block_is() -> None:
    m = busy()
    s = m.snapshot()
    blocks = groups(draw(m), "b")
    for block_id in range(1, 12):
        paths = {
            p.get("class"): (p.get("d") or "").count("M")
            for p in blocks[f"b{block_id}"].iter(f"{SVG}path")
            if "bar" in (p.get("class") or "")
        }
        if s.ref_cnt[block_id]:
            assert paths.get("bar", 0) == s.filled(block_id)
            assert paths.get("bar none", 0) == 4 - s.filled(block_id)


def test_the_queue_stands_in_its_order() -> None:
    m = busy()
    for step, s in enumerate(log_of(m).snapshots()):
        svg = draw(m, step)
        cells, blocks = groups(svg, "q"), groups(svg, "b")
        assert [int(name[1:]) for name in cells] == list(s.free_queue)
        for place, block_id in enumerate(s.free_queue, start=1):
            caption = blocks[f"b{block_id}"].findtext(f"{SVG}title") or ""
            assert caption.endswith(f"number {place} in the free queue")


def test_logical_blocks_hold_their_tokens_and_say_where_they_lie() -> None:
    m = busy()
    labels = {5: "five", 6: "six"}
    boxes = groups(draw(m, 1, labels=labels), "s")
    assert texts(boxes["s0-l0"], "tok") == ["1", "2", "3", "4"]
    assert texts(boxes["s0-l1"], "tok") == ["five", "six"]
    assert texts(boxes["s0-l1"], "to") == ["→ 2"]


def test_what_changed_is_marked() -> None:
    m = busy()
    log = log_of(m)
    words = {}
    for step, event in enumerate(log.events, start=1):
        pills = {
            name: text
            for name, g in groups(draw(m, step), "b").items()
            for pill in g.iter(f"{SVG}g")
            if pill.get("class") == "pill"
            for text in texts(pill)
        }
        words[step, event.op] = pills
    assert words[1, "allocate"] == {"b1": "new", "b2": "new"}
    assert words[2, "allocate"] == {"b1": "hit", "b3": "new"}
    assert words[4, "append"] == {"b4": "+1"}
    assert words[6, "free"] == {"b2": "freed", "b1": "−1"}


def test_a_refused_request_has_a_row_and_nothing_else_changes() -> None:
    m = busy()
    step = next(k for k, e in enumerate(log_of(m).events, 1) if e.status == "LATER")
    svg = draw(m, step)
    ghost = [g for g in parsed(svg).iter(f"{SVG}g") if "asks" in g.get("class", "")]
    assert [texts(g) for g in ghost] == [
        ["E", "LATER", "needs 8 blocks,", "4 are free"]
    ]
    assert "class='pill'" not in svg


def test_null_blocks_stand_in_tables_without_a_line() -> None:
    window = SequenceView("w", (0, 0, 4, 5), tuple(range(14)))
    s = Snapshot(
        *(4, 8, (0, 0, 0, 0, 1, 1, 0, 0), (None,) * 8, (1, 2, 3, 6, 7), {}),
        {"w": window},
    )
    boxes = groups(block_map(s), "s")
    assert texts(boxes["s0-l0"], "to") == ["→ null"]
    assert sorted(groups(block_map(s), "m")) == ["m0-2", "m0-3"]


def test_lines_are_all_drawn_in_small_pools_else_those_concerned() -> None:
    m = busy()
    entries = sum(len(v.block_table) for v in m.snapshot().sequences.values())
    assert len(groups(draw(m), "m")) == entries
    big = busy(40)
    assert not groups(draw(big), "m")  # the last event freed C
    big.append("D", [1])
    assert {name.split("-")[0] for name in groups(draw(big), "m")} == {"m3"}
    shared = groups(draw(big, selected="block:1"), "m")
    assert sorted(name.split("-")[0] for name in shared) == ["m1", "m3"]


def test_selecting_shows_what_belongs_together() -> None:
    m = busy()
    s = log_of(m).snapshots()[4]
    assert related(s, "block:1") == {
        "block:1",
        "seq:A:logical:0",
        "seq:B:logical:0",
    }
    assert related(s, "seq:B:logical:2") == {"seq:B:logical:2", "block:4"}
    assert "block:3" in related(s, "seq:B")
    assert related(s, "seq:nobody") == related(s, "nonsense") == frozenset()
    blocks = groups(draw(m, 4, selected="block:1"), "b")
    assert "sel" in (blocks["b1"].get("class") or "").split()


def test_interactive_pictures_have_keys_and_one_role_each() -> None:
    svg = parsed(draw(busy(), interactive=True))
    assert svg.get("role") == "group"
    options = [g for g in svg.iter(f"{SVG}g") if g.get("data-key")]
    assert all(g.get("role") == "option" for g in options)
    assert all((g.find(f"{SVG}title") is not None) for g in options)
    lists = [g for g in svg.iter(f"{SVG}g") if g.get("role") == "listbox"]
    assert len(lists) == 3  # B, D and the pool


def test_a_still_picture_is_an_image_with_a_name_and_a_description() -> None:
    m = busy()
    svg = parsed(draw(m))
    assert svg.get("role") == "img"
    named = {e.get("id"): e.text for e in svg.iter() if e.get("id")}
    label, description = (svg.get("aria-labelledby") or "").split()
    assert named[label] == "Block map"
    assert named[description] == summary(scene(m.snapshot()))


# --- nothing lies on text -----------------------------------------------------------


def corners(path: str) -> list[tuple[float, float]]:
    """The points of a rounded line: its start, its corners and its end."""
    start = re.match(r"M(\S+) (\S+?)L", path)
    assert start
    inner = re.findall(r"Q(\S+) (\S+) ", path)
    x, y = path.rsplit("L", 1)[1].split()
    numbers = [start.groups(), *inner, (x, y)]
    return [(float(a), float(b)) for a, b in numbers]


def solids(svg: ElementTree.Element) -> Iterator[tuple[float, float, float, float]]:
    """The rectangles no line may cross: logical blocks, tags, blocks, pills, ghosts."""
    for g in svg.iter(f"{SVG}g"):
        kinds = (g.get("class") or "").split()
        if not {"box", "tag", "blk", "ghost"} & set(kinds):
            continue
        place = re.match(r"translate\((\S+) (\S+)\)", g.get("transform") or "")
        dx, dy = map(float, place.groups()) if place else (0.0, 0.0)
        for rect in g.iter(f"{SVG}rect"):
            x, y, w, h = (float(rect.get(k, 0)) for k in ("x", "y", "width", "height"))
            yield x + dx, y + dy, x + dx + w, y + dy + h


@given(managers())
@example(busy())
@settings(max_examples=40, deadline=None)
def test_no_line_runs_over_anything_that_holds_text(m: BlockManager) -> None:
    svg = parsed(draw(m))
    rects = list(solids(svg))
    for g in svg.iter(f"{SVG}g"):
        if "line" not in (g.get("class") or "").split():
            continue
        path = g.find(f"{SVG}path")
        assert path is not None
        points = corners(path.get("d") or "")
        assert all(x >= LEFT - 9 for x, _ in points)  # clear of the headings
        for (ax, ay), (bx, by) in pairwise(points):
            assert abs(ax - bx) < 0.2 or abs(ay - by) < 0.2
            for x0, y0, x1, y1 in rects:
                apart = (
                    max(ax, bx) <= x0 + 0.2
                    or min(ax, bx) >= x1 - 0.2
                    or max(ay, by) <= y0 + 0.2
                    or min(ay, by) >= y1 - 0.2
                )
                assert apart, (points, (x0, y0, x1, y1))


def corner(g: ElementTree.Element) -> tuple[float, float]:
    place = re.match(r"translate\((\S+) (\S+)\)", g.get("transform") or "")
    assert place
    return float(place[1]), float(place[2])


@given(managers())
@example(busy())
@settings(max_examples=25, deadline=None)
def test_each_line_leads_from_its_logical_to_its_physical_block(
    m: BlockManager,
) -> None:
    svg = draw(m)
    boxes, blocks = groups(svg, "s"), groups(svg, "b")
    ways = {}
    for name, g in groups(svg, "m").items():
        path = g.find(f"{SVG}path")
        assert path is not None
        ways[name] = corners(path.get("d") or "")
        box = boxes[name.replace("m", "s").replace("-", "-l")]
        block = blocks[f"b{g.get('data-b')}"]
        assert texts(box, "to") == [f"→ {g.get('data-b')}"]
        (left, top), edge = corner(box), box.find(f"{SVG}rect")
        assert edge is not None
        assert abs(ways[name][0][0] - left - float(edge.get("width") or 0)) < 0.1
        assert top < ways[name][0][1] < top + float(edge.get("height") or 0)
        left, top = corner(block)
        assert left < ways[name][-1][0] < left + 90
        assert abs(ways[name][-1][1] - top) < 0.1
    # Beside the rows nothing crosses: each line goes right, then down its own lane.
    for one, (start, bend, lower, *_) in ways.items():
        for other, (_, lane, below, *_) in ways.items():
            crossing = (
                start[0] < lane[0] < bend[0]
                and lane[1] < start[1] < below[1]
                and one != other
            )
            assert not crossing, (one, other, lower)


@given(managers())
@example(busy())
@settings(max_examples=25, deadline=None)
def test_no_two_boxes_overlap(m: BlockManager) -> None:
    svg = parsed(draw(m))
    boxes = []
    for g in svg.iter(f"{SVG}g"):
        if {"box", "tag", "blk"} & set((g.get("class") or "").split()):
            place = re.match(r"translate\((\S+) (\S+)\)", g.get("transform") or "")
            rect = g.find(f"{SVG}rect")
            assert place
            assert rect is not None
            x, y = map(float, place.groups())
            w, h = (float(rect.get(k, 0)) for k in ("width", "height"))
            assert x >= 0
            assert x + w <= 880
            boxes.append((x, y, x + w, y + h))
    for i, (ax0, ay0, ax1, ay1) in enumerate(boxes):
        for bx0, by0, bx1, by1 in boxes[:i]:
            assert ax0 >= bx1 or bx0 >= ax1 or ay0 >= by1 or by0 >= ay1


# --- odd input ----------------------------------------------------------------------


@given(
    st.text(min_size=1, max_size=30),
    st.lists(st.text(max_size=20), min_size=5, max_size=5),
)
@settings(deadline=None)
def test_names_and_tokens_are_text_and_nothing_else(
    name: str, words: list[str]
) -> None:
    m = BlockManager(8, 4, record=True)
    m.allocate(name, range(5))
    m.append(name, [0])
    labels = dict(enumerate(words))
    svg = draw(m, labels=labels, title=name, interactive=True, prefix="kx")
    allowed = {
        *("svg", "g", "rect", "path", "text", "title", "style", "defs", "pattern"),
        *("circle", "desc"),
    }
    for element in parsed(svg).iter():
        assert element.tag.removeprefix(SVG) in allowed
        assert not [k for k in element.attrib if k.startswith("on") or "href" in k]
    html = picture(m, labels=labels).html + audit_panel(m.snapshot())
    ElementTree.fromstring(f"<x>{html.replace('<br>', '')}</x>")


def test_a_hundred_thousand_letters_stay_small() -> None:
    m = BlockManager(8, 4, record=True)
    m.allocate("n" * 100_000, [1])
    m.allocate(NASTY, [2])
    svg = draw(m, labels={1: "<b>" * 33_333, 2: NASTY}, title="t" * 100_000)
    assert len(svg) < 40_000
    assert "(99,999 characters)" in svg
    assert "<script" not in svg
    assert "<b>" not in svg
    parsed(svg)


def test_white_space_tokens_can_be_seen() -> None:
    m = BlockManager(4, 4)
    m.allocate("r", [1, 2, 3, 4])
    svg = block_map(m.snapshot(), labels={1: " ", 2: "\n", 3: "", 4: " a"})
    boxes = groups(svg, "s")
    assert [t.strip() for t in texts(boxes["s0-l0"], "tok")] == ["␣", "⏎", "∅", "a"]


def test_a_long_table_shows_its_ends_and_says_what_is_left_out() -> None:
    m = BlockManager(60, 2)
    m.allocate("r", range(99))
    svg = block_map(m.snapshot())
    drawn = [name for name in groups(svg, "s") if "-l" in name]
    assert drawn[0] == "s0-l0"
    assert drawn[-1] == "s0-l49"
    assert f"… {50 - len(drawn)} blocks more …" in svg


def test_too_many_sequences_show_the_first_and_those_concerned() -> None:
    m = BlockManager(64, 2, record=True)
    for i in range(30):
        m.allocate(f"r{i}", [i, i])
    m.append("r29", [1])
    svg = draw(m, selected="seq:r28:logical:0")
    tags = [name for name in groups(svg, "s") if "-" not in name]
    assert len(tags) == MAX_ROWS
    assert {"s0", "s28", "s29"} <= set(tags)
    assert "… and 18 more sequences" in svg


def test_a_pool_of_thousands_is_a_strip_with_every_block_once() -> None:
    m = BlockManager(5000, 16, record=True)
    for i in range(40):
        m.allocate(f"r{i}", range(i * 1000, i * 1000 + 300))
    m.free("r3")
    svg = draw(m)
    assert len(svg) < 80_000
    wide = 752 / 184
    fields = [
        (rect.get("class") or "", round(float(rect.get("width") or 0) / wide))
        for rect in parsed(svg).iter(f"{SVG}rect")
        if re.match(r"heat|h-null|h-kept|h-many", rect.get("class") or "")
    ]
    s = m.snapshot()
    owned = sum(n for kinds, n in fields if "heat" in kinds.split())
    assert owned == s.num_used
    kept = sum(n for kinds, n in fields if "h-kept" in kinds)
    assert kept == sum(s.block_hash[b] is not None for b in s.free_queue)


def test_ranges_join_neighbours() -> None:
    assert list(ranges((0, 1, 2, 3, 9, 0, 0))) == ["∅ × 1", "1–3", "9", "∅ × 2"]


def test_sharers_are_told_apart_in_little_room() -> None:
    assert short_names(("r0", "r1"), 40) == ("r0", "r1")
    assert short_names(("chat-1", "chat-2", "dora"), 14) == ("1", "2", "d")
    assert short_names(("ab", "ab "), 14) == ("", "")


# --- files --------------------------------------------------------------------------


def test_the_workflow_figure_is_valid_and_tells_its_story() -> None:
    svg = workflow_svg()
    root = parsed(svg)
    assert root.find(f"{SVG}desc") is not None
    assert STORY in "".join(root.itertext())
    shown = " ".join(texts(root))
    for stop in ("Look up the prefix", "Enough free", "Allocate", "Append", "Finish"):
        assert stop in shown
    assert svg == workflow_svg()


def test_the_readme_pictures_are_up_to_date(tmp_path: Path) -> None:
    main(tmp_path)
    for name in ("blockmap.svg", "workflow.svg"):
        kept = ROOT / "docs" / name
        fresh = (tmp_path / name).read_text(encoding="utf-8")
        assert kept.read_text(encoding="utf-8") == fresh, "run python -m figures.readme"
    assert "still cached" in blockmap_svg()


@pytest.mark.parametrize("tokens", [9, 100, 999, 12_345])
def test_the_number_of_tokens_is_never_cut(tokens: int) -> None:
    m = BlockManager(40, 512)
    m.allocate("a", range(tokens))
    said = texts(parsed(block_map(m.snapshot())))
    assert any(re.fullmatch(f"{tokens:,}( tokens| tok.)?", t) for t in said)


@pytest.mark.parametrize("size", [1000, 1_000_000])
@pytest.mark.parametrize("blocks", [8, 200])
def test_the_heading_stays_in_its_column(size: int, blocks: int) -> None:
    svg = block_map(BlockManager(blocks, size).snapshot())
    said = [t for t in texts(parsed(svg), "note") if "slots" in t or f"{size:,}" in t]
    assert said == [f"{size:,}", "slots each"]


@pytest.mark.parametrize("name", [" ", "\u200b\u200d", "\u3164", "\u202e"])
def test_a_name_that_cannot_be_seen_gets_a_sign(name: str) -> None:
    m = BlockManager(4, 4, record=True)
    m.allocate(name, [1])
    svg = draw(m)
    assert BLANK in texts(parsed(svg), "name")
    assert BLANK in texts(parsed(svg), "who")
    assert describe(log_of(m).events[0], log_of(m).initial).startswith(BLANK)


def test_a_prefix_that_is_no_id_is_refused() -> None:
    m = busy()
    for bad in ("'><script>", "a b", "1a"):
        with pytest.raises(ValueError, match="prefix must begin with a letter"):
            block_map(m.snapshot(), prefix=bad)


# --- fork, swap, windows, hybrid models ---------------------------------------------


def marks(m: BlockManager, step: int = -1) -> dict[int, str]:
    log = log_of(m)
    states = log.snapshots()
    step = step % len(log)
    event, before = log.events[step], states[step]
    return dict(scene(states[step + 1], event=event, before=before).marks)


def test_the_blocks_of_a_fork_and_of_a_copy_are_marked() -> None:
    m = BlockManager(8, 2, record=True)
    m.allocate("a", [1, 2, 3])
    m.fork("a", "b")
    assert marks(m) == {1: "fork", 2: "fork"}
    m.append("b", [4])
    assert marks(m) == {3: "new", 2: "−1"}


def test_blocks_that_are_swapped_in_are_new_and_those_swapped_out_are_freed() -> None:
    m = BlockManager(8, 2, num_host_blocks=4, record=True)
    m.allocate("a", [1, 2, 3])
    m.allocate("b", [1, 2, 5])
    m.allocate("c", [1, 2, 5])
    m.swap_out(["a", "b"])
    assert marks(m) == {1: "−1", 2: "freed", 3: "freed"}
    m.free("c")
    m.allocate("d", [9])
    m.allocate("e", [9])
    assert Plan.of(log_of(m)).most == 3, "who is on the host needs no row"
    m.free("d")
    m.swap_in(["a", "b"])
    assert set(marks(m).values()) == {"new"}
    assert len(marks(m)) == 3
    assert Plan.of(log_of(m)).most == 3


def test_a_call_that_a_window_refused_marks_only_what_it_let_go_of() -> None:
    m = BlockManager(4, 2, groups=(SlidingWindow(2),), record=True)
    m.allocate("a", [1, 2, 3, 4])
    m.allocate("b", [5])
    m.append("a", [6, 7, 8, 9])
    assert marks(m) == {1: "freed"}
    log = log_of(m)
    what = scene(log.snapshots()[-1], event=log.events[-1], before=log.snapshots()[-2])
    assert what.fresh == {}


def test_both_groups_of_a_hybrid_model_are_drawn_in_the_pool() -> None:
    groups_ = FullAttention(), SlidingWindow(3)
    m = BlockManager(9, 2, groups=groups_, record=True)
    m.allocate("a", [1, 2, 3])
    m.append("a", [4])
    assert marks(m) == {2: "hash", 4: "hash"}
    what = scene(m.snapshot())
    assert what.owners == ((), *[("a",)] * 4, *[()] * 4)
    assert what.filled == (0, 2, 2, 2, 2, 0, 0, 0, 0)
    m.append("a", [5])
    assert marks(m) == {3: "freed", 5: "new", 6: "new"}
    larger = BlockManager(9, 4, groups=groups_, record=True)
    larger.allocate("a", [1])
    larger.append("a", [2])
    assert marks(larger) == {1: "+1", 2: "+1"}


def test_an_empty_pool_says_who_is_on_the_host() -> None:
    manager = BlockManager(6, 4, num_host_blocks=4, record=True)
    manager.allocate("a", range(6))
    assert "on the host" not in block_map(manager.snapshot())
    manager.fork("a", "b")
    manager.swap_out(["a", "b"])
    assert "every block is free. 2 sequences on the host." in block_map(
        manager.snapshot()
    )
