"""The HTML around a picture of chains: fields to type into, its table, its page."""

from __future__ import annotations

from collections.abc import Iterator

from figures import page as stills
from figures.prefixes.box import WORDS
from figures.prefixes.chains import NAMES, Change, Study, fresh
from figures.prefixes.story import covered, sentence
from figures.tables import html_table
from figures.text import MOST_ROWS
from figures.theme import owner_rules
from figures.words import esc, isolate

SUMMARY = "The same blocks as a table"
SIZES = (2, 3, 4, 6, 8, 12, 16)
LONGEST, LONGEST_SALT = 400, 40  # characters

STYLE = (
    ".kvstage .kvprompts{display:grid;gap:10px;margin:6px 0;"
    "grid-template-columns:repeat(auto-fit,minmax(300px,1fr))}"
    ".kvstage .kvprompt{border:1px solid var(--kv-line);border-radius:8px;"
    "padding:8px 10px}"
    ".kvstage .kvprompt[hidden]{display:none}"
    ".kvstage .kvprompt .bar{margin:0 0 6px;min-height:34px}"
    ".kvstage .kvprompt b{border-radius:5px;padding:1px 9px;background:var(--fill);"
    "color:var(--on)}"
    ".kvstage .kvprompt textarea{width:100%;height:auto;display:block}"
    ".kvstage .kvprompt .count{flex:1 1 auto;min-width:0;color:var(--kv-muted)}"
    ".kvstage .kvprompt input[type=text]{width:9em}"
    # Three lines: while one types, nothing below the sentence jumps.
    ".kvstage:has(.kvprompts)>[data-part=say]{min-height:4.35em}"
) + owner_rules(range(len(NAMES))).replace(".kvfig", ".kvstage .kvprompt")
"""What the widget needs beyond the style sheet of every stage."""


def controls() -> str:
    """The bar, and a card to type into for each prompt that there can be."""
    sizes = "".join(f"<option value='{size}'>{size}</option>" for size in SIZES)
    cards = "".join(map(_card, range(len(NAMES))))
    return (
        f"<div class='kvprompts'>{cards}</div>"
        "<div class='bar' role='group' aria-label='how to cut the prompts'>"
        f"<label>block size <select data-act='size'>{sizes}</select></label>"
        "<label>a token is a <select data-act='tokens'>"
        "<option value='0'>word</option><option value='1'>character</option></select>"
        "</label><button type='button' data-act='add'>add a prompt</button>"
        "<button type='button' data-act='examples'>back to the start</button></div>"
    )


def _card(i: int) -> str:
    name = NAMES[i]
    return (
        f"<div class='kvprompt' data-act='card{i}'><div class='bar'>"
        f"<b class='o{i}'>{name}</b><span class='count' data-part='count{i}'></span>"
        f"<label>salt <input type='text' data-act='salt{i}' autocomplete='off' "
        f"spellcheck='false' dir='auto' maxlength='{LONGEST_SALT}' "
        f"aria-label='salt of {name}'></label>"
        f"<button type='button' data-act='remove{i}' "
        f"aria-label='remove prompt {name}' title='remove prompt {name}'>✕</button>"
        f"</div><textarea data-act='text{i}' rows='3' dir='auto' spellcheck='false' "
        f"aria-label='prompt {name}'></textarea></div>"
    )


def count_text(length: int, cut: bool) -> str:
    """How much of the room of a field is used; and that the rest was cut."""
    told = f"{length} of {LONGEST} characters"
    return f"{told}; the rest was cut off" if cut else told


def table(study: Study, change: Change | None = None) -> str:
    """Every block: where it lies, what is in it, what its hash is made of."""
    rows = list(_rows(study, change))
    head = ("block", "physical", "ref count", "tokens", "hash", "made from", "fate")
    caption = f"Blocks of {study.block_size} tokens"
    return html_table(caption, head, rows[:MOST_ROWS], count=len(rows))


def _rows(study: Study, change: Change | None) -> Iterator[tuple[str, ...]]:
    for chain in study.chains:
        new = fresh(chain, change)
        for link in chain.links:
            words = " ".join(isolate(text, 24) for text in link.texts)
            digest = link.digest[:8] if link.digest else "none: not full"
            yield (
                f"{chain.name} {link.logical}",
                str(link.block_id),
                str(link.refs),
                f"<bdi>{esc(words)}</bdi>",
                f"{digest} (new)" if link.logical in new else digest,
                f"<bdi>{esc(covered(chain, link))}</bdi>" if link.digest else "",
                WORDS[link.fate] or "waits until it is full",
            )


def page(study: Study, svg: str) -> str:
    """Sentence, picture and table for a page without a kernel."""
    details = f"<details><summary>{SUMMARY}</summary>{table(study)}</details>"
    return stills.page(
        svg, study.snapshot, sentence=sentence(study), tables=False, more=details
    )
