"""The HTML around a beam tree: controls, what happened, and the text alternative."""

from __future__ import annotations

from collections.abc import Sequence

from blockmgr.events import Event
from figures.beams.rules import LONGEST_WORD, Move
from figures.beams.search import Search
from figures.beams.svg import text_of
from figures.sentences import describe
from figures.tables import html_table
from figures.text import state_tables
from figures.words import esc, isolate, listed, plural

WIDEST = 4
"""The largest beam width: with a fork or two by hand, six beams are still few."""

SUMMARY = "The same beams and blocks as tables"

CONTROLS = (
    "<div class='bar' role='group' aria-label='search'>"
    "<button type='button' class='main' data-act='step'>Step</button>"
    "<label>beam width <input type='range' data-act='width' min='1' "
    f"max='{WIDEST}' step='1' value='3' style='flex:0 1 110px;min-width:80px'></label>"
    "<span class='count' data-part='count' style='min-width:5.5em'></span>"
    "<button type='button' data-act='undo'>Undo</button>"
    "<button type='button' data-act='reset'>Reset</button></div>"
    "<div class='bar' role='group' aria-label='one beam'>"
    "<label>beam <select data-act='beam'></select></label>"
    "<button type='button' data-act='fork'>Fork it</button>"
    "<button type='button' data-act='prune'>Prune it</button>"
    "<input type='text' data-act='word' data-enter='give' aria-label='next word' "
    f"placeholder='next word' maxlength='{2 * LONGEST_WORD}' size='14' value=''>"
    "<button type='button' data-act='give'>Give it the word</button></div>"
)
"""What the reader works it with."""

GAUGE = "<p data-part='gauge' style='margin:4px 0'></p>"

STORY = (
    "<details><summary>Every event of this move</summary>"
    "<div data-part='story'></div></details>"
)

FILLER = (
    "Kept the best 4 of 12: A goes on with “robot”; B, a fork of A, with “robot”; C, a "
    "fork of A, with “robot”; D, a fork of A, with “robot”. Pruned: E, F and G. Copied "
    "before writing: block 10 to 11, 10 to 12, 10 to 13 and 10 to 14. "
)
"""As long as what a move says can be: room is kept for it, so that nothing jumps."""


def sentence(search: Search) -> str:
    """What the latest move did, in plain words."""
    if not search.moves:
        held = plural(len(search.prompt), "token")
        return (
            f"One beam, A, holds the prompt: {held}. Step lets the model write; it "
            "keeps the best beams, forks the winners and prunes the losers."
        )
    move, events = search.moves[-1], search.events
    if move.op != "step":
        return describe(events[-1], search.before, search.words.labels)
    return _of_step(search, move, events)


def _of_step(search: Search, move: Move, events: Sequence[Event]) -> str:
    seen: set[str] = set()
    parts = []
    for name, one in search.kept.items():
        forked = f", a fork of {one.parent}," if one.parent in seen else " goes on"
        seen.add(one.parent)
        parts.append(f"{name}{forked} with “{isolate(one.word)}”")
    lost = [str(event.seq_id) for event in events if event.op == "free"]
    pruned = f" Pruned: {listed(lost)}." if lost else ""
    best = f"Kept the best {move.width}" if move.width > 1 else "Kept the best"
    return f"{best}: {'; '.join(parts)}.{pruned}{_copied(events)}"


def _copied(events: Sequence[Event]) -> str:
    copies = [f"{old} to {new}" for event in events for old, new in event.copies]
    if not copies:
        return " No block was copied."
    return f" Copied before writing: block {listed(copies)}."


def gauge(search: Search) -> str:
    """How many blocks are in use, how many it would be without sharing, and copies."""
    used, alone = search.state.num_used, search.blocks_alone
    saved = f", saved {100 * (alone - used) / alone:.0f} %"
    return (
        f"blocks in use <b>{used}</b> · without sharing <b>{alone}</b>{saved} · "
        f"copied so far <b>{search.copies}</b>"
    )


def story(search: Search) -> str:
    """Each event of the latest move as a sentence."""
    state, items = search.before, []
    for event in search.events:
        items.append(f"<li>{esc(describe(event, state, search.words.labels))}</li>")
        state = state.after(event)
    return f"<ol>{''.join(items)}</ol>"


def tables(search: Search) -> str:
    """The beams, then the whole state."""
    caption = (
        f"Living beams, after the prompt “{esc(isolate(' '.join(search.prompt), 200))}”"
    )
    head = ("beam", "score", "words", "block table")
    beams = html_table(caption, head, (_beam_row(search, n) for n in search.beams))
    return beams + state_tables(search.state, search.words.labels)


def _beam_row(search: Search, name: str) -> tuple[str, ...]:
    counts, table = search.state.ref_cnt, search.manager.block_table(name)
    return (
        name,
        f"{search.beams[name].score:.2f}",
        f"<bdi>{esc(isolate(text_of(search, name), 200))}</bdi>",
        ", ".join(f"block {b} (ref count {counts[b]})" for b in table),
    )
