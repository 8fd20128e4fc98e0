"""The address explorer: its arithmetic, its picture and its widget."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blockmgr import (
    BlockManager,
    BlockManagerError,
    InvalidRequest,
    Snapshot,
    UnknownSequence,
    address,
)
from blockmgr.events import SequenceView
from figures.address import AddressExplorer
from figures.address.shape import KVShape
from figures.address.sums import sentence
from figures.address.svg import address_svg
from figures.address.trail import Number, Quantity, trail
from figures.stage import WIDGET_VIEW
from figures.theme import COLOURS, EDGE_CONTRAST, TEXT_CONTRAST, TOKENS, contrast
from tests.drawing import svg_of

SVG = "{http://www.w3.org/2000/svg}"
SHAPE = KVShape(layers=2, kv_heads=2, head_size=8, itemsize=4)
WORDS = ["The", "cat", "sat", "on", "the", "mat", "and", "looked", "at", "me", "."]
LABELS = {100 + i: text for i, text in enumerate(WORDS)}


def lesson() -> BlockManager:
    """Three sequences; `chat` has 11 tokens in blocks 4, 5 and 7."""
    manager = BlockManager(16, 4)
    manager.allocate("a", [1, 2, 3])
    manager.allocate("b", [7] * 6)
    manager.allocate("chat", range(100, 107))
    manager.free("a")
    manager.allocate("c", [9] * 5)
    manager.append("chat", range(107, 111))
    return manager


def snapshot_of(
    table: tuple[int, ...], tokens: int, size: int, blocks: int, name: str = "r0"
) -> Snapshot:
    """A state with one sequence that has this table: any order, anywhere."""
    view = SequenceView(name, table, tuple(range(tokens)))
    free = tuple(b for b in range(1, blocks) if b not in table)
    refs = tuple(int(b in table) for b in range(blocks))
    return Snapshot(size, blocks, refs, (None,) * blocks, free, {}, {name: view})


@st.composite
def states(draw: st.DrawFn) -> tuple[Snapshot, int]:
    """A random table in a random pool, and the position of one of its tokens."""
    size = draw(st.sampled_from([1, 2, 3, 4, 7, 8, 16, 33, 64]))
    blocks = draw(st.integers(2, 80))
    ids = draw(
        st.lists(st.integers(1, blocks - 1), min_size=1, max_size=12, unique=True)
    )
    tokens = draw(st.integers((len(ids) - 1) * size + 1, len(ids) * size))
    state = snapshot_of(tuple(ids), tokens, size, blocks)
    return state, draw(st.integers(0, tokens - 1))


shapes = st.builds(
    KVShape,
    st.integers(1, 48),
    st.integers(1, 8),
    st.integers(1, 128),
    st.sampled_from([1, 2, 4]),
)


# --- arithmetic ---------------------------------------------------------------------


def test_the_example_of_the_lesson() -> None:
    way = trail(lesson().snapshot(), "chat", 9, spec=SHAPE, layer=1)
    assert way.numbers == {
        Quantity.POSITION: 9,
        Quantity.LOGICAL: 2,
        Quantity.OFFSET: 1,
        Quantity.BLOCK: 7,
        Quantity.SLOT: 29,
        Quantity.BYTE: 5952,
    }
    assert [equation.text for equation in way.equations()] == [
        "9 // 4 = 2",
        "9 % 4 = 1",
        "table[2] = 7",
        "7 × 4 + 1 = 29",
        "2 × 8 × 4 = 64",
        "0 × 2 + 1 = 1",
        "(1 × 64 + 29) × 64 = 5,952",
        "kv[0, 1, 7, 1]",
    ]
    assert way.index == (0, 1, 7, 1)
    assert way.token_id == 109


@given(states(), shapes, st.data())
def test_every_equation_is_true(
    case: tuple[Snapshot, int], shape: KVShape, data: st.DataObject
) -> None:
    state, position = case
    layer = data.draw(st.integers(0, shape.layers - 1))
    half = data.draw(st.integers(0, 1))
    way = trail(state, "r0", position, spec=shape, layer=layer, half=half)
    table = state.sequences["r0"].block_table
    assert way.address == address(table, state.block_size, position)
    for equation in way.equations()[:-1]:
        left, right = equation.text.replace(",", "").replace("×", "*").split(" = ")
        assert eval(left, {"table": table}) == int(right)


@given(states())
def test_two_tokens_never_share_a_byte(case: tuple[Snapshot, int]) -> None:
    state, _ = case
    count = len(state.sequences["r0"].token_ids)
    planes = itertools.product(range(2), range(SHAPE.layers), range(min(count, 8)))
    starts = [
        trail(state, "r0", p, spec=SHAPE, layer=layer, half=half).byte
        for half, layer, p in planes
    ]
    starts.sort()
    gaps = {b - a for a, b in itertools.pairwise(starts)}
    assert all(gap >= SHAPE.row_bytes for gap in gaps)


@settings(deadline=None, max_examples=40)
@given(states(), st.data())
def test_bytes_and_index_are_those_of_the_real_tensor(
    case: tuple[Snapshot, int], data: st.DataObject
) -> None:
    """`data_ptr` and `stride` of storage's own tensor, and what it really stores."""
    torch = pytest.importorskip("torch")
    from blockmgr.storage import KVCache, KVCacheSpec

    state, position = case
    spec = KVCacheSpec(
        num_layers=data.draw(st.integers(1, 3)),
        num_kv_heads=data.draw(st.integers(1, 3)),
        head_size=data.draw(st.integers(1, 5)),
        block_size=state.block_size,
        dtype=data.draw(st.sampled_from([torch.float16, torch.float32])),
    )
    layer = data.draw(st.integers(0, spec.num_layers - 1))
    half = data.draw(st.integers(0, 1))
    with KVCache(spec, num_blocks=state.num_blocks, device="cpu") as cache:
        way = trail(state, "r0", position, spec=cache, layer=layer, half=half)
        kv = cache.kv
        row = kv[way.index]
        steps = zip(way.index, kv.stride(), strict=False)
        assert way.byte == sum(i * s for i, s in steps) * kv.element_size()
        assert way.byte == row.data_ptr() - kv.data_ptr()
        assert way.total_bytes == kv.numel() * kv.element_size()
        assert tuple(row.shape) == (spec.num_kv_heads, spec.head_size)
        assert way.known_shape.row_bytes == row.numel() * row.element_size()
        ones = torch.ones(1, *row.shape, dtype=spec.dtype)
        pair = (ones, ones * 0) if half == 0 else (ones * 0, ones)
        cache.write(*pair, [way.address.slot], layer)
        flat = kv.flatten().view(torch.uint8)
        lit = flat[way.byte : way.byte + way.known_shape.row_bytes].view(spec.dtype)
        assert lit.tolist() == [1.0] * row.numel()
        assert int(kv.count_nonzero()) == row.numel()


