"""Lesson 02's figures: the pool with its ruler, the fragmentation slider, charts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr.errors import InvalidRequest
from figures.charts.gpu_memory import gpu_memory, gpu_shares
from figures.charts.waste_by_block_size import blocks_taken, waste_by_block_size
from figures.cuts import SIZES, SLOTS, cut, sentence
from figures.fragmentation import Fragmentation
from tests.drawing import SVG, parsed, svg_of

torch = pytest.importorskip("torch")

from blockmgr.storage import KVCache, KVCacheSpec  # noqa: E402
from figures.pool_ruler import PoolRuler  # noqa: E402
from figures.ruler_marks import tick_step, tick_text  # noqa: E402
from figures.ruler_models import MODELS, Shape, model_named  # noqa: E402
from figures.ruler_page import BUDGETS, DTYPES  # noqa: E402
from figures.ruler_page import SIZES as RULER_SIZES  # noqa: E402
from figures.ruler_sums import (  # noqa: E402
    MOST_BYTES,
    pool_sums,
    read_size,
    size_text,
)

GIB = 2**30

shapes = st.builds(Shape, st.integers(1, 96), st.integers(1, 64), st.integers(1, 256))


def spec_of(shape: Shape, block_size: int = 16, dtype: Any = torch.float16) -> Any:
    layers, heads, size = shape
    return KVCacheSpec(
        num_layers=layers,
        num_kv_heads=heads,
        head_size=size,
        block_size=block_size,
        dtype=dtype,
    )


def tell(widget: Any, act: str, value: object = None) -> None:
    """What the page sends when a control is used."""
    widget._heard(widget, {"act": act, "value": value, "n": widget.frame["n"]}, [])


def type_in(widget: Any, act: str, text: str) -> None:
    widget._heard(widget, {"act": act, "text": text, "n": widget.frame["n"]}, [])


def part(widget: Any, name: str) -> str:
    return str(widget.frame["parts"][name])


# --- what fits into a budget ----------------------------------------------------------


def test_the_papers_example() -> None:
    """Kwon et al., SOSP 2023, section 3: 800 KB for a token of OPT-13B."""
    sums = pool_sums(spec_of(model_named("OPT-13B").shape), 8 * GIB)
    assert sums.token_bytes == 819_200
    assert sums.block_bytes == 13_107_200
    assert (sums.num_blocks, sums.usable, sums.tokens) == (655, 654, 10_464)
    assert sums.left_over == 4_718_592


@given(
    shapes,
    st.sampled_from(RULER_SIZES),
    st.sampled_from(list(DTYPES.values())),
    st.integers(1, MOST_BYTES),
)
def test_every_equation_is_true_and_the_specs(
    shape: Shape, size: int, dtype: Any, memory: int
) -> None:
    spec = spec_of(shape, size, dtype)
    sums = pool_sums(spec, memory)
    for one in sums.equations():
        left, right = one.text.replace(",", "").replace("×", "*").split(" = ")
        assert eval(left) == int(right)
    assert sums.block_bytes == size * sums.token_bytes == spec.block_bytes
    if memory < 2 * spec.block_bytes:
        assert (sums.num_blocks, sums.tokens) == (0, 0)
    else:
        assert sums.num_blocks == spec.num_blocks_in(memory)
        assert 0 <= sums.left_over < sums.block_bytes
        assert sums.tokens == (sums.num_blocks - 1) * size


def test_a_real_pool_takes_what_the_sums_say() -> None:
    spec, memory = spec_of(Shape(3, 2, 8), 4), 10_000
    sums = pool_sums(spec, memory)
    with KVCache(spec, memory_bytes=memory, device="cpu") as pool:
        assert pool.num_blocks == sums.num_blocks
        assert pool.kv.nbytes == memory - sums.left_over


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("1.5 GiB", 3 * 2**29),
        ("40", 40 * GIB),
        ("40 g", 40 * GIB),
        ("40Gi", 40 * GIB),
        ("800 MB", 800_000_000),
        (" 65,536 bytes ", 65_536),
        ("7 b", 7),
        ("1 kb", 1000),
        ("1 TIB", 2**40),
    ],
)
def test_a_size_is_read(text: str, num_bytes: int) -> None:
    assert read_size(text) == num_bytes


@pytest.mark.parametrize(
    "text",
    ["", " ", "GiB", "-1 GiB", "1e9", "5 XB", "..", ",", "9" * 500, "∞", "<b>", "0"],
)
def test_what_is_no_size_is_told_what_is(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"1\.5 GiB|from 1 byte"):
        read_size(text)


@given(st.integers(1, MOST_BYTES))
def test_a_ruler_has_a_few_ticks_and_true_numbers(num_bytes: int) -> None:
    step = tick_step(num_bytes)
    assert 1 <= num_bytes // step <= 7
    assert step == 1 or num_bytes // (step // 2) >= 7
    for n in range(1, num_bytes // step + 1):
        text = tick_text(n * step)
        assert read_size(text) == n * step


def test_sizes_are_short() -> None:
    assert [size_text(n) for n in (0, 1, 1023, 1024, 13_107_200, 2**41)] == [
        *("0 bytes", "1 byte", "1023 bytes", "1 KiB", "12.5 MiB", "2 TiB"),
    ]


# --- the picture ----------------------------------------------------------------------


def rects(svg: str, kind: str) -> list[tuple[float, float, float]]:
    """x, y and width of the rectangles of a class."""
    found = [r for r in parsed(svg).iter(f"{SVG}rect") if r.get("class") == kind]
    return [tuple(float(r.get(k, "0")) for k in ("x", "y", "width")) for r in found]  # type: ignore[misc]


def test_the_strip_is_to_scale() -> None:
    ruler = PoolRuler("OPT-13B", memory_bytes=128 * 2**20)
    sums = ruler.sums
    whole = rects(ruler.svg(), "left-over")[0][2]
    pool, null = rects(ruler.svg(), "pool")[0][2], rects(ruler.svg(), "none")[0][2]
    assert null / whole == pytest.approx(sums.block_bytes / sums.memory_bytes, rel=1e-2)
    used = sums.num_blocks * sums.block_bytes
    assert pool / whole == pytest.approx(used / sums.memory_bytes, rel=1e-3)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_choice_is_drawn_inside_its_frame(model: Any) -> None:
    ruler = PoolRuler(model.name)
    heights = set()
    for size in RULER_SIZES:
        for memory in BUDGETS[::7]:
            ruler.choose(block_size=size, memory_bytes=memory)
            svg = ruler.svg()
            heights.add(parsed(svg).get("height"))
            for x, _, wide in rects(svg, "pool") + rects(svg, "none"):
                assert x >= 20
                assert x + wide <= 860.2
    assert len(heights) == 1  # nothing below it moves


# --- the widget -----------------------------------------------------------------------


@pytest.fixture
def ruler() -> Iterator[PoolRuler]:
    made = PoolRuler()
    yield made
    made.close()


def test_it_opens_with_a_model_a_block_size_and_a_budget(ruler: PoolRuler) -> None:
    assert repr(ruler) == (
        "PoolRuler(Llama 3.1 8B, block_size=16, 8 GiB: 4,096 blocks)"
    )
    assert "4,095 for requests, with room for 65,520 tokens" in part(ruler, "say")


def test_every_control_does_what_it_says(ruler: PoolRuler) -> None:
    for act, value, said in (
        ("model", 4, "PoolRuler(OPT-13B, block_size=16, 8 GiB: 655 blocks)"),
        ("size", 3, "PoolRuler(OPT-13B, block_size=8, 8 GiB: 1,310 blocks)"),
        ("slide", 28, "PoolRuler(OPT-13B, block_size=8, 128 MiB: 20 blocks)"),
        ("dtype", 1, "PoolRuler(OPT-13B, block_size=8, 128 MiB: 40 blocks)"),
        ("layers", 20, "PoolRuler(a model of your own, block_size=8, 128 MiB: 81 "),
        ("kv_heads", 10, "PoolRuler(a model of your own, block_size=8, 128 MiB: 327"),
        ("head_size", 64, "PoolRuler(a model of your own, block_size=8, 128 MiB: 65"),
    ):
        tell(ruler, act, value)
        assert repr(ruler).startswith(said)
        assert ruler.frame["controls"][act]["value"] in (value, str(value))
    tell(ruler, "model", 3)
    assert ruler.name == "Llama 3.1 8B"
    tell(ruler, "model", len(MODELS))  # "a model of your own" changes nothing
    assert ruler.name == "Llama 3.1 8B"


def test_a_budget_is_typed_letter_by_letter(ruler: PoolRuler) -> None:
    for end in range(1, len("40 GiB") + 1):
        text = "40 GiB"[:end]
        type_in(ruler, "budget", text)
        assert part(ruler, "error") == ""
        assert ruler.frame["controls"]["budget"]["value"] == text  # stays as typed
    assert ruler.memory_bytes == 40 * GIB
    type_in(ruler, "budget", "<script>1</script>")
    assert "&lt;script&gt;" in part(ruler, "error")
    assert "<script" not in part(ruler, "error")
    assert ruler.memory_bytes == 40 * GIB
    tell(ruler, "slide", 0)
    assert part(ruler, "error") == ""
    assert ruler.frame["controls"]["budget"]["value"] == "1 MiB"


@pytest.mark.parametrize("value", [None, 0, -3, 1.5, 10**9])
def test_a_number_that_cannot_be_is_named(ruler: PoolRuler, value: object) -> None:
    before = repr(ruler)
    tell(ruler, "kv_heads", value)
    assert "KV heads: type a whole number from 1 to 256" in part(ruler, "error")
    assert repr(ruler) == before
    assert "kv_heads" not in ruler.frame["controls"]  # half-typed, and left alone
    tell(ruler, "kv_heads", 3)
    assert part(ruler, "error") == ""


def test_an_error_lies_over_the_sentence(ruler: PoolRuler) -> None:
    """Its place is in what stays in sight, and it is there once."""
    page = ElementTree.fromstring(f"<div>{_closed(ruler.shell)}</div>")
    says = page.find(".//div[@class='stays']/div[@class='says']")
    assert says is not None
    assert [one.get("data-part") for one in says] == ["say", "space", "error"]
    assert len(page.findall(".//div[@data-part='error']")) == 1


def _closed(html: str) -> str:
    """As XML: what HTML leaves open is closed, and an attribute has a value."""
    return re.sub(r"<input([^>]*)>", r"<input\1/>", html)


def test_too_little_memory_is_an_answer_too(ruler: PoolRuler) -> None:
    type_in(ruler, "budget", "3 MiB")
    assert "A pool needs two of them" in part(ruler, "say")
    assert "4 MiB. 3 MiB is too little." in part(ruler, "say")
    assert "no pool fits into it" in part(ruler, "picture")


def test_every_answer_is_one_frame(ruler: PoolRuler) -> None:
    seen: list[int] = []
    ruler.observe(lambda change: seen.append(change["new"]["n"]), names="frame")
    for act, value in (("slide", 5), ("slide", 5), ("layers", None), ("nobody", 1)):
        tell(ruler, act, value)
    type_in(ruler, "budget", "x")
    assert seen == list(range(seen[0], seen[0] + 5))


def test_a_page_without_a_kernel_shows_the_same(ruler: PoolRuler) -> None:
    html = ruler.page()
    ElementTree.fromstring(svg_of(html))
    assert "4,095 for requests" in html
    assert "arXiv 2407.21783" in html
    for model in MODELS:
        assert model.source in html


def test_an_unknown_model_is_told_the_known_ones() -> None:
    with pytest.raises(LookupError, match=r"OPT-13B, Llama 3\.1 70B"):
        PoolRuler("GPT-5")


# --- fragmentation --------------------------------------------------------------------

lengths = st.lists(st.integers(1, 30), min_size=1, max_size=4)


@given(lengths, st.sampled_from(SIZES))
def test_a_cut_is_exact(tokens: list[int], size: int) -> None:
    """Against plain arithmetic: first come, first served, in whole blocks."""
    left, inside = SLOTS // size, []
    for n in tokens:
        need = -(-n // size)
        if need > left:
            break
        left -= need
        inside.append(n)
    found = cut(tokens, size)
    blocks = sum(-(-n // size) for n in inside)
    assert found.entries == found.snapshot.num_used == blocks
    assert found.taken == blocks * size
    assert found.tokens == sum(inside)
    assert found.wasted == sum(-n % size for n in inside)
    assert len(found.waiting) == len(tokens) - len(inside)
    assert found.snapshot.num_usable * size == SLOTS


def test_smaller_blocks_waste_no_more_and_need_no_fewer_entries() -> None:
    cuts = [cut((5, 12, 22), size) for size in SIZES[:-1]]
    assert [one.wasted for one in cuts] == [0, 1, 5, 9, 25]
    assert [one.entries for one in cuts] == [39, 20, 11, 6, 4]


def test_somebody_waits_beside_empty_slots() -> None:
    found = cut((5, 12, 22), 32)
    assert found.waiting == ("c",)
    assert sentence(found).endswith(
        "c waits: c needs 1 block and none is free, though 47 of 64 slots hold no "
        "token."
    )
    assert "c and d wait: c needs" in sentence(cut((30, 30, 30, 30), 32))


@pytest.fixture
def slider() -> Iterator[Fragmentation]:
    made = Fragmentation()
    yield made
    made.close()


def box_high(widget: Any) -> float:
    found = re.search(r"viewBox='0 0 880 (\S+)'", part(widget, "picture"))
    assert found
    return float(found[1])


def parts_and_room(widget: Any) -> tuple[dict[str, str], float]:
    """All parts but the room under the picture, and the height of that room."""
    parts = dict(widget.frame["parts"])
    found = re.search(r"880/(\S+)'", parts.pop("room"))
    return parts, float(found[1]) if found else 0.0


def test_dragging_to_and_fro_ends_where_it_began(slider: Fragmentation) -> None:
    start = parts_and_room(slider)[0]
    for place in [*range(len(SIZES)), *reversed(range(len(SIZES))), 2]:
        tell(slider, "size", place)
        assert slider.block_size == SIZES[place]
        assert f"block size {SIZES[place]}" == part(slider, "count")
        assert slider.frame["controls"]["size"]["value"] == place
    assert parts_and_room(slider)[0] == start


def test_what_stands_below_gives_way_once_and_then_stays(slider: Fragmentation) -> None:
    tell(slider, "size", 0)
    tallest = box_high(slider)
    assert tallest > 1000
    for place in (5, 1, 3, 0):
        tell(slider, "size", place)
        assert box_high(slider) + parts_and_room(slider)[1] == tallest


def test_lengths_have_sliders(slider: Fragmentation) -> None:
    tell(slider, "length-b", 16)
    assert slider.lengths == (5, 16, 22)
    assert part(slider, "of-b") == "b: 16 tokens"
    assert "43 tokens in 12 blocks" in part(slider, "say")
    tell(slider, "length-b", 9999)
    assert slider.lengths == (5, 30, 22)


def test_it_is_set_from_python(slider: Fragmentation) -> None:
    slider.block_size = 17
    assert slider.block_size == 16
    slider.lengths = (1, 1, 1)
    assert slider.state.wasted == 45
    assert repr(slider) == (
        "Fragmentation([1, 1, 1], block_size=16: 45 of 48 slots wasted)"
    )


def test_the_table_has_every_block_size(slider: Fragmentation) -> None:
    rows = re.findall(
        r"<th scope='row'>(\d+)</th><td>(\d+)</td>", part(slider, "tables")
    )
    assert [(int(size), int(used)) for size, used in rows[: len(SIZES)]] == [
        (size, cut((5, 12, 22), size).snapshot.num_used) for size in SIZES
    ]
    assert part(slider, "tables").count("aria-current='true'") == 1


def test_its_picture_is_the_renderers_with_who_waits(slider: Fragmentation) -> None:
    slider.block_size = 32
    assert "needs 1 block," in part(slider, "picture")
    assert "LATER" in slider.svg()
    ElementTree.fromstring(svg_of(slider.page()))


@pytest.mark.parametrize("wrong", [(), (1, 2, 3, 4, 5)])
def test_as_many_lengths_as_can_be_drawn(wrong: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequest, match="1 to 4 lengths"):
        Fragmentation(wrong)


# --- charts ---------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=30),
    st.sampled_from([1, 2, 5, 16, 128]),
)
def test_the_manager_takes_what_arithmetic_says(some: list[int], size: int) -> None:
    assert blocks_taken(some, size) == [-(-n // size) for n in some]


def test_waste_by_block_size() -> None:
    chart = waste_by_block_size({"short": [1, 17], "long": [160]}, (1, 16))
    assert chart.rows == (
        ("short", 1, 0.0, 0.0, 9.0),
        ("short", 16, 15.0, 62.5, 1.5),
        ("long", 1, 0.0, 0.0, 160.0),
        ("long", 16, 0.0, 0.0, 10.0),
    )
    ElementTree.fromstring(chart.svg)


def test_the_kv_cache_gets_the_rest_under_the_cap() -> None:
    shares = gpu_shares(80, 0.9, 15, 3)
    assert shares["KV cache"] == 54
    assert sum(shares.values()) == 80
    chart = gpu_memory(shares, {"idle": 0.0, "busy": 0.5})
    assert chart.rows == (("idle", 15, 3, 0.0, 54, 8), ("busy", 15, 3, 27, 27, 8))
    with pytest.raises(InvalidRequest, match="no room for a KV cache"):
        gpu_shares(16, 0.9, 15, 3)
