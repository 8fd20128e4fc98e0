"""Shapes of well-known models, as far as their KV cache depends on them."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """How large K and V of one token are. `kv_heads` can be fewer than the model's
    query heads: several of those then share one K and V (grouped-query attention)."""

    layers: int
    kv_heads: int
    head_size: int


class Model(NamedTuple):
    """A model by its name, and where its shape is published."""

    name: str
    shape: Shape
    source: str


MODELS = (
    Model(
        "SmolLM2-135M",
        Shape(30, 3, 64),
        "config.json of huggingface.co/HuggingFaceTB/SmolLM2-135M",
    ),
    Model(
        "GPT-2 (124M)",
        Shape(12, 12, 64),
        "default_hparams in src/model.py of github.com/openai/gpt-2",
    ),
    Model(
        "Qwen2.5-7B",
        Shape(28, 4, 128),
        "config.json of huggingface.co/Qwen/Qwen2.5-7B",
    ),
    Model(
        "Llama 3.1 8B",
        Shape(32, 8, 128),
        "The Llama 3 Herd of Models, arXiv 2407.21783, Table 3",
    ),
    Model(
        "OPT-13B",
        Shape(40, 40, 128),
        "OPT, arXiv 2205.01068, Table 1; the model of the PagedAttention paper",
    ),
    Model(
        "Llama 3.1 70B",
        Shape(80, 8, 128),
        "The Llama 3 Herd of Models, arXiv 2407.21783, Table 3",
    ),
)
"""From small to large. No sliding windows here: every layer keeps every token."""


def model_named(name: str) -> Model:
    """The model of this name; raises `LookupError`, which lists the names."""
    for model in MODELS:
        if model.name == name:
            return model
    known = ", ".join(model.name for model in MODELS)
    raise LookupError(f"no model is called {name!r:.60} here: choose {known}")


def name_of(shape: Shape) -> str | None:
    """The first model with this shape, or None."""
    return next((model.name for model in MODELS if model.shape == shape), None)
