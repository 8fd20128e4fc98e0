# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-def"
# mypy: disable-error-code="untyped-decorator, no-untyped-call"
"""Copying blocks on a GPU, each byte read once and written once, in one launch.

PyTorch has no operation that reads by one list of ids and writes by another, so
`kv[:, :, targets] = kv[:, :, sources]` goes through a copy in between and moves every
byte twice. This kernel is the missing operation. `storage.KVCache.copy_blocks` uses it
on CUDA where Triton is installed, which comes with PyTorch's CUDA build on Linux.

In vLLM: `copy_blocks` in `csrc/cache_kernels.cu` was such a kernel, in CUDA. Without
copy-on-write nobody called it, and it was removed at the end of 2025.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

WORDS = 1024
"""Words of 8 bytes that one program moves. The unit of work, not a limit."""


@triton.jit
def _copy_pages(kv, pairs, plane_words, page_words, WORDS: tl.constexpr):
    """Program (pair, plane, part): a part of a page, K or V of a block in one layer."""
    pair, plane, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    source, target = tl.load(pairs + 2 * pair), tl.load(pairs + 2 * pair + 1)
    # The ids are int64, and `plane` is made so: else large pools overflow (row 38).
    start = kv + plane.to(tl.int64) * plane_words
    word = part * WORDS + tl.arange(0, WORDS)
    inside = word < page_words
    page = tl.load(start + source * page_words + word, mask=inside)
    tl.store(start + target * page_words + word, page, mask=inside)


def copy_blocks(words: Tensor, pairs: Tensor) -> None:
    """Copy blocks within `words` [2, layers, blocks, block_size, words].

    `pairs` is int64 [n, 2], (source, destination), on the same device. No source may be
    a destination as well, for the programs run in any order.
    """
    planes, page_words = words.flatten(0, 1), words[0, 0, 0].numel()
    if len(pairs):
        grid = (len(pairs), len(planes), triton.cdiv(page_words, WORDS))
        _copy_pages[grid](words, pairs, planes.stride(0), page_words, WORDS=WORDS)
