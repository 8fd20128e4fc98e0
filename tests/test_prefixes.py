"""The prefix explorer, the charts of hits and lesson 07's experiments: what is shown is
what the manager did, whatever is typed."""

import random
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from blockmgr import BlockManager
from blockmgr.profile import load_profile
from classroom.exercises import lesson07
from classroom.tutor import PARTS, hit_tokens, in_order, requests
from figures.charts.hits import found_in, hit_rates, hit_rates_by_pool
from figures.prefixes import Prompt, prefix_svg, study
from figures.prefixes.chains import Change, Fate, fresh
from figures.prefixes.explorer import EXAMPLES, PrefixExplorer
from figures.prefixes.layout import ROOM, fitting, shape
from figures.prefixes.page import LONGEST, SIZES
from figures.prefixes.tokens import TOKENISERS

SVG = "{http://www.w3.org/2000/svg}"
START = "a fine day to you all , my"  # 8 words
ODD = {
    "a tag": "<script>alert(1)</script><img src=x onerror=alert(1)> & 'x' \"y\"",
    "right to left": "\u202eשלום עולם\u202c hello \u2067 abc",
    "emoji": "🧱🧱 👩‍👩‍👧 🇫🇷 é é",
    "controls": "a\x00b\x07c\td\ne\u2028f\x85",
    "half a pair": "\ud83e and \udd71",
    "100 kB": "lorem ipsum " * 9_000,
    "nothing": "",
    "blanks": " \n\t ",
}


def parts(widget: PrefixExplorer) -> dict[str, str]:
    found: dict[str, str] = widget.frame["parts"]
    return found


def say(widget: PrefixExplorer) -> str:
    return parts(widget)["say"].replace("&#39;", "'")


def fates(widget: PrefixExplorer, name: str) -> list[str]:
    chain = widget.study.chains["ABCD".index(name)]
    return [link.fate.name for link in chain.links]


# --- what the manager did -------------------------------------------------------------


def test_tokens_depend_on_the_text_alone() -> None:
    """Numbered in order of appearance, a changed word would keep its number."""
    for cut in TOKENISERS.values():
        ((one,), _), ((other,), _) = cut(["ab cd"]), cut(["xb cd"])
        assert one[0] != other[0] and one[1:] == other[1:]
    ids, labels = TOKENISERS["words"](["the cat\nthe  hat"])
    assert [labels[i] for i in ids[0]] == ["the", "cat", "the", "hat"]
    assert TOKENISERS["characters"](["a é🧱"])[0] == [[97, 32, 233, 0x1F9F1]]


def test_a_shared_start_is_found_and_then_the_chains_part() -> None:
    done = study([Prompt(text) for text in EXAMPLES])
    one, two = done.chains
    assert (one.hits, two.hits, two.hit_tokens, two.num_tokens) == (0, 2, 8, 17)
    assert [link.fate for link in two.links] == [
        *[Fate.HIT] * 2,
        *[Fate.NEW] * 2,
        Fate.PART,
    ]
    assert [link.refs for link in two.links] == [2, 2, 1, 1, 1]
    assert [link.block_id for link in two.links[:2]] == [1, 2]
    assert two.digests[:2] == one.digests[:2] and two.digests[2] != one.digests[2]
    assert one.links[-1].texts == ("?",) and one.links[-1].digest is None