@pytest.mark.parametrize(
    ("seq_id", "position", "words"),
    [
        ("nobody", 0, "'a', 'chat'"),
        (None, 0, "there is"),
        ([], 0, "there is"),
        ("chat", 11, "0 to 10"),
        ("chat", -1, "0 to 10"),
        ("chat", True, "0 to 10"),
        ("chat", 1.0, "0 to 10"),
        ("chat", "9", "0 to 10"),
        ("chat", None, "0 to 10"),
        pytest.param("chat", 10**6000, "0 to 10", id="huge"),
        ("a", 0, "preempted"),
    ],
)
def test_nonsense_is_told_what_there_is(seq_id: Any, position: Any, words: str) -> None:
    manager = BlockManager(16, 4)
    manager.allocate("a", [1, 2, 3])
    manager.allocate("chat", range(11))
    manager.preempt("a")
    with pytest.raises(BlockManagerError) as caught:
        trail(manager.snapshot(), seq_id, position)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300
    wrong_name = seq_id not in ("a", "chat")
    assert isinstance(caught.value, UnknownSequence if wrong_name else InvalidRequest)


def test_a_block_that_was_given_up_has_no_address() -> None:
    state = snapshot_of((0, 3), 6, 4, 8)
    with pytest.raises(InvalidRequest, match="null block"):
        trail(state, "r0", 1)
    assert trail(state, "r0", 4).address.slot == 12


