"""What only a GPU can show: `make gpu-check`, about three minutes on one H200.

    python tools/gpu_check.py [--json FILE] [--no-tests]

1. the tests that know a GPU, on it (those marked `gpu`, and attention with its poison)
2. the race: blocks that are swapped out on a side stream and used again at once
3. moving bytes: scatter, gather and block copies against PyTorch's own copy
4. the decode kernel against a gather and `scaled_dot_product_attention`

Without a GPU it says why in one line and succeeds. Else the exit status is 1 if
anything fell short. Sizes and targets stand in `Sizes` and below.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parent.parent
LEAST_SHARE = 0.70  # of the bandwidth of PyTorch's copy
LEAST_SPEEDUP = 1.0  # of the decode kernel over gather + attention
MOST_ERROR = 2e-3  # in fp16, of numbers around 1
TEST_SECONDS = 150
HEAD_START = 60_000_000  # GPU clock cycles, about 30 ms


@dataclass(frozen=True)
class Sizes:
    """How much is measured. These fit an H200; a test gives tiny ones."""

    num_layers: int = 4
    kv_heads: int = 8
    group: int = 4
    head_size: int = 128
    block_size: int = 16
    num_blocks: int = 8192  # moved in each measurement, 256 KiB each with these sizes
    repeats: int = 15
    race_rounds: int = 200
    race_blocks: int = 64
    batches: tuple[tuple[int, int], ...] = (
        (1, 32768),
        (8, 8192),
        (64, 2048),
        (256, 512),
    )
    """Decode steps: (sequences, tokens in each), whole blocks."""


@dataclass
class Row:
    """One line of the report, and of the JSON."""

    section: str
    name: str
    ok: bool
    text: str
    numbers: dict[str, float] = field(default_factory=dict)


Section = Callable[["torch.device", Sizes], list[Row]]


def why_not() -> str:
    """Why there is nothing to check on this machine, or nothing."""
    try:
        import torch
    except ModuleNotFoundError:
        return "PyTorch is not installed"
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no NVIDIA GPU here"
    return ""


# --- 1: the tests -------------------------------------------------------------------


def test_files() -> list[Path]:
    """The test files that know a GPU: no other need be collected."""
    words = ("mark.gpu", "BLOCKMGR_TEST_DEVICE")
    files = sorted((ROOT / "tests").glob("test_*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    return [p for p, text in texts.items() if any(word in text for word in words)]


def run_tests(device: torch.device, sizes: Sizes) -> list[Row]:
    """The test files above in a process of their own, told to use the device."""
    files = [str(path.relative_to(ROOT)) for path in test_files()]
    workers = "4" if device.type == "cuda" else "0"
    options = ["-q", "-n", workers, "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    env = os.environ | {"BLOCKMGR_TEST_DEVICE": device.type}
    env.pop("TRITON_INTERPRET", None)  # else a GPU's numbers would be the CPU's
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=TEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        text = f"not finished after {TEST_SECONDS} s"
        return [Row("tests", "on the GPU", False, text)]
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines()
    told = [line for line in lines if line.startswith(("FAILED", "ERROR", "SKIPPED"))]
    text = "\n".join([*told[:20], lines[-1] if lines else "pytest said nothing"])
    return [Row("tests", "on the GPU", done.returncode == 0, text)]


# --- 2: the race --------------------------------------------------------------------


def count_wrong_blocks(
    swapper_of: Callable[[Any, Any], Any], device: torch.device, sizes: Sizes
) -> int:
    """Swap blocks out, spoil them at once, swap them in elsewhere, look at once.

    Nothing waits for anything but what the swapper itself arranges. The same host
    blocks serve every round, so they are used again at once as well.
    """
    import torch

    from blockmgr.storage import KVCache
    from blockmgr.swap import HostPool

    n, spec = sizes.race_blocks, _spec(sizes)
    cache = KVCache(spec, num_blocks=2 * n + 1, device=device)
    swapper = swapper_of(cache, HostPool(spec, n + 1))
    first, second = torch.arange(1, n + 1), torch.arange(n + 1, 2 * n + 1)
    there, back = torch.stack((first, first), 1), torch.stack((first, second), 1)
    marks = torch.arange(n, device=device)[:, None, None, None]
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    for i in range(sizes.race_rounds):
        numbers = ((marks + 7 * i) % 1000).to(spec.dtype)  # exact in half precision
        cache.kv[:, :, 1 : n + 1] = numbers
        swapper.swap_out(there)
        cache.kv[:, :, 1:] = -1.0
        swapper.swap_in(back)
        wrong += (cache.kv[:, :, n + 1 :] != numbers).flatten(3).any(3).any(0).sum()
    return int(wrong)


def check_race(device: torch.device, sizes: Sizes) -> list[Row]:
    """Blocks that came back with another content: 0, or the streams race."""
    from blockmgr.swap import Swapper

    wrong = count_wrong_blocks(Swapper, device, sizes)
    moved = sizes.race_rounds * sizes.race_blocks * sizes.num_layers
    text = f"{wrong} of {moved:,} blocks and layers came back wrong"
    return [Row("swap", "side stream race", wrong == 0, text, {"wrong": wrong})]


# --- measuring ----------------------------------------------------------------------


def seconds(run: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median seconds of a call on the device, its first runs not counted.

    On a GPU, a sleep goes ahead of each call, so that the host has ordered all work
    before it begins: what is measured is the GPU alone.
    """
    import torch

    times: list[float] = []
    for i in range(repeats + 3):
        if device.type == "cuda":
            start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            torch.cuda._sleep(HEAD_START)  # type: ignore[no-untyped-call]
            start.record()
            run()
            end.record()
            end.synchronize()
            took = start.elapsed_time(end) / 1e3  # it says milliseconds
        else:
            begin = time.perf_counter()
            run()
            took = time.perf_counter() - begin
        if i >= 3:
            times.append(took)
    return statistics.median(times)


