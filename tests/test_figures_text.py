"""What stands beside a picture: sentences, tables, the audit panel, the page."""

from __future__ import annotations

import random
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import BlockManager, Event, Snapshot
from blockmgr.events import OnHost, Released, Taken, Touched
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.v0 import RingWindow
from figures import Plan, Player, block_map, describe
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


# --- fork, copy-on-write, swap, windows, hybrid models ------------------------------


def test_a_fork_and_the_copy_that_follows_are_told() -> None:
    m = BlockManager(9, 2, record=True)
    m.allocate("a", [1, 2, 3])
    m.fork("a", "b")
    m.append("a", [4])
    m.fork("b", "c")
    m.fork("b", "d")
    m.append("b", [7, 8, 9])
    told = story(m)
    key = hash_digits(m, 3, 3)
    assert told[1] == (
        "b is a fork of a: it shares 2 blocks, 1 and 2, and nothing was copied."
    )
    assert told[2] == (
        "a got token 4: block 2 is shared with b, so a gets a copy in block 3, which "
        "was taken from the head of the queue. Block 3 is full now and is cached under "
        f"hash {key}."
    )
    assert told[4] == (
        "d is a fork of b or c (they hold the same blocks): it shares 2 blocks, 1 and "
        "2, and nothing was copied."
    )
    assert told[5] == (
        "b got 3 tokens: block 2 is shared with c and d, so b gets a copy in block 4, "
        "which was taken from the head of the queue; 1 fitted into it, and for the "
        "rest block 5 was taken from the head of the queue. Blocks 4 and 5 are full "
        "now and are cached."
    )


def test_who_only_begins_alike_is_no_parent() -> None:
    m = BlockManager(9, 2, record=True)
    m.allocate("a", [1, 2, 3, 4])
    m.allocate("longer", [1, 2, 3, 4, 5])
    m.fork("a", "b")
    assert story(m)[2].startswith("b is a fork of a: it shares 2 blocks, 1 and 2, and")


def test_what_a_copy_makes_forgotten_is_told_with_the_copy() -> None:
    m = BlockManager(4, 2, record=True)
    m.allocate("a", [1, 2])
    m.allocate("b", [3, 4, 5])
    m.free("a")
    m.fork("b", "c")
    m.append("c", [6])
    assert story(m)[4].startswith(
        "c got token 6: block 3 is shared with b, so c gets a copy in block 1, which "
        "was taken from the head of the queue (it still held a cached block's contents:"
        f" hash {hash_digits(m, 1, 1)} is now forgotten)."
    )


def swapped() -> BlockManager:
    """Two that share a block, on their way to the host and back."""
    m = BlockManager(8, 2, num_host_blocks=4, record=True)
    m.allocate("a", [1, 2, 3])
    m.allocate("b", [1, 2, 3, 4, 5])
    m.fork("b", "c")
    m.swap_out(["a", "b"])
    m.swap_out(["c"])
    m.free("c")
    return m


def test_swapping_is_told() -> None:
    m = swapped()
    m.swap_in(["a", "b"])
    m.swap_out(["a"])
    m.allocate("d", range(20, 28))
    m.swap_in(["a"])
    m.free("a")
    m.free("b")
    told = story(m)
    assert told[3] == (
        "a and b are swapped out: blocks 1, 2, 3 and 4 were copied to host blocks 1, "
        "2, 3 and 4 (block 1, which they share, only once). Block 2 had no hash and "
        "went to the head of the queue; blocks 1, 4 and 3 stayed, because c still uses "
        "them."
    )
    assert told[4] == (
        "c was to be swapped out, but 3 free blocks are needed on the host and none is "
        "free: LATER. Nothing has changed."
    )
    assert told[6].startswith(
        "a and b are back from the host: host blocks 1, 2, 3 and 4 were copied to "
        "blocks 4, 2, 5 and 6 (host block 1, which they share, only once), which were "
        "taken from the head of the queue. Blocks 4 and 5 are full and cached again. "
        "Host blocks 4, 3, 1 and 2 had no hash and went to the head of the host's "
        "queue."
    )
    assert told[7].endswith("block 4 stayed, because b still uses it.")
    assert told[9] == (
        "a asked to come from the host, but 3 free blocks are needed and none is free: "
        "LATER. Nothing has changed."
    )
    assert told[10] == (
        "a has finished. Host blocks 3 and 4 had no hash and went to the head of the "
        "host's queue."
    )


def test_a_swap_that_can_never_be_is_told() -> None:
    m = BlockManager(8, 2, num_host_blocks=2, record=True)
    m.allocate("a", range(5))
    m.swap_out(["a"])
    assert story(m)[1] == (
        "a was to be swapped out, but 3 blocks are needed on the host, which has 2 "
        "blocks in all: NEVER. Nothing has changed."
    )