@pytest.mark.parametrize("layer", [-1, 2, True, 1.0, "0", None])
def test_a_layer_that_is_not_there(layer: Any) -> None:
    with pytest.raises(InvalidRequest, match="0 to 1"):
        trail(lesson().snapshot(), "chat", 9, spec=SHAPE, layer=layer)


@pytest.mark.parametrize("half", [-1, 2, True, "K", None])
def test_a_half_that_is_not_there(half: Any) -> None:
    with pytest.raises(InvalidRequest, match="0 for K or 1 for V"):
        trail(lesson().snapshot(), "chat", 9, spec=SHAPE, half=half)


@pytest.mark.parametrize("spec", [42, "Llama", object(), (2, 2, 8, 4)])
def test_a_spec_that_is_none(spec: object) -> None:
    with pytest.raises(InvalidRequest, match="KVShape"):
        trail(lesson().snapshot(), "chat", 9, spec=spec)


def test_a_spec_of_another_pool_is_refused() -> None:
    torch = pytest.importorskip("torch")
    from blockmgr.storage import KVCache, KVCacheSpec

    sizes = {"num_layers": 1, "num_kv_heads": 1, "head_size": 1}
    small = KVCacheSpec(**sizes, block_size=2, dtype=torch.float32)
    with pytest.raises(InvalidRequest, match="block_size 2, the manager has 4"):
        trail(lesson().snapshot(), "chat", 9, spec=small)
    fitting = KVCacheSpec(**sizes, block_size=4, dtype=torch.float32)
    assert trail(lesson().snapshot(), "chat", 9, spec=fitting).byte == 29 * 4
    cache = KVCache(fitting, num_blocks=8, device="cpu")
    with pytest.raises(InvalidRequest, match="num_blocks 8, the manager has 16"):
        trail(lesson().snapshot(), "chat", 9, spec=cache)
    cache.close()


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "2"])
def test_a_shape_of_nothing_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidRequest, match="head_size"):
        KVShape(layers=1, kv_heads=1, head_size=bad, itemsize=2)


def test_without_a_spec_there_are_no_bytes() -> None:
    way = trail(lesson().snapshot(), "chat", 9)
    assert Quantity.BYTE not in way.numbers
    assert len(way.equations()) == 4
    with pytest.raises(InvalidRequest, match="spec"):
        _ = way.byte


# --- the picture --------------------------------------------------------------------


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def texts(svg: str) -> list[str]:
    """Every piece of text that is drawn, but for tooltips."""
    return ["".join(node.itertext()) for node in parsed(svg).iter(f"{SVG}text")]


def of_class(svg: str, name: str) -> list[ET.Element]:
    return [n for n in parsed(svg).iter() if name in n.get("class", "").split()]


@settings(deadline=None, max_examples=30)
@given(states(), st.none() | shapes, st.booleans())
def test_any_state_is_drawn_as_well_formed_xml(
    case: tuple[Snapshot, int], shape: KVShape | None, interactive: bool
) -> None:
    state, position = case
    first, again = (
        address_svg(state, "r0", position, spec=shape, interactive=interactive)
        for _ in range(2)
    )
    assert first == again
    root = parsed(first)
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    assert "nan" not in first and "\0" not in first


@settings(deadline=None, max_examples=30)
@given(states(), shapes)
def test_what_is_lit_is_the_address(case: tuple[Snapshot, int], shape: KVShape) -> None:
    """Every number of the trail stands in its own outline; one token cell is dark."""
    state, position = case
    svg = address_svg(state, "r0", position, spec=shape)
    way = trail(state, "r0", position, spec=shape)
    for equation in way.equations():
        for part in equation.parts:
            if isinstance(part, Number):
                name = f"q-{part.quantity.name.lower()}"
                chips = [n for n in of_class(svg, "chip") if name in n.get("class", "")]
                assert part.text in {c.findtext(f"{SVG}text") for c in chips}
    cells = [n for n in of_class(svg, "here") if n.get("id")]
    assert [c.get("id", "").rpartition("-")[2] for c in cells] == [f"t{position}"]
    assert len(of_class(svg, "mark")) == 1
    strip = [n for n in of_class(svg, "here") if not n.get("id")]
    assert strip[0].findall(f"{SVG}text")[-1].text == str(way.address.slot)