@pytest.mark.parametrize("tokens", TOKENISERS)
def test_random_prompts_find_what_a_plain_look_finds(tokens: str) -> None:
    rng = random.Random(7)
    for _ in range(60):
        size = rng.choice(range(2, 17))
        texts = [" ".join(rng.choices("ab", k=rng.randint(1, 30))) for _ in range(4)]
        salts = rng.choices(["", "s", "t"], k=4)
        done = study(list(map(Prompt, texts, salts)), size, tokens)
        seen: set[object] = set()
        for chain, text, salt in zip(done.chains, texts, salts, strict=True):
            units = text.split() if tokens == "words" else list(text)
            starts = [(salt, *units[:end]) for end in range(size, 999, size)]
            hits = 0
            while hits < (len(units) - 1) // size and starts[hits] in seen:
                hits += 1
            assert (chain.hits, chain.num_tokens) == (hits, len(units))
            seen.update(starts[: len(units) // size])


def test_length_k_times_b_computes_its_last_block_again() -> None:
    done = study([Prompt(START + " friend"), Prompt(START)])
    assert [link.fate for link in done.chains[1].links] == [Fate.HIT, Fate.AGAIN]
    twin, other = done.chains[0].links[1], done.chains[1].links[1]
    assert twin.digest == other.digest and twin.block_id != other.block_id


def test_a_change_at_the_start_makes_every_hash_new() -> None:
    old = study([Prompt(START), Prompt(START)]).chains[0]
    changed = study([Prompt("x" + START), Prompt(START)]).chains[0]
    assert fresh(changed, Change("A", old.digests)) == {0, 1}
    later = study([Prompt(START[:-2] + "your"), Prompt(START)]).chains[0]
    assert fresh(later, Change("A", old.digests)) == {1}
    assert fresh(old, Change("A", old.digests)) == frozenset()
    assert fresh(old, Change("B", ())) == frozenset() == fresh(old, None)
    assert fresh(old, Change("A", old.digests[:1])) == {1}  # one that was not there


# --- in words -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "salts", "told"),
    [
        (EXAMPLES, (), "B: 2 hits, then block 2 holds tokens that nobody had behind"),
        ((START, START), (), "B: 1 hit, then block 1 is in the cache too, but it hol"),
        ((START, START + " x"), (), "B: 2 hits, then block 2 is not full, and only"),
        ((START, "a fine"), (), "B: no hit: the only block is not full"),
        ((START, "x " + START[2:]), (), "So block 1 can't be found either, though"),
        ((START, START), ("", "s"), "B: no hit: block 0 holds the same tokens as one"),
        ((START, ""), (), "B: no token yet"),
        (("", START), (), "B: no hit: nobody came before"),
    ],
)
def test_the_sentence_says_why(
    texts: tuple[str, str], salts: tuple[str, ...], told: str
) -> None:
    assert told in say(PrefixExplorer(*texts, salts=salts))


def test_the_sentence_counts_what_the_last_change_did() -> None:
    widget = PrefixExplorer(START, START)
    widget.typed("text0", "x" + START)
    assert say(widget).endswith("Your last change: 2 of A's 2 hashes are new.")
    widget.typed("text0", "x" + START + " friend")
    assert say(widget).endswith("Your last change: 0 of A's 2 hashes are new.")
    widget.act("size", 8.0)
    assert "last change" not in say(widget)
    widget.typed("salt1", "s")
    assert say(widget).endswith("Your last change: 1 of B's 1 hash is new.")


# --- the widget -----------------------------------------------------------------------


def test_prompts_come_and_go_and_the_page_is_told() -> None:
    widget = PrefixExplorer()
    widget.act("add", 2)  # two quick presses
    widget.act("add", None)  # one more than there is room for
    assert [chain.name for chain in widget.study.chains] == list("ABCD")
    assert widget.prompts[3] == widget.prompts[1]
    assert widget.frame["controls"]["add"]["ariaDisabled"] == "true"
    assert widget.frame["controls"]["card3"] == {"hidden": False}
    widget.typed("text0", "first")
    widget.act("remove0", 1)
    assert widget.prompts[0].text == EXAMPLES[1]
    assert widget.frame["controls"]["card3"] == {"hidden": True}
    assert widget.frame["controls"]["text0"] == {"value": EXAMPLES[1]}
    widget.act("remove2", 9)  # the third, then there is none in its place
    widget.act("remove1", 9)  # two must stay
    assert len(widget.prompts) == 2
    widget.typed("text3", "typed into a prompt that is gone")
    assert len(widget.prompts) == 2 and parts(widget)["error"] == ""
    widget.act("examples", None)
    assert [prompt.text for prompt in widget.prompts] == list(EXAMPLES)


def test_block_size_and_kind_of_token_can_be_chosen() -> None:
    widget = PrefixExplorer(START, START)
    for size in SIZES:
        widget.act("size", float(size))
        assert widget.study.block_size == size
        assert widget.study.chains[1].hits == 7 // size
    widget.act("size", 5.0)  # not on the list
    assert widget.study.block_size == SIZES[-1]
    widget.act("tokens", 1.0)
    assert widget.study.chains[0].num_tokens == len(START)
    assert (
        repr(widget) == "PrefixExplorer(2 prompts, blocks of 16: 16 of 52 tokens found)"
    )


def test_a_block_that_is_chosen_lights_up_wherever_it_is() -> None:
    widget = PrefixExplorer()
    widget.selected = "link:B:1"
    assert "B's block 1 lies in physical block 2, used by A and B (ref count 2)" in say(
        widget
    )
    assert "covers its parent's hash" in say(widget)
    drawn = parts(widget)["picture"]
    assert len(re.findall(r"class='[^']* sel'", drawn)) == 1
    assert len(re.findall(r"class='[^']* lit'", drawn)) == 1
    widget.selected = "link:B:4"
    assert "1 of 4 tokens: not full, so it has no hash" in say(widget)
    widget.selected = "link:Z:9"
    assert say(widget).startswith("B: 2 hits")


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
@pytest.mark.parametrize("tokens", TOKENISERS)
def test_whatever_is_typed_is_shown_safely(text: str, tokens: str) -> None:
    widget = PrefixExplorer(tokens=tokens)
    for field in ("text0", "text1", "salt0"):
        widget.typed(field, text)
        assert parts(widget)["error"] == ""
    kept = widget.prompts[0]
    assert len(kept.text) <= LONGEST and len(kept.salt) <= 40
    for prompt in widget.prompts:
        prompt.text.encode()  # no half of a pair, which no message can carry
    ET.fromstring(parts(widget)["picture"])
    for html in (parts(widget)["tables"], parts(widget)["say"], widget.page()):
        assert "<script" not in html and "<img src=x" not in html
        assert "\u202e" not in html and "\x00" not in html
    told = parts(widget)["count0"]
    assert told.endswith("cut off") == (len(text) > LONGEST)


def test_the_longest_prompts_stay_small_and_every_box_inside() -> None:
    for tokens in TOKENISERS:
        for size in SIZES:
            widget = PrefixExplorer(
                *["ab cd " * 99] * 4, block_size=size, tokens=tokens
            )
            assert len(parts(widget)["picture"]) < 200_000
            assert parts(widget)["tables"].count("<tr>") <= 101
            form = shape(size, tokens)
            assert form.columns * (form.width + 24) - 24 <= ROOM + 0.1
            last = form.cell_spot(size - 1)
            assert last[0] + form.cell <= form.width - 5.9
    assert fitting(4, 6) == [0, 1, 2, 3]
    assert fitting(44, 6) == [0, 1, 2, 3, None, 43]
    drawn = prefix_svg(study([Prompt("ab " * 90)] * 2, 2))
    assert drawn.count("31 more") == 2  # 45 blocks, 15 places: 13 first, one last


def test_the_picture_is_a_pure_function_and_says_what_it_shows() -> None:
    done = study([Prompt(START), Prompt(START, "s")])
    assert (
        prefix_svg(done) == prefix_svg(done) != prefix_svg(study([Prompt(START)] * 2))
    )
    root = ET.fromstring(prefix_svg(done))
    texts = [node.text for node in root.iter(f"{SVG}text")]
    digests = [digest[:4] for chain in done.chains for digest in chain.digests]
    assert len(digests) == 4 and all(digest in texts for digest in digests)
    assert texts.count("hit") == 0 and texts.count("new") == 4
    changed = prefix_svg(done, change=Change("A", ("other", done.chains[0].digests[1])))
    assert changed.count(f"≠ {digests[0]}") == 1 and changed.count("≠") == 1


def test_the_explorer_refuses_what_it_can_t_show() -> None:
    for wrong in ({"block_size": 1}, {"block_size": 17}, {"tokens": "bytes"}):
        arguments: dict[str, Any] = wrong
        with pytest.raises(ValueError, match="2 to 16 tokens, and these are words or"):
            PrefixExplorer(**arguments)
    for texts, salts in ((["a"], []), (["a"] * 5, []), ([], ["s"] * 3)):
        with pytest.raises(ValueError, match="2 to 4 prompts"):
            PrefixExplorer(*texts, salts=salts)


# --- charts and experiments -----------------------------------------------------------


def test_the_charts_show_the_figures_of_the_profiles() -> None:
    rows = {row["workload"]: row for row in hit_rates([("ours", 16, 3, 4)]).records()}
    assert len(rows) == 6 and rows["ours"]["found, %"] == 75
    words = load_profile("gsm8k_8shot").figures["words"][0]
    assert rows["GSM8K, 8 examples (words)"]["tokens found"] == 906_784
    assert words["large"]["hit_tokens"] == 906_784 and words["tokens"] == 975_072
    agents = load_profile("agent_sessions").figures["all_at_once"]
    for run in agents:
        share = 100 * run["hit_tokens"] / 139_336_943
        assert found_in("40 agents at once", run["num_blocks"] * 64) == share
    with pytest.raises(LookupError, match="not measured in a pool of 5 slots"):
        found_in("40 agents at once", 5)
    assert len(hit_rates_by_pool().rows) == 2 + 3 + 5 + 10


def test_more_room_never_finds_less() -> None:
    last: dict[object, float] = {}
    for row in hit_rates_by_pool().records():
        rate = row["found, %"]
        assert isinstance(rate, float) and rate >= last.get(row["workload"], 0.0)
        last[row["workload"]] = rate


def test_the_tutors_prompts_are_found_as_counted() -> None:
    assert len(requests()) == 24 and len(set(in_order(PARTS))) == 24
    assert hit_tokens(in_order(PARTS)) == (0, 4_694)
    best = ["rules", "examples", "pupil", "question", "time"]
    assert hit_tokens(in_order(best)) == (4_064, 4_694)
    assert hit_tokens(["a b c d", "a b c d e", "a b c d e"], 2) == (8, 14)


def test_the_exercise_judges_as_the_manager_does() -> None:
    """Its names are not the manager's, but they find the same tokens."""
    rng = random.Random(0)
    for _ in range(200):
        served = [lesson07._prompt(rng) for _ in range(rng.randint(1, 3))]
        tokens = [*rng.choice(served), *lesson07._prompt(rng)][: rng.randint(1, 16)]
        size = rng.choice([1, 2, 4])
        cached, *rest = lesson07._lookup_case(served, tokens, size)
        assert lesson07.longest_hit.reference(cached, *rest) == lesson07.found(
            served, tokens, size
        )


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (([1, 2, 3, 4, 5, 6, 7, 8], [5, 6, 7, 8]), "finds nothing"),
        (([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]), "both find 1 of its blocks"),
        (([1, 2, 3, 4], []), "1 to 100 tokens"),
        (([1, 2, 3, -4], [1]), "1 to 100 tokens"),
        (([1, 2, 3, True], [1]), "1 to 100 tokens"),
        (([1, 2], [1] * 101), "1 to 100 tokens"),
        (7, "two prompts"),
        (([1, 2, 3, 4] * 2, [1, 2, 3, 4] * 2 + [1]), "both find 2"),
    ],
    ids=range(8),
)
def test_prompts_that_break_nothing_are_told_why(case: object, says: str) -> None:
    assert says in (lesson07._judge_unchained(case) or "right")