def windowed() -> BlockManager:
    m = BlockManager(5, 2, groups=(SlidingWindow(2),), record=True)
    m.allocate("a", [1, 2, 3, 4])
    m.append("a", [5])
    return m


def test_what_falls_out_of_the_window_is_told() -> None:
    m = windowed()
    m.fork("a", "b")
    m.append("a", [6, 7])
    m.append("a", [8, 9])
    m.free("a")
    m.allocate("c", [1, 2, 3, 4, 0, 0])
    told = story(m)
    assert told[1] == (
        "a got token 5: block 1 fell out of the window, kept its contents and went to "
        "the tail; the last block was full, so block 3 was taken from the head of the "
        "queue."
    )
    assert told[2] == (
        "b is a fork of a: it shares 2 blocks, 2 and 3, and nothing was copied."
    )
    assert told[3].startswith(
        "a got 2 tokens: block 2 fell out of the window and stayed, because b still "
        "uses it; block 3 is shared with b, so a gets a copy in block 4, which was "
        "taken from the head of the queue; 1 fitted into it, and for the rest block 1 "
        "was taken"
    )
    assert told[6] == (
        "c arrived: the first 4 tokens need not be computed: what is still seen of "
        "them was found in block 2, which is shared now; for 2 tokens more, block 4 "
        "was taken from the head of the queue. Block 4 is full now and is cached under "
        f"hash {hash_digits(m, 7, 4)}."
    )


def test_a_refused_call_lets_go_all_the_same_and_says_so() -> None:
    m = BlockManager(4, 2, groups=(SlidingWindow(2),), record=True)
    m.allocate("a", [1, 2, 3, 4])
    m.allocate("b", [5])
    m.append("a", [6, 7, 8, 9])
    m.allocate_slots("a", 4)
    m.append("b", [5] * 30)
    told = story(m)
    assert told[2] == (
        "a got 4 tokens: block 1 fell out of the window, kept its contents and went to "
        "the tail; still, 2 free blocks are needed and only 1 is free: LATER. No other "
        "block has changed; the tokens are kept without a slot until there is room."
    )
    assert told[3] == (
        "a asked for slots for 4 more tokens, but 2 free blocks are needed and only 1 "
        "is free: LATER. Nothing has changed."
    )
    assert told[4].endswith(
        "NEVER. No block has changed; the tokens are kept without a slot."
    )
    retried = BlockManager(4, 2, groups=(SlidingWindow(2),), record=True)
    retried.allocate("a", [1, 2, 3, 4])
    retried.allocate("b", [5])
    retried.add_tokens("a", [6] * 20)
    retried.allocate_slots("a", 4)
    retried.allocate_slots("a", 20)
    retried.preempt("a")
    retried.allocate("c", [7])
    told = story(retried)
    assert told[2] == (
        "a asked for slots for 4 more tokens: block 1 fell out of the window, kept its "
        "contents and went to the tail; still, 2 free blocks are needed and only 1 is "
        "free: LATER. Nothing else has changed."
    )
    assert told[3].endswith("pool of 3 blocks: NEVER. Nothing has changed.")


def hybrid() -> BlockManager:
    groups = FullAttention(), SlidingWindow(3)
    m = BlockManager(14, 2, groups=groups, num_host_blocks=8, record=True)
    m.allocate("a", [1, 2, 3])
    m.append("a", [4])
    m.append("a", [5])
    m.allocate("b", [1, 2, 3, 4, 6])
    return m


def test_a_hybrid_model_is_told() -> None:
    m = hybrid()
    m.fork("b", "c")
    m.append("c", [7])
    m.free("b")
    told = story(m)
    assert told[0] == (
        "a arrived with 3 tokens: nothing of it was cached, so blocks 1, 2, 3 and 4 "
        "were taken from the head of the queue (1 and 2 for the layers with full "
        "attention, 3 and 4 for those with a window). Blocks 1 and 3 are full now and "
        "are cached."
    )
    assert told[1].startswith(
        "a got token 4: there was still room in the last blocks, 2 and 4. Blocks"
    )
    assert told[2] == (
        "a got token 5: block 3 fell out of the window, kept its contents and went to "
        "the tail; the last blocks were full, so blocks 5 and 6 were taken from the "
        "head of the queue (5 for the layers with full attention, 6 for those with a "
        "window)."
    )
    assert told[3].startswith(
        "b arrived: the first 4 tokens need not be computed: what is still seen of "
        "them was found in blocks 1, 2 and 4, which are shared now; for 1 token more, "
        "blocks 7 and 8 were taken"
    )
    assert "it shares 5 blocks, 1, 2, 7, 4 and 8, and" in told[4]
    assert (
        "blocks 7 and 8 are shared with b, so c gets copies in blocks 9 and 10, which "
        "were taken" in told[5]
    )
    assert told[6] == (
        "b has finished. Blocks 8 and 7 had no hash and went to the head of the queue; "
        "blocks 2, 1 and 4 stayed, because a and c still use them."
    )
    m.free("c")
    m.preempt("a")
    assert story(m)[8].endswith(
        "blocks 2, 1 and 4 kept their contents and went to the tail, last block of "
        "each table first."
    )