@settings(deadline=None, max_examples=30)
@given(states(), shapes)
def test_nothing_is_drawn_outside_the_picture(
    case: tuple[Snapshot, int], shape: KVShape
) -> None:
    state, position = case
    root = parsed(address_svg(state, "r0", position, spec=shape))
    wide, high = (float(root.get(side, "")) for side in ("width", "height"))

    def walk(node: ET.Element, dx: float, dy: float) -> None:
        moved = re.match(r"translate\(([-.\d]+) ([-.\d]+)\)", node.get("transform", ""))
        if moved:
            dx, dy = dx + float(moved[1]), dy + float(moved[2])
        if node.tag == f"{SVG}rect" and node.get("class") not in ("paper", "hatch0"):
            x, y = (dx + float(node.get("x", 0)), dy + float(node.get("y", 0)))
            assert x >= 0 and x + float(node.get("width", "")) <= wide
            assert y >= 0 and y + float(node.get("height", "")) <= high
        for child in node:
            walk(child, dx, dy)

    walk(root, 0, 0)


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=60), st.text(min_size=1, max_size=60))
def test_whatever_is_typed_is_only_text(label: str, name: str) -> None:
    state = snapshot_of((3, 1), 5, 4, 6, name)
    svg = address_svg(state, name, 4, labels={0: label, 4: label}, spec=SHAPE)
    plain = address_svg(snapshot_of((3, 1), 5, 4, 6), "r0", 4, spec=SHAPE)
    tags = {node.tag for node in parsed(svg).iter()}
    assert tags == {node.tag for node in parsed(plain).iter()}
    assert not any(
        key.lower().startswith("on") for n in parsed(svg).iter() for key in n.attrib
    )


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "a&b", "]]>", "'\"", "x" * 100_000, "\ud800"]
)
def test_odd_text_is_cut_and_escaped(text: str) -> None:
    state = snapshot_of((3, 1), 5, 4, 6, text)
    for interactive in (False, True):
        svg = address_svg(
            state, text, 4, labels={4: text}, spec=SHAPE, interactive=interactive
        )
        parsed(svg)
        assert "<script" not in svg
        assert len(svg) < 40_000


def test_a_long_table_is_a_window_that_says_so() -> None:
    state = snapshot_of(tuple(range(60, 20, -1)), 40, 1, 100)
    svg = address_svg(state, "r0", 17, spec=SHAPE)
    assert "43" in texts(svg)
    assert any("entries" in text for text in texts(svg))
    assert any("more rows" in text for text in texts(svg))


def test_only_an_interactive_picture_has_keys() -> None:
    state = lesson().snapshot()
    static = address_svg(state, "chat", 9, labels=LABELS)
    clickable = address_svg(state, "chat", 9, labels=LABELS, interactive=True)
    assert not {n for n in parsed(static).iter() if n.get("data-key")}
    assert "tabindex" not in static
    keys = [n.get("data-key") for n in of_class(clickable, "cell") if n.get("data-key")]
    assert keys == [f"token:{i}" for i in range(11)]
    chosen = [n for n in parsed(clickable).iter() if n.get("aria-selected") == "true"]
    assert [n.get("data-key") for n in chosen] == ["token:9"]


def test_a_static_picture_says_itself_in_words() -> None:
    state = lesson().snapshot()
    svg = address_svg(state, "chat", 9, labels=LABELS)
    words = parsed(svg).findtext(f"{SVG}desc")
    assert words == sentence(trail(state, "chat", 9), LABELS)
    assert words == (
        "Position 9 of chat is token “me”: offset 1 of logical block 2. The table puts "
        "that block into physical block 7, so the token has slot 29."
    )


def test_no_two_stations_and_the_sequence_look_alike() -> None:
    """Whichever colour the sequence has, the five stations have five others."""
    manager = BlockManager(40, 4)
    for i in range(9):
        manager.allocate(f"r{i}", range(10 * i, 10 * i + 5))
    for i in range(9):
        svg = address_svg(manager.snapshot(), f"r{i}", 2, spec=SHAPE)
        found = {
            cls
            for node in of_class(svg, "chip")
            for cls in node.get("class", "").split()
            if re.fullmatch(r"o\d", cls)
        }
        assert len(found) == 5
        assert f"o{i % len(COLOURS)}" not in found


