"""PoolRuler: a budget of memory, cut into blocks, with a ruler beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from blockmgr.errors import BlockManagerError, InvalidRequest
from blockmgr.storage import KVCacheSpec
from figures.page import STYLE, image
from figures.ruler_models import MODELS, Shape, model_named, name_of
from figures.ruler_page import (
    BUDGETS,
    DTYPES,
    LIMITS,
    OWN,
    SIZES,
    SUMMARY,
    bars,
    error_inside,
    tables,
)
from figures.ruler_sums import PoolSums, pool_sums, read_size, sentence, size_text
from figures.ruler_svg import WIDTH, ruler_svg
from figures.stage import Stage, shell
from figures.words import esc


class PoolRuler(Stage):
    """Choose a model, a block size and a budget, and see how many blocks fit.

    It opens with `model` (a name in `figures.ruler_models.MODELS`) or with the shape of
    `spec`, and with `memory_bytes` of memory. `spec`, `memory_bytes` and `sums` say
    what is shown; `choose` changes it from Python.

    Raises `LookupError` for a model that is not in the list.
    """

    _css = Stage._css + (
        ".kvstage .bar input.size{width:9em}"
        ".kvstage .says [data-part='error']{z-index:1;font-size:14px;"
        "line-height:1.3;margin:2px 0;padding:2px 10px}"
        ".kvstage .bar .of{min-width:8.6em;font-variant-numeric:tabular-nums}"
    )

    def __init__(
        self,
        model: str = "Llama 3.1 8B",
        *,
        block_size: int = 16,
        memory_bytes: int = 8 * 2**30,
        spec: KVCacheSpec | None = None,
    ) -> None:
        self.spec = spec or _spec(model_named(model).shape, block_size)
        self.memory_bytes = memory_bytes
        self._typed = size_text(memory_bytes)
        self._problem, self._wrong = "", ""
        super().__init__(error_inside(shell(SUMMARY, bars(), stays=True)))
        self.draw()

    def __repr__(self) -> str:
        s = self.sums
        return (
            f"PoolRuler({self.name}, block_size={self.spec.block_size}, "
            f"{size_text(self.memory_bytes)}: {s.num_blocks:,} blocks)"
        )

    @property
    def sums(self) -> PoolSums:
        """What the spec says about the budget."""
        return pool_sums(self.spec, self.memory_bytes)

    @property
    def shape(self) -> Shape:
        """Layers, KV heads and head size."""
        s = self.spec
        return Shape(s.num_layers, s.num_kv_heads, s.head_size)

    @property
    def name(self) -> str:
        """The model that has this shape."""
        return name_of(self.shape) or OWN

    # --- choosing -------------------------------------------------------------------

    def choose(
        self,
        *,
        model: str | None = None,
        shape: Shape | None = None,
        block_size: int | None = None,
        dtype: torch.dtype | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Change what is given, and leave the rest; draws a frame.

        Raises `LookupError` for an unknown model and `InvalidPool` for a shape that no
        pool has; then nothing is changed.
        """
        wanted = model_named(model).shape if model else shape or self.shape
        self.spec = _spec(
            wanted, block_size or self.spec.block_size, dtype or self.spec.dtype
        )
        if memory_bytes is not None:
            self.memory_bytes, self._typed = memory_bytes, size_text(memory_bytes)
        self._problem = self._wrong = ""
        self.draw()

    def act(self, name: str, value: float | None) -> None:
        """Do what a control asks for; a number that can't be is named, not taken."""
        try:
            self._act(name, value)
        except BlockManagerError as error:
            self._problem, self._wrong = _alert(error), name
            self.draw()

    def _act(self, name: str, value: float | None) -> None:
        if name in LIMITS:
            number = _whole(name, value)
            self.choose(shape=self.shape._replace(**{name: number}))
            return
        place = int(value or 0)
        if name == "model":
            if place < len(MODELS):
                self.choose(model=MODELS[place].name)
            else:
                self.draw()  # it is shown for a shape that no model here has
        elif name == "dtype":
            self.choose(dtype=_nth(tuple(DTYPES.values()), place))
        elif name == "size":
            self.choose(block_size=_nth(SIZES, place))
        else:
            self.choose(memory_bytes=_nth(BUDGETS, place))

    def typed(self, name: str, text: str) -> None:
        """Take the budget as it stands in its field: `1.5 GiB`."""
        self._typed = text
        try:
            self.memory_bytes = read_size(text)
            self._problem = self._wrong = ""
        except InvalidRequest as error:
            self._problem, self._wrong = _alert(error), ""
        self.draw()

    # --- showing --------------------------------------------------------------------

    def draw(self) -> None:
        """Place the present pool, and what was wrong with the last wish."""
        sums = self.sums
        self.place(
            {
                "count": f"block size {self.spec.block_size}",
                "say": esc(sentence(sums, self.name)),
                "space": esc(_LONGEST),
                "picture": self.svg(prefix=self.prefix),
                "tables": tables(sums),
                "error": self._problem,
            },
            self._controls(),
        )

    def _controls(self) -> dict[str, dict[str, Any]]:
        names = [model.name for model in MODELS]
        place = names.index(self.name) if self.name in names else len(names)
        sizes = min(SIZES, key=lambda size: abs(size - self.spec.block_size))
        near = min(BUDGETS, key=lambda size: abs(size - self.memory_bytes))
        dtypes = list(DTYPES.values())
        controls: dict[str, dict[str, Any]] = {
            "model": {"value": str(place)},
            "dtype": {"value": str(dtypes.index(_two_bytes(self.spec.dtype)))},
            "size": {
                "value": SIZES.index(sizes),
                "valueText": f"{self.spec.block_size} slots",
            },
            "slide": {
                "value": BUDGETS.index(near),
                "valueText": size_text(self.memory_bytes),
            },
            "budget": {"value": self._typed},
        }
        for name in LIMITS:
            if name != self._wrong:  # what is being typed stays as it is
                controls[name] = {"value": getattr(self.shape, name)}
        return controls

    def svg(self, *, prefix: str = "kruler") -> str:
        """The picture as it is now."""
        words = sentence(self.sums, self.name)
        return ruler_svg(self.sums, self.name, words, prefix)

    def page(self) -> str:
        """The same for a page without a kernel."""
        say = sentence(self.sums, self.name)
        return (
            f"<div class='kvpage'>{STYLE}<p class='kvsay'><b>{esc(say)}</b></p>"
            f"{image(self.svg(), say, WIDTH)}"
            f"<details><summary>{SUMMARY}</summary>{tables(self.sums)}</details></div>"
        )


# --- reading what the page says ---------------------------------------------------


def _spec(
    shape: Shape, block_size: int, dtype: torch.dtype = torch.float16
) -> KVCacheSpec:
    return KVCacheSpec(
        num_layers=shape.layers,
        num_kv_heads=shape.kv_heads,
        head_size=shape.head_size,
        block_size=block_size,
        dtype=dtype,
    )


def _whole(name: str, value: float | None) -> int:
    most, what = LIMITS[name], name.replace("_", " ").replace("kv", "KV")
    if value is None or value != int(value) or not 1 <= value <= most:
        raise InvalidRequest(f"{what}: type a whole number from 1 to {most:,}")
    return int(value)


def _nth(choices: Sequence[Any], place: int) -> Any:
    return choices[min(max(place, 0), len(choices) - 1)]


def _two_bytes(dtype: torch.dtype) -> torch.dtype:
    return torch.float16 if dtype == torch.bfloat16 else dtype


def _alert(error: Exception) -> str:
    return f"<b>Nothing changed:</b> {esc(str(error))}"


_LONGEST = sentence(
    pool_sums(_spec(Shape(3, 1, 100), 16), 123_456_789_012), "a model of your own"
)
"""As long as a sentence gets: room for it is kept, so that nothing below it moves."""
