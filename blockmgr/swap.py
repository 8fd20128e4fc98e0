"""Swapping: blocks leave the device for the host's memory, and come back.

The `BlockManager` says which blocks go where (`Allocation.copies`); this moves their
bytes. The way to a GPU is slow, so nobody should wait for it without need:

                   the pool's stream                        the side stream
    swap_out   device pool -> staging                    staging -> host pool
    swap_in    staging -> device pool                    host pool -> staging

A **stream** is a queue of work on the GPU: one thing after the other within a stream,
nothing certain between two streams, unless one waits for an **event** of the other. The
staging buffer is a little memory on the device, in which a few blocks lie in one piece.
Copying into it is about a hundred times faster than the way to the host, and that is
why all is in order, with three rules:

1. **The device pool is touched by its own stream only**: the stream that also writes,
   copies and reads blocks. A block whose swap-out was ordered can be written at once,
   because its bytes leave for the staging buffer first. A block that was swapped in can
   be read at once, because the read stands behind its arrival. Nobody keeps a list of
   blocks under way.
2. **The host pool is touched by the side stream only.** So a host block can be used
   again at once as well. The host program itself must call `synchronize` first.
3. **Who fills the staging buffer waits until the last one has emptied it**, and who
   empties it waits until it is full. These are the events.

On a CPU there are no streams. The same lines run one after the other, no event is there
to wait for, and all is done on return.

In vLLM: `swap_blocks` in `csrc/cache_kernels.cu`, called on streams of their own with
events by `vllm/v1/kv_offload/cpu/gpu_worker.py` (release 0.33).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.storage import (
    InvalidPool,
    KVCache,
    KVCacheSpec,
    as_words,
    check_ids,
    int64_ids,
    to_device,
)

# After storage, which says in one line what to do where there is no PyTorch.
import torch  # isort: skip
from torch import Tensor  # isort: skip

Pairs = Sequence[tuple[int, int]] | Tensor
"""(source, destination) block ids, as in `Allocation.copies`."""


class HostPool:
    """Room for `num_blocks` blocks in the host's memory, block 0 for nobody.

    `blocks` is [num_blocks, 2, layers, block_size, kv_heads, head_size]. Here the block
    comes first and so lies in one piece, with all its layers: one copy moves it. With
    CUDA the memory is **pinned**: it has a fixed place, else the GPU can't copy it
    while the program runs on.

    Raises `InvalidPool` for a size that can't be had.
    """

    def __init__(
        self, spec: KVCacheSpec, num_blocks: int, *, pin_memory: bool | None = None
    ) -> None:
        if not isinstance(spec, KVCacheSpec):
            raise InvalidPool(f"spec: expected a KVCacheSpec; got {spec!r:.40}")
        self.spec = spec
        size = num_blocks * spec.block_bytes if type(num_blocks) is int else num_blocks
        self.num_blocks = n = spec.num_blocks_in(size)
        shape = (n, 2, spec.num_layers, *spec.block_shape)
        pin = torch.cuda.is_available() if pin_memory is None else pin_memory
        try:
            self.blocks = torch.zeros(shape, dtype=spec.dtype, pin_memory=pin)
        except (RuntimeError, TypeError) as error:
            what = f"{n} {'pinned ' if pin else ''}blocks of {spec.block_bytes} bytes"
            raise InvalidPool(f"the host can't give {what}: {error}") from error

    def __repr__(self) -> str:
        kind = "pinned" if self.blocks.is_pinned() else "not pinned"
        return f"HostPool({self.num_blocks} blocks, {kind})"


class Swapper:
    """Moves blocks between a device pool and a host pool of the same kind.

    Both calls return at once, on CUDA with the work still to be done. See above why
    everything that is ordered afterwards is safe, as long as it is ordered in the same
    stream, which is the case unless you choose another with `torch.cuda.stream`.

    `staging_blocks` is the room of the staging buffer. A swap of more blocks goes in
    several rounds, and each round waits for the one before.

    Raises `InvalidPool` if the pools differ in anything but their number of blocks:
    what one writes, the other would read as something else. A host pool belongs to one
    `Swapper`: two would have two side streams.
    """

    def __init__(
        self, device_pool: KVCache, host_pool: HostPool, *, staging_blocks: int = 16
    ) -> None:
        if not isinstance(device_pool, KVCache):
            raise InvalidPool(
                f"device_pool: expected a KVCache; got {device_pool!r:.40}"
            )
        if not isinstance(host_pool, HostPool):
            raise InvalidPool(f"host_pool: expected a HostPool; got {host_pool!r:.40}")
        if device_pool.spec != host_pool.spec:
            raise InvalidPool(
                "expected two pools of one spec, layers, heads, sizes, dtype and "
                f"scales; got {device_pool.spec} and {host_pool.spec}"
            )
        if type(staging_blocks) is not int or staging_blocks < 1:
            raise InvalidPool(
                f"staging_blocks: expected 1 or more; got {staging_blocks!r:.40}"
            )
        self.device_pool, self.host_pool = device_pool, host_pool
        self._device = device_pool.kv.device
        host = as_words(host_pool.blocks)
        n = min(staging_blocks, device_pool.num_blocks)
        self._staging = host.new_empty((n, *host.shape[1:]), device=self._device)
        self._side: torch.cuda.Stream | None = None
        if self._device.type == "cuda":
            self._side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            # Made on one stream and used on two: should the buffer be dropped early,
            # PyTorch keeps its memory until the side stream is through.
            self._staging.record_stream(self._side)
        # The pool's stream may still be busy with what lay in this memory before.
        self._emptied = self._mark()

    def swap_out(self, pairs: Pairs) -> None:
        """Copy whole blocks for each (device block, host block). All layers go along.

        On return the device blocks are free to be written: see rule 1 above.
        Raises `InvalidAccess` for ids outside the pools and for a host block named
        twice; then nothing has moved.
        """
        words, host = as_words(self.device_pool.kv), as_words(self.host_pool.blocks)
        ids = self._checked(
            pairs, self.device_pool.num_blocks, self.host_pool.num_blocks
        )
        for sources, targets, staging in self._rounds(ids):
            self._wait(self._emptied)
            blocks = words.index_select(2, to_device(sources, self._device))
            staging.copy_(blocks.movedim(2, 0))
            filled = self._mark()
            with torch.cuda.stream(self._side):  # on a CPU it is None: nothing changes
                self._wait(filled)
                for block, target in zip(staging, targets.tolist(), strict=True):
                    host[target].copy_(block, non_blocking=self._side is not None)
                self._emptied = self._mark()

    def swap_in(self, pairs: Pairs) -> None:
        """Copy whole blocks for each (host block, device block). All layers go along.

        On return the device blocks can be read and the host blocks used again.
        Raises `InvalidAccess` for ids outside the pools and for a device block named
        twice; then nothing has moved.
        """
        words, host = as_words(self.device_pool.kv), as_words(self.host_pool.blocks)
        ids = self._checked(
            pairs, self.host_pool.num_blocks, self.device_pool.num_blocks
        )
        for sources, targets, staging in self._rounds(ids):
            with torch.cuda.stream(self._side):
                self._wait(self._emptied)
                for block, source in zip(staging, sources.tolist(), strict=True):
                    block.copy_(host[source], non_blocking=self._side is not None)
                filled = self._mark()
            self._wait(filled)
            words.index_copy_(
                2, to_device(targets, self._device), staging.movedim(0, 2)
            )
            self._emptied = self._mark()

    def synchronize(self) -> None:
        """Wait until every swap is done: before the host reads `host_pool.blocks`."""
        if self._side is not None:
            self._side.synchronize()

    def _checked(self, pairs: Pairs, num_sources: int, num_targets: int) -> Tensor:
        ids = int64_ids("pairs", pairs, columns=(2,))
        check_ids(ids[:, 0], "source", NULL_BLOCK_ID + 1, num_sources)
        check_ids(ids[:, 1], "destination", NULL_BLOCK_ID + 1, num_targets, once=True)
        return ids

    def _rounds(self, ids: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Sources, destinations and staging of each round."""
        for first in range(0, len(ids), len(self._staging)):
            some = ids[first : first + len(self._staging)]
            yield some[:, 0], some[:, 1], self._staging[: len(some)]

    def _mark(self) -> torch.cuda.Event | None:
        """An event that happens when the current stream has come to this point."""
        if self._side is None:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _wait(self, event: torch.cuda.Event | None) -> None:
        """The current stream goes on after that event. The host does not wait."""
        if event is not None:
            torch.cuda.current_stream(self._device).wait_event(event)