def test_an_outline_is_that_of_a_number() -> None:
    """The token's plane of the tensor has no number of its own: its ring is plain."""
    svg = address_svg(lesson().snapshot(), "chat", 9, spec=SHAPE)
    stations = [
        {c for c in ring.get("class", "").split() if c.startswith("q-")}
        for ring in of_class(svg, "ring")
    ]
    assert set().union(*stations) == {"q-logical", "q-offset", "q-block", "q-slot"}
    assert stations.count(set()) == 1


def test_numbers_can_be_read_in_both_themes() -> None:
    for side, paper in enumerate(TOKENS["paper"]):
        for colour in COLOURS:
            assert contrast(colour.text[side], paper) >= TEXT_CONTRAST
            assert contrast(colour.edge[side], paper) >= EDGE_CONTRAST - 0.01


def test_the_picture_needs_no_torch_and_no_widgets() -> None:
    code = (
        "import sys, figures.address.svg; "
        "print({'torch', 'ipywidgets', 'anywidget'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


# --- the widget ---------------------------------------------------------------------


@pytest.fixture
def explorer() -> Iterator[AddressExplorer]:
    made = AddressExplorer(lesson(), "chat", position=9, labels=LABELS, spec=SHAPE)
    yield made
    made.close()


def error_of(explorer: AddressExplorer) -> str:
    return str(explorer.frame["parts"]["error"])


def lit(explorer: AddressExplorer) -> str | None:
    """The key of the token that the page shows as chosen."""
    root = parsed(explorer.frame["parts"]["picture"])
    return next(
        n.get("data-key") for n in root.iter() if n.get("aria-selected") == "true"
    )


def hear(explorer: AddressExplorer, act: str, value: float | None = None) -> None:
    """What the page sends when a control is used."""
    explorer._handle_custom_msg({"act": act, "value": value, "n": 1}, [])


def test_the_way_can_be_read(explorer: AddressExplorer) -> None:
    assert (explorer.logical_block, explorer.offset) == (2, 1)
    assert (explorer.block_id, explorer.slot) == (7, 29)
    assert explorer.byte_offset == 29 * 64
    assert explorer.tensor_index == (0, 0, 7, 1)
    assert repr(explorer) == "AddressExplorer('chat', position=9: block 7, slot 29)"


def test_everything_follows_the_position(explorer: AddressExplorer) -> None:
    seen: list[int] = []
    explorer.observe(lambda change: seen.append(change["new"]), names="slot")
    explorer.position = 4
    assert (explorer.selected, explorer.slot, explorer.block_id) == ("token:4", 20, 5)
    assert seen == [20]
    assert lit(explorer) == "token:4"
    assert "Position 4 of chat" in explorer.frame["parts"]["say"]
    assert "kv[0, 0, 5, 0]" in explorer.frame["parts"]["tables"]
    assert explorer.frame["controls"]["slide"]["value"] == 4


def test_layer_and_half(explorer: AddressExplorer) -> None:
    explorer.layer = 1
    assert explorer.byte_offset == (1 * 64 + 29) * 64
    explorer.half = 1
    assert explorer.byte_offset == (3 * 64 + 29) * 64
    assert explorer.tensor_index == (1, 1, 7, 1)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("position", 11, "0 to 10"),
        ("position", -1, "0 to 10"),
        ("position", "<img src=x onerror=alert(1)>", "0 to 10"),
        ("position", None, "0 to 10"),
        pytest.param("position", 10**6000, "0 to 10", id="huge"),
        ("seq_id", "nobody", "there is"),
        ("seq_id", 3, "there is"),
        ("seq_id", ["chat"], "there is"),
        ("layer", 2, "0 to 1"),
        ("half", "V", "0 for K or 1 for V"),
    ],
)
def test_what_cannot_be_chosen_is_said_and_nothing_changes(
    explorer: AddressExplorer, name: str, value: Any, words: str
) -> None:
    before = explorer.frame["parts"]["picture"]
    setattr(explorer, name, value)
    assert words in error_of(explorer)
    assert "<img" not in error_of(explorer)
    assert explorer.frame["parts"]["picture"] == before
    assert (explorer.seq_id, explorer.position, explorer.layer) == ("chat", 9, 0)
    assert error_of(explorer) in explorer.page()
    explorer.position = 3
    assert error_of(explorer) == ""
    assert lit(explorer) == "token:3"


