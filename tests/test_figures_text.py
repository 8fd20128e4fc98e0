"""What stands beside a picture: sentences, tables, the audit panel, the page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given, settings

from blockmgr import BlockManager
from figures import describe
from figures.captions import summary
from figures.page import page
from figures.panel import audit_panel
from figures.scene import scene
from figures.text import state_tables
from tests.drawing import NASTY, busy, draw, log_of, managers, svg_of

# --- text beside the picture --------------------------------------------------------


def test_the_tables_hold_the_whole_state() -> None:
    m = busy()
    s = m.snapshot()
    html = state_tables(s, {1: NASTY})
    assert "<script" not in html
    body = ElementTree.fromstring(f"<x>{html}</x>")
    sequences, blocks = body.findall("table")
    rows = [["".join(c.itertext()) for c in r] for r in blocks.findall("tbody/tr")]
    assert [row[0] for row in rows] == [str(b) for b in range(12)]
    assert [row[2] for row in rows] == [str(count) for count in s.ref_cnt]
    assert [row[5] for row in rows] == [(h or "")[:4] for h in s.block_hash]
    names = ["".join(r[0].itertext()) for r in sequences.findall("tbody/tr")]
    assert names == list(s.sequences)
    queue = "".join(body.findall("p")[-1].itertext())
    assert re.findall(r"\d+", queue) == [str(b) for b in s.free_queue]


def test_a_page_holds_the_picture_safely() -> None:
    m = busy()
    svg = draw(m)
    html = page(svg, m.snapshot(), sentence=NASTY)
    assert svg_of(html) == svg
    assert html.count("<img") == 1
    assert "<svg" not in html
    assert "<script" not in html
    img = next(ElementTree.fromstring(f"<x>{html}</x>").iter("img"))
    assert summary(scene(m.snapshot())) in (img.get("alt") or "")


def test_the_audit_panel_is_green_or_names_what_broke() -> None:
    m = busy()
    good = audit_panel(m.snapshot())
    assert "every invariant holds" in good
    assert "11 usable = 6 in use + 5 free (1 of them cached)" in good
    assert "waste: 2 of 24 slots" in good
    s = m.snapshot()
    bad = audit_panel(s._replace(ref_cnt=(0, 5, *s.ref_cnt[2:])))
    assert "every invariant holds" not in bad
    assert "ref counts = table entries" in bad
    assert "block 1 counts 5 users" in bad


# --- sentences ----------------------------------------------------------------------


def story(m: BlockManager, labels: dict[int, str] | None = None) -> list[str]:
    log = log_of(m)
    states = log.snapshots()
    pairs = zip(log.events, states, strict=False)
    return [describe(event, before, labels) for event, before in pairs]


def hash_digits(m: BlockManager, step: int, block: int) -> str:
    key = log_of(m).snapshots()[step].block_hash[block]
    assert key
    return key[:4]


def test_every_operation_has_its_sentence() -> None:
    m = busy()
    told = story(m, {11: "and"})
    one, three = hash_digits(m, 1, 1), hash_digits(m, 2, 3)
    assert told[0] == (
        "A arrived with 6 tokens: nothing of it was cached, so blocks 1 and 2 were "
        "taken from the head of the queue. Block 1 is full now and is cached under "
        f"hash {one}."
    )
    assert told[1] == (
        "B arrived: the first 4 tokens were found in block 1, which is shared now; for "
        "4 tokens more, block 3 was taken from the head of the queue. Block 3 is full "
        f"now and is cached under hash {three}."
    )
    assert told[2] == (
        "B got token “and”: the last block was full, so block 4 was taken from the "
        "head of the queue."
    )
    assert told[3] == "B got token 12: there was still room in the last block, 4."
    assert told[5] == (
        "A has finished. Block 2 had no hash and went to the head of the queue; block "
        "1 stayed, because B still uses it."
    )
    assert told[7] == (
        "E asked to come in, but 8 free blocks are needed and only 4 are free: LATER. "
        "Nothing has changed."
    )
    assert told[8] == (
        "B is preempted and has to wait; the tokens will be computed again. Block 4 "
        "had no hash and went to the head of the queue; block 3 kept its contents and "
        "went to the tail; block 1 stayed, because D still uses it."
    )
    assert told[9].startswith(
        "B is back: the first 8 tokens were found in blocks 1 and 3, which are shared "
        "now (block 3 came out of the queue); for 2 tokens more, block 4 was taken"
    )
    assert told[10] == (
        "C has finished. Block 5 kept its contents and went to the tail."
    )


def test_a_token_that_finds_no_room_waits() -> None:
    m = BlockManager(4, 2, record=True)
    m.allocate("a", [1, 2])
    m.allocate("b", [3, 4, 5, 6])
    m.append("a", [7])
    m.free("b")
    m.allocate_slots("a", 1)
    told = story(m)
    assert told[2] == (
        "a got token 7, but 1 free block is needed and none is free: LATER. No block "
        "has changed; the token is kept without a slot until there is room."
    )
    assert told[4].startswith("a got slots for 1 more token: the last block was full")


def test_a_forgotten_hash_is_told() -> None:
    m = BlockManager(3, 2, record=True)
    m.allocate("a", [1, 2, 3, 4])
    m.free("a")
    m.allocate("b", [9, 9, 9])
    m.free("b")
    m.allocate("c", [5])
    lost = hash_digits(m, 1, 2), hash_digits(m, 1, 1)
    told = story(m)
    assert told[1].endswith(
        "Blocks 2 and 1 kept their contents and went to the tail, last block first."
    )
    assert (
        "blocks 2 and 1 were taken from the head of the queue; cached contents are "
        f"forgotten for it: 2 ({lost[0]}), 1 ({lost[1]})." in told[2]
    )
    m.free("c")
    m.allocate("d", [5, 6, 7])
    again = hash_digits(m, 5, 2)
    assert f"2 ({again})" in story(m)[6]


def test_one_forgotten_hash_is_told_in_full() -> None:
    m = BlockManager(3, 2, record=True)
    m.allocate("a", [1, 2])
    m.free("a")
    m.allocate("b", [3, 4])
    m.append("b", [5])
    assert story(m)[3] == (
        "b got token 5: the last block was full, so block 1 was taken from the head of "
        "the queue (it still held a cached block's contents: hash "
        f"{hash_digits(m, 1, 1)} is now forgotten)."
    )


def test_waiting_refusing_chunks_reset_and_evict_have_sentences() -> None:
    m = BlockManager(5, 2, record=True)
    m.allocate("a", range(7), num_tokens=3)
    m.allocate_slots("a", 3)
    m.append("a", [8, 9])
    m.allocate("b", range(100))
    m.reset_prefix_cache()
    m.append("a", [1])
    m.append("a", [1, 1])
    m.free("a")
    m.evict_blocks([1])
    m.evict_blocks([1])
    m.reset_prefix_cache()
    told = story(m)
    digits = hash_digits(m, 1, 1)
    assert told[1] == (
        "a got slots for 3 more tokens: 1 fitted into block 2, and for the rest "
        "block 3 was taken from the head of the queue. Blocks 2 and 3 are full now and "
        "are cached."
    )
    assert told[3] == (
        "b asked to come in, but could not fit even alone into the pool of 4 blocks: "
        "NEVER. Nothing has changed."
    )
    assert told[4] == (
        "The prefix cache can't be reset while 3 blocks are in use. "
        "Nothing has changed."
    )
    assert told[6] == (
        "a got 6 tokens, but the pool of 4 blocks is too small for all tokens so far: "
        "NEVER. No block has changed; the tokens are kept without a slot."
    )
    assert told[8] == (
        f"The cache forgot block 1 (hash {digits}); its users and its place in the "
        "queue stay."
    )
    assert told[9] == (
        "The cache was told to forget blocks, but none of them had a hash."
    )
    assert told[10] == (
        "The prefix cache was reset: 2 hashes forgotten, the queue stays as it is."
    )


@given(managers())
@settings(max_examples=30, deadline=None)
def test_there_is_always_a_sentence_with_the_name_in_it(m: BlockManager) -> None:
    for event, told in zip(log_of(m).events, story(m), strict=True):
        assert told.endswith(".")
        assert "  " not in told
        assert (event.seq_id or "") in told or len(event.seq_id or "") > 40