def test_prompts_that_break_an_unchained_cache_are_right() -> None:
    swapped = ([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 1, 2, 3, 4, 9])
    assert lesson07._judge_unchained(swapped) is None


def test_an_order_below_the_target_is_told_its_rate() -> None:
    assert lesson07._judge_order([]) == (
        "Give the five parts in an order: time, pupil, rules, examples, question."
    )
    assert "must stand there once" in (lesson07._judge_order(["time"] * 5) or "")
    assert "must stand there once" in (lesson07._judge_order([[]] * 5) or "")
    assert "0 of 4,694 tokens: 0.0 %" in (lesson07._judge_order(PARTS) or "")
    best = ["rules", "examples", "pupil", "question", "time"]
    assert lesson07._judge_order(best) is None


def test_a_salt_and_a_compared_content_keep_prompts_apart() -> None:
    """The two dangers of lesson 07, on the manager itself."""
    manager = BlockManager(32, 4)
    manager.allocate("victim", range(9), cache_salt="A")
    for salt in (None, "", "B"):
        assert manager.get_computed_blocks(range(9), cache_salt=salt) == ()
    assert len(manager.get_computed_blocks(range(9), cache_salt="A")) == 2
    weak = BlockManager(16, 4, hash_fn=lambda content: bytes([sum(content) % 256]))
    weak.allocate("one", [1, 2, 3, 4, 5])
    assert weak.get_computed_blocks([4, 3, 2, 1, 5]) == ()
    weak.pool.cache.compare_content = False
    assert weak.get_computed_blocks([4, 3, 2, 1, 5]) == weak.block_table("one")[:1]