def test_a_click_chooses_and_a_click_beside_does_not(
    explorer: AddressExplorer,
) -> None:
    explorer.selected = "token:2"
    assert (explorer.position, lit(explorer)) == (2, "token:2")
    for beside in ("", "block:3", "token:", "token:-1", "token:٣", "token:99"):
        explorer.selected = beside
        assert (explorer.position, explorer.selected) == (2, "token:2")


def test_buttons_slider_and_number_box(explorer: AddressExplorer) -> None:
    hear(explorer, "forward")
    assert explorer.position == 10
    hear(explorer, "forward")
    assert explorer.position == 10
    hear(explorer, "back")
    assert explorer.position == 9
    hear(explorer, "slide", 0)
    hear(explorer, "back")
    assert explorer.position == 0
    hear(explorer, "position", 7)
    assert explorer.position == 7
    hear(explorer, "half", 1)
    hear(explorer, "layer", 1)
    assert explorer.tensor_index == (1, 1, 5, 3)


@pytest.mark.parametrize("value", [7.5, 1e300, None, -3])
def test_the_number_box_takes_anything(
    explorer: AddressExplorer, value: float | None
) -> None:
    n = explorer.frame["n"]
    hear(explorer, "position", value)
    assert "0 to 10" in error_of(explorer)
    assert explorer.position == 9
    assert explorer.frame["n"] > n


@pytest.mark.parametrize("act", ["sequence", "nonsense", "tick", "seq_id"])
@pytest.mark.parametrize("value", [None, 99, -9, 0.5])
def test_no_message_breaks_the_widget(
    explorer: AddressExplorer, act: str, value: float | None
) -> None:
    hear(explorer, act, value)
    assert error_of(explorer)
    assert (explorer.seq_id, explorer.position) == ("chat", 9)


def test_another_sequence_may_be_shorter(explorer: AddressExplorer) -> None:
    names = list(lesson().snapshot().sequences)
    hear(explorer, "sequence", names.index("c"))
    assert (explorer.seq_id, explorer.position) == ("c", 4)
    assert not explorer.frame["controls"]["sequence"]["hidden"]
    explorer.seq_id = "b"
    assert (explorer.seq_id, explorer.position, explorer.slot) == ("b", 4, 12)


def test_a_sequence_without_blocks_is_not_chosen() -> None:
    manager = lesson()
    manager.preempt("b")
    explorer = AddressExplorer(manager, "chat", position=9)
    explorer.seq_id = "b"
    assert "preempted" in error_of(explorer)
    assert explorer.seq_id == "chat"
    explorer.close()


@pytest.mark.parametrize(
    ("wrong", "words", "kept"),
    [
        ({"position": 99}, "0 to 10", ("chat", 0)),
        ({"seq_id": "<b>"}, "&lt;b&gt;", ("b", 4)),
        ({"layer": 7}, "0 to 1", ("chat", 4)),
        ({"spec": 42}, "KVShape", ("chat", 4)),
    ],
)
def test_it_opens_with_the_nearest_and_says_so(
    wrong: dict[str, Any], words: str, kept: tuple[str, int]
) -> None:
    asked: dict[str, Any] = {"seq_id": "chat", "position": 4, "spec": SHAPE} | wrong
    explorer = AddressExplorer(lesson(), asked.pop("seq_id"), **asked)
    assert words in error_of(explorer)
    assert (explorer.seq_id, explorer.position) == kept
    assert lit(explorer) == f"token:{kept[1]}"
    explorer.close()


def test_an_empty_pool_has_nothing_to_show() -> None:
    manager = BlockManager(8, 4)
    explorer = AddressExplorer(manager)
    assert "none at all" in error_of(explorer)
    assert [explorer.slot] == [None]
    hear(explorer, "forward")
    hear(explorer, "sequence", 0)
    explorer.position = 3
    explorer.selected = "token:3"
    assert "none at all" in explorer.page()
    assert repr(explorer) == "AddressExplorer(no token to show)"
    manager.allocate("r0", [1, 2, 3])
    explorer.refresh()
    assert (explorer.seq_id, explorer.slot) == ("r0", 4)
    explorer.close()