def test_a_ring_and_an_empty_request_are_told() -> None:
    m = BlockManager(6, 2, groups=(RingWindow(4),), enable_caching=False, record=True)
    m.allocate("a", [1, 2, 3, 4])
    m.append("a", [5])
    m.allocate_slots("a")
    told = story(m)
    assert told[1] == "a got token 5: the oldest ones were overwritten, in block 1."
    assert told[2] == "a got slots for 0 more tokens: every token has one already."


def rows_of(html: str) -> list[list[list[str]]]:
    """The cells of each table on a page."""
    tables = ElementTree.fromstring(f"<x>{html}</x>").findall("table")
    return [
        [["".join(cell.itertext()) for cell in row] for row in t.findall("tbody/tr")]
        for t in tables
    ]


def test_the_tables_show_the_host_too() -> None:
    m = swapped()
    s = m.snapshot()
    here, pool, there, host = rows_of(state_tables(s))
    assert here == []
    assert {row[1] for row in pool[1:]} == {"free", "free, cached"}
    assert [row[:4] for row in there] == [
        ["a", "swapped", "3", "0 → 1, 1 → 2"],
        ["b", "swapped", "5", "0 → 1, 1 → 3, 2 → 4"],
    ]
    assert [row[1:5] for row in host] == [
        ["null", "0", "", ""],
        ["shared", "2", "a and b", "2 of 2"],
        ["in use", "1", "a", "1 of 2"],
        ["in use", "1", "b", "2 of 2"],
        ["in use", "1", "b", "1 of 2"],
    ]
    assert "<b>Free queue of the host</b>, head to tail: empty" in state_tables(s)
    assert summary(scene(s)).endswith(
        "0 sequences. 2 sequences on the host. a: host blocks 1, 2; "
        "b: host blocks 1, 3, 4"
    )


def test_the_tables_name_what_fell_out_and_both_tables_of_a_hybrid() -> None:
    s = windowed().snapshot()
    assert rows_of(state_tables(s))[0][0][3] == "0 → null, 1 → 2, 2 → 3"
    assert summary(scene(s)).endswith("a: blocks null, 2, 3")
    s = hybrid().snapshot()
    sequences, blocks, *_ = rows_of(state_tables(s))
    assert sequences[0][3] == (
        "0 → 1, 1 → 2, 2 → 5; layers with a window: 0 → null, 1 → 4, 2 → 6"
    )
    assert summary(scene(s)).endswith(
        "b: blocks 1, 2, 7 and, with a window, null, 4, 8"
    )
    assert [row[3] for row in blocks[1:9]] == [
        *("a and b", "a and b", "", "a and b"),
        *("a", "a", "b", "b"),
    ]


# --- random runs of every kind ------------------------------------------------------

KINDS = ("full", "window", "hybrid", "ring")