def _spec(sizes: Sizes) -> Any:
    import torch

    from blockmgr.storage import KVCacheSpec

    return KVCacheSpec(
        num_layers=sizes.num_layers,
        num_kv_heads=sizes.kv_heads,
        head_size=sizes.head_size,
        block_size=sizes.block_size,
        dtype=torch.float16,
    )


# --- 3: moving bytes ----------------------------------------------------------------


def check_moves(device: torch.device, sizes: Sizes) -> list[Row]:
    """Scatter, gather and block copies, as a share of the bandwidth of `copy_`.

    All four move the same bytes, and each byte counts twice: read once, written once.
    The blocks lie in random order.
    """
    import torch

    from blockmgr.storage import KVCache

    n, spec = sizes.num_blocks, _spec(sizes)
    cache = KVCache(spec, num_blocks=2 * n + 1, device=device)
    moved = 2 * n * spec.block_bytes
    make = torch.Generator().manual_seed(0)
    ids = torch.randperm(2 * n, generator=make) + 1
    table = ids[:n].to(device)
    pairs = ids.view(2, n).T.contiguous()
    slots = table[:, None] * spec.block_size
    slots = (slots + torch.arange(spec.block_size, device=device)).flatten()
    tokens = (spec.num_layers, n * spec.block_size, spec.num_kv_heads, spec.head_size)
    key, value = torch.zeros((2, *tokens), dtype=spec.dtype, device=device)
    copied = _copy_seconds(moved // 2, device, sizes.repeats)
    rows = [_move("copy_ of PyTorch", moved, copied, copied)]
    moves: dict[str, Callable[[], object]] = {
        "scatter": lambda: cache.scatter(key, value, slots),
        "gather": lambda: cache.gather(table),
        "copy_blocks": lambda: cache.copy_blocks(pairs),
    }
    for name, run in moves.items():
        took = seconds(run, device, sizes.repeats)
        rows.append(_move(name, moved, took, copied))
    return rows


def _copy_seconds(num_bytes: int, device: torch.device, repeats: int) -> float:
    import torch

    source, target = torch.zeros((2, num_bytes), dtype=torch.uint8, device=device)
    return seconds(lambda: target.copy_(source), device, repeats)


def _move(name: str, moved: int, took: float, copied: float) -> Row:
    speed, share = moved / took / 1e9, copied / took
    text = f"{speed:,.0f} GB/s, {share:.0%} of copy_ (target {LEAST_SHARE:.0%})"
    numbers = {"GB/s": speed, "share": share, "ms": took * 1e3}
    return Row("bytes", name, share >= LEAST_SHARE, text, numbers)


# --- 4: decoding --------------------------------------------------------------------


def check_decode(device: torch.device, sizes: Sizes) -> list[Row]:
    """One decode step of a batch, all sequences of one length."""
    from blockmgr.attention import has_triton

    if device.type == "cuda" and not has_triton():
        return [Row("decode", "kernel", False, "Triton is not installed")]
    return [
        _decode(device, sizes, num_seqs, seq_len) for num_seqs, seq_len in sizes.batches
    ]


def _decode(device: torch.device, sizes: Sizes, num_seqs: int, seq_len: int) -> Row:
    """Our best backend against gather + PyTorch's attention in one go.

    The rival needs no mask and no loop, as the lengths are equal: it is the best that a
    gather can do, and better than our `gather`, which takes sequence after sequence.
    """
    import torch
    import torch.nn.functional as F

    from blockmgr.attention import paged_attention
    from blockmgr.storage import KVCache

    spec = _spec(sizes)
    per_seq = seq_len // spec.block_size
    make = torch.Generator(device).manual_seed(0)
    cache = KVCache(spec, num_blocks=num_seqs * per_seq + 1, device=device)
    cache.kv[:, 0] = torch.randn(cache.kv[:, 0].shape, generator=make, device=device)
    ids = torch.randperm(num_seqs * per_seq, generator=make, device=device) + 1
    tables = ids.view(num_seqs, per_seq).to(torch.int32)
    lens = torch.full((num_seqs,), seq_len, dtype=torch.int32, device=device)
    heads = spec.num_kv_heads * sizes.group
    shape = (num_seqs, heads, spec.head_size)
    query = torch.randn(shape, generator=make, device=device).to(spec.dtype)

    def kernel() -> torch.Tensor:
        return paged_attention(query, cache, 0, tables, lens, checked=False)

    def rival() -> torch.Tensor:
        return attend(*cache.gather(tables, 0))

    def attend(key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        q, k, v = query[:, :, None], key.transpose(1, 2), value.transpose(1, 2)
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)[:, :, 0]

    error = (kernel().float() - rival().float()).abs().max().item()
    key, value = cache.gather(tables, 0)
    ours, theirs, alone = (
        seconds(run, device, sizes.repeats)
        for run in (kernel, rival, lambda: attend(key, value))
    )
    speed = key.nbytes * 2 / ours / 1e9
    text = (
        f"{ours * 1e6:,.0f} µs, {theirs / ours:.1f} times as fast as gather + SDPA, "
        f"{alone / ours:.2f} as SDPA alone; reads {speed:,.0f} GB/s; error {error:.0e}"
    )
    numbers = {
        "us": ours * 1e6,
        "over_gather": theirs / ours,
        "over_sdpa_alone": alone / ours,
        "GB/s": speed,
        "error": error,
    }
    ok = error <= MOST_ERROR and theirs / ours > LEAST_SPEEDUP
    return Row("decode", f"{num_seqs} x {seq_len} tokens", ok, text, numbers)


# --- the report ---------------------------------------------------------------------

SECTIONS: dict[str, Section] = {
    "tests": run_tests,
    "swap": check_race,
    "bytes": check_moves,
    "decode": check_decode,
}


def run_section(name: str, device: torch.device, sizes: Sizes) -> list[Row]:
    """The section's rows. One that breaks is a row too: the others still count."""
    try:
        return SECTIONS[name](device, sizes)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        text = f"{type(error).__name__}: {lines[0]:.200}"
        return [Row(name, "broke off", False, text)]


def report(rows: Sequence[Row], console: Console) -> None:
    """All rows as one table."""
    table = Table(title="GPU check", title_justify="left")
    for column in ("what", "", "result", ""):
        table.add_column(column)
    for row in rows:
        mark = "[green]ok[/]" if row.ok else "[red]short[/]"
        table.add_row(row.section, row.name, Text(row.text), mark)
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sections and report: 0 all well or no GPU, 1 something fell short."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--no-tests", action="store_true", help="measure only")
    options = parser.parse_args(arguments)
    if reason := why_not():
        print(f"gpu-check: skipped, {reason}")
        if options.json:
            options.json.write_text(json.dumps({"skipped": reason}), encoding="utf-8")
        return 0
    import torch

    device, begin = torch.device("cuda"), time.monotonic()
    about = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
    console, rows = Console(highlight=False), list[Row]()
    console.print(about)
    for name in SECTIONS:
        if name == "tests" and options.no_tests:
            continue
        rows += run_section(name, device, Sizes())
        torch.cuda.empty_cache()
        if options.json:  # after each: what broke later has lost nothing
            found = {"about": about, "rows": [asdict(row) for row in rows]}
            options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    report(rows, console)
    console.print(f"{time.monotonic() - begin:.0f} s")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