def test_it_follows_a_manager_that_goes_on() -> None:
    manager = lesson()
    explorer = AddressExplorer(manager, "chat", position=10, spec=SHAPE)
    manager.append("chat", [5, 6])
    explorer.position = 12
    assert "0 to 10" in error_of(explorer)
    explorer.refresh()
    explorer.position = 12
    assert (error_of(explorer), explorer.block_id) == ("", 8)
    manager.free("chat")
    explorer.refresh()
    assert "no sequence" in error_of(explorer)
    assert explorer.seq_id == "b"
    explorer.close()


def test_a_page_without_a_kernel_shows_everything(
    explorer: AddressExplorer,
) -> None:
    bundle, _ = explorer._repr_mimebundle_()
    html = bundle["text/html"]
    svg = svg_of(html)
    assert parsed(svg).tag == f"{SVG}svg"
    assert "data-key" not in re.sub(r"<style>.*?</style>", "", svg)
    assert "<details>" in html and "5,952" not in html and "1,856" in html
    assert "max-width:680px" in html and "880" not in html.partition("base64")[0]
    assert bundle["text/plain"] == repr(explorer)
    assert WIDGET_VIEW in bundle


def test_two_runs_of_a_cell_give_the_same_page(explorer: AddressExplorer) -> None:
    again = AddressExplorer(lesson(), "chat", position=9, labels=LABELS, spec=SHAPE)
    assert again.page() == explorer.page()
    again.close()
    assert again.page() == explorer.page()


NASTY = (
    " data-key= onfocus=alert(1) ",
    "' role='option' onfocus='alert(1)",
    "x' onfocus='alert(1)",
    '"><script>alert(1)</script>',
    "</title></svg><img src=x onerror=alert(1)>",
)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(NASTY) | st.text(max_size=40), st.sampled_from(NASTY))
@example(NASTY[0], NASTY[0])
@example(NASTY[1], NASTY[1])
def test_the_picture_on_the_page_has_only_our_attributes(label: str, name: str) -> None:
    def attributes(text: str, seq_id: str) -> tuple[set[str], set[str]]:
        state = snapshot_of((3, 1), 5, 4, 6, seq_id)
        labels = dict.fromkeys(range(5), text)
        explorer = AddressExplorer(state, seq_id, labels=labels, spec=SHAPE)
        nodes = list(parsed(explorer.frame["parts"]["picture"]).iter())
        explorer.close()
        return {n.tag for n in nodes}, {key for n in nodes for key in n.attrib}

    tags, names = attributes(label, name)
    plain = attributes("a", "r0")
    assert tags == plain[0]
    assert names - {"textLength", "lengthAdjust"} <= plain[1]


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=40), st.text(min_size=1, max_size=40))
@example(NASTY[3], NASTY[3])
@example(NASTY[4], NASTY[4])
def test_the_page_escapes_what_was_typed(label: str, name: str) -> None:
    state = snapshot_of((3, 1), 5, 4, 6, name)
    explorer = AddressExplorer(state, name, position=4, labels={4: label})
    tags = set(re.findall(r"<(\w+)", explorer.page().partition("src=")[0]))
    assert tags <= {"div", "style", "p", "b", "img", "details", "summary"}
    frame = explorer.frame
    assert set(re.findall(r"<(\w+)", frame["parts"]["say"])) == set()
    listed = frame["controls"]["sequence"]["innerHTML"]
    assert set(re.findall(r"<(\w+)", listed)) == {"option"}
    explorer.close()


def test_a_block_of_many_slots_says_how_many_tokens_it_leaves_out() -> None:
    m = BlockManager(8, 1000)
    m.allocate("a", range(1000))
    svg = address_svg(m.snapshot(), "a", 0)
    shown = len(set(re.findall(r" id='\w+-t(\d+)'", svg)))
    assert 0 < shown < 200
    assert f"… {1000 - shown} more tokens" in texts(svg)


def test_a_prefix_that_is_no_id_is_refused() -> None:
    with pytest.raises(ValueError, match="prefix must begin with a letter"):
        address_svg(lesson().snapshot(), "b", 0, prefix="'><script>")