class Run:
    """A small manager with a random history of every operation there is."""

    def __init__(self, kind: str, rng: random.Random) -> None:
        self.rng, self.count = rng, 0
        window = rng.choice([2, 3, 5, 8])
        self.manager = BlockManager(
            rng.choice([3, 6, 9, 13]),  # of more than 12 blocks, not all are named
            rng.choice([1, 2, 3, 4]),
            num_host_blocks=rng.choice([0, 1, 3, 8]),
            groups={
                "full": (FullAttention(),),
                "window": (SlidingWindow(window),),
                "hybrid": (FullAttention(), SlidingWindow(window)),
                "ring": (RingWindow(window),),
            }[kind],
            enable_caching=kind != "ring" and rng.random() < 0.8,
            watermark=rng.choice([0.0, 0.1]),
            record=True,
        )

    def names(self, *statuses: str) -> list[str]:
        sequences = self.manager.sequences.values()
        return [s.seq_id for s in sequences if s.status.value in statuses]

    def some(self, *statuses: str) -> list[str]:
        names = self.names(*statuses)
        return self.rng.sample(names, self.rng.randint(1, min(2, len(names))))

    def step(self) -> None:
        m, rng = self.manager, self.rng
        self.count += 1
        running, waiting = self.names("running"), self.names("preempted")
        does = ["allocate", "allocate", rng.choice(["reset", "evict"])]
        does += ["append", "append", "append", "add", "fork"] if running else []
        does += ["slots", "preempt", "free"] if running else []
        does += ["swap_out", "swap_out"] if running and m.host else []
        does += ["resume"] if waiting else []
        does += ["swap_in", "swap_in", "drop"] if self.names("swapped") else []
        some = [rng.randrange(3) for _ in range(rng.randint(1, 3 * m.block_size))]
        ahead = rng.choice([0, 0, 0, 1, 4])
        match rng.choice(does):
            case "allocate":
                most = rng.choice([None, None, 2])
                m.allocate(f"r{self.count}", some, num_tokens=most, num_lookahead=ahead)
            case "append":
                m.append(rng.choice(running), some[: rng.choice([1, 9])])
            case "add":
                m.add_tokens(rng.choice(running), some)
            case "slots":
                m.allocate_slots(rng.choice(running), num_lookahead=ahead)
            case "fork":
                m.fork(rng.choice(running), f"f{self.count}")
            case "preempt":
                m.preempt(rng.choice(running))
            case "resume":
                m.resume(rng.choice(waiting))
            case "free":
                m.free(rng.choice(self.names("running", "preempted", "swapped")))
            case "drop":
                m.free(rng.choice(self.names("swapped")))
            case "swap_out":
                m.swap_out(self.some("running"))
            case "swap_in":
                m.swap_in(self.some("swapped"))
            case "reset":
                m.reset_prefix_cache()
            case "evict":
                m.evict_blocks([rng.randrange(1, m.pool.num_usable_blocks + 1)])


def moved_blocks(event: Event) -> set[int]:
    """Every block that this event is about, on either side."""
    found: set[int] = {b for pair in event.copies for b in pair}
    for change in event.changes:
        inner = change.change if isinstance(change, OnHost) else change
        if isinstance(inner, Taken | Touched | Released):
            found |= set(inner.block_ids)
    return found


def check_tables(s: Snapshot) -> None:
    """The blocks as the tables show them are the blocks as the state has them."""
    tables = rows_of(state_tables(s))
    sides = [s, s.host_side()] if s.host_side() else [s]
    assert len(tables) == 2 * len(sides)
    for side, sequences, blocks in zip(sides, tables[::2], tables[1::2], strict=True):
        assert side is not None
        assert [row[0] for row in sequences] == list(side.sequences)
        for b, row in enumerate(blocks):
            if b == 0 or not side.ref_cnt[b]:
                assert row[1].startswith("free" if b else "null")
                assert row[3:5] == ["", ""]
            else:
                assert row[1] == ("in use" if side.ref_cnt[b] == 1 else "shared")
                assert row[2] == str(side.ref_cnt[b])
                assert re.split(", | and ", row[3]) == list(side.owners(b))
                assert row[4] == f"{side.filled(b)} of {s.block_size}"


@pytest.mark.parametrize("kind", KINDS)
@given(rng=st.integers(0, 2**32).map(random.Random))
@settings(max_examples=25, deadline=None)
def test_every_step_of_every_kind_of_run_is_told_and_drawn(
    kind: str, rng: random.Random
) -> None:
    run = Run(kind, rng)
    for _ in range(rng.randint(1, 40)):
        run.step()
    log = log_of(run.manager)
    plan, states = Plan.of(log), log.snapshots()
    for event, before, after in zip(log, states, states[1:], strict=False):
        told = describe(event, before)
        assert re.fullmatch(r"[^ ]+( [^ ]+)*\.", told), told
        assert not re.search(r" [,.;:)]|nobody|\( |\(\)|\.\.", told), told
        assert (event.seq_id or "") in told
        assert str(event.status) in told or event.status == "OK" or event.op == "reset"
        said = set(map(int, re.findall(r"\b\d+\b", told)))
        assert moved_blocks(event) <= said, told
        assert (
            "copied to" in told or " gets cop" in told or " gets a copy" in told
        ) == (bool(event.copies))
        svg = block_map(after, event=event, before=before, plan=plan)
        assert "nobody known" not in svg
        check_tables(after)


@pytest.mark.parametrize("kind", KINDS)
def test_the_player_walks_through_every_kind_of_run(kind: str) -> None:
    rng = random.Random(7)
    run = Run(kind, rng)
    while len(log_of(run.manager)) < 60:
        run.step()
    player = Player(run.manager)
    for _ in range(len(player.film)):
        frame = player.film.frame(player.step)
        assert "every invariant holds" in player.frame["parts"]["audit"]
        assert frame.sentence.split()[0] in player.frame["parts"]["say"]
        player.act("forward", None)
    assert player.step == len(player.film) - 1
    assert player.page().count("<li") == len(player.film)
