"""The HTML around a pool with its ruler: what can be chosen, and the tables."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from figures.ruler_models import MODELS
from figures.ruler_sums import UNITS, PoolSums
from figures.tables import html_table
from figures.words import esc

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""The block sizes of the slider."""

BUDGETS = tuple(
    quarters * UNITS["MiB"] * 2**power // 4
    for power in range(18)
    for quarters in range(4, 8)
)
"""The budgets of the slider: 1 MiB to 224 GiB, four to each doubling."""

DTYPES = {
    "fp16 or bf16: 2 bytes": torch.float16,
    "fp8: 1 byte": torch.float8_e4m3fn,
    "fp32: 4 bytes": torch.float32,
}

LIMITS = {"layers": 256, "kv_heads": 256, "head_size": 1024}
"""Largest numbers of a shape that can be typed."""

OWN = "a model of your own"

SUMMARY = "The same numbers as a table, and where the shapes come from"


def tables(sums: PoolSums) -> str:
    """The arithmetic as a table, and the shapes with their sources."""
    return html_table(
        "How many blocks fit",
        ("what", "rule", "in numbers"),
        ((one.outcome, one.rule, one.text) for one in sums.equations()),
    ) + html_table(
        "Shapes",
        ("model", "layers", "KV heads", "head size", "source"),
        ((esc(m.name), *map(str, m.shape), esc(m.source)) for m in MODELS),
    )


def _options(names: Sequence[str]) -> str:
    return "".join(
        f"<option value='{i}'>{esc(n)}</option>" for i, n in enumerate(names)
    )


def error_inside(page: str) -> str:
    """The page of `figures.stage.shell`, with an error laid over the sentence: it has
    its place there, is seen while one types, and moves nothing."""
    error = "<div data-part='error' role='alert'></div>"
    before, after = page.split(error)
    return before.removesuffix("</div></div>") + f"{error}</div></div>{after}"


def bars() -> str:
    """What can be chosen: the model and its numbers, then budget and block size."""
    models = _options([*(model.name for model in MODELS), OWN])
    numbers = "".join(
        f"<label>{text} <input type='number' data-act='{name}' min='1' "
        f"max='{LIMITS[name]}' step='1'></label>"
        for name, text in (
            ("layers", "layers"),
            ("kv_heads", "KV heads"),
            ("head_size", "head size"),
        )
    )
    return (
        "<div class='bar' role='group' aria-label='choose a model'>"
        f"<select data-act='model' aria-label='model'>{models}</select>{numbers}"
        f"<select data-act='dtype' aria-label='bytes for each number'>"
        f"{_options(list(DTYPES))}</select></div>"
        "<div class='bar' role='group' aria-label='choose the pool'>"
        "<label>budget <input type='text' class='size' data-act='budget' "
        "maxlength='24' spellcheck='false' autocomplete='off'></label>"
        f"<input type='range' data-act='slide' min='0' max='{len(BUDGETS) - 1}' "
        "aria-label='budget by slider'><span class='of' data-part='count'></span>"
        f"<input type='range' data-act='size' min='0' max='{len(SIZES) - 1}' "
        "aria-label='block size'></div>"
    )
