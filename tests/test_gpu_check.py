"""`make gpu-check`: what it says without a GPU, and its measuring at a tiny size."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from blockmgr.storage import KVCache, KVCacheSpec
from blockmgr.swap import HostPool, Swapper
from tools import gpu_check
from tools.gpu_check import Row, Sizes

CPU = torch.device("cpu")
TINY = Sizes(
    num_layers=2,
    kv_heads=2,
    group=2,
    head_size=8,
    block_size=4,
    num_blocks=6,
    repeats=2,
    race_rounds=3,
    race_blocks=5,
    batches=((1, 16), (3, 8)),
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(gpu_check.ROOT / "tools/gpu_check.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_one_line_says_why_and_all_is_well(tmp_path: Path) -> None:
    done = run("--json", str(tmp_path / "found.json"))
    assert done.returncode == 0 and done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.startswith("gpu-check: skipped, PyTorch ")
    assert line.endswith("sees no NVIDIA GPU here")
    skipped = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert skipped == {"skipped": line.removeprefix("gpu-check: skipped, ")}


def test_without_pytorch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert gpu_check.why_not() == "PyTorch is not installed"


def test_the_race_counts_blocks_that_came_back_wrong() -> None:
    """A swapper that forgets one block of a round, or moves nothing, is found out."""
    (row,) = gpu_check.check_race(CPU, TINY)
    assert row.ok and row.numbers == {"wrong": 0}
    assert row.text == "0 of 30 blocks and layers came back wrong"

    class Forgets(Swapper):
        def swap_out(self, pairs: Any) -> None:
            super().swap_out(pairs[1:])

    class Idle(Swapper):
        def swap_in(self, pairs: Any) -> None:
            pass

    # In the first round, the forgotten block's content is 0, as is the new host pool.
    assert gpu_check.count_wrong_blocks(Forgets, CPU, TINY) == (3 - 1) * 2
    assert gpu_check.count_wrong_blocks(Idle, CPU, TINY) == 30


def test_moves_are_counted_in_bytes_read_and_written() -> None:
    rows = gpu_check.check_moves(CPU, TINY)
    names = ["copy_ of PyTorch", "scatter", "gather", "copy_blocks"]
    assert [row.name for row in rows] == names
    assert rows[0].ok and rows[0].numbers["share"] == 1
    moved = 2 * 6 * (2 * 2 * 4 * 2 * 8) * 2  # twice; 6 blocks of so many numbers; fp16
    for row in rows:
        gb = row.numbers["GB/s"] * row.numbers["ms"] / 1e3
        assert gb * 1e9 == pytest.approx(moved)
        assert row.ok == (row.numbers["share"] >= 0.7)


def test_decode_compares_with_pytorch_and_says_how_far_off_it_is() -> None:
    rows = gpu_check.check_decode(CPU, TINY)
    assert [row.name for row in rows] == ["1 x 16 tokens", "3 x 8 tokens"]
    for row in rows:
        assert row.numbers["error"] <= gpu_check.MOST_ERROR
        assert row.ok == (row.numbers["over_gather"] > 1)
        assert all(map(math.isfinite, row.numbers.values()))


def test_a_wrong_result_falls_short_however_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_check, "LEAST_SPEEDUP", 0.0)
    assert all(row.ok for row in gpu_check.check_decode(CPU, TINY))
    monkeypatch.setattr(gpu_check, "MOST_ERROR", -1.0)
    assert not any(row.ok for row in gpu_check.check_decode(CPU, TINY))


def test_time_is_the_median_of_the_later_calls() -> None:
    calls: list[int] = []
    took = gpu_check.seconds(lambda: calls.append(0), CPU, repeats=4)
    assert len(calls) == 7 and 0 <= took < 1


def test_the_files_that_know_a_gpu_are_found() -> None:
    names = {path.name for path in gpu_check.test_files()}
    assert {"test_attention.py", "test_attention_triton.py"} <= names
    assert "test_pool.py" not in names


def test_the_tests_are_told_the_device_and_a_failure_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    code = "import os\n\ndef test_{}():\n"
    code += "    assert os.environ['BLOCKMGR_TEST_DEVICE'] == '{}'\n"
    for name, device in (("good", "cpu"), ("bad", "cuda")):
        file = tmp_path / f"tests/test_{name}.py"
        file.write_text(code.format(name, device), encoding="utf-8")
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    (row,) = gpu_check.run_tests(CPU, TINY)
    assert not row.ok
    failed, summary = row.text.splitlines()
    assert failed.startswith("FAILED tests/test_bad.py::test_bad")
    assert summary.startswith("1 failed, 1 passed")
    (tmp_path / "tests/test_bad.py").unlink()
    monkeypatch.setattr(gpu_check, "TEST_SECONDS", 0.01)
    (row,) = gpu_check.run_tests(CPU, TINY)
    assert not row.ok and row.text == "not finished after 0.01 s"


def test_a_section_that_breaks_is_a_row_and_the_report_shows_text_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> list[Row]:
        raise RuntimeError("CUDA error: [bold]\nmore")

    monkeypatch.setitem(gpu_check.SECTIONS, "swap", broken)
    rows = gpu_check.run_section("swap", CPU, TINY)
    assert [row.ok for row in rows] == [False]
    console = Console(width=100, file=io.StringIO())
    gpu_check.report([*rows, Row("bytes", "x", True, "1 GB/s")], console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "RuntimeError: CUDA error: [bold]" in text and "more" not in text
    assert "short" in text and "ok" in text


def test_its_pools_are_what_it_says() -> None:
    """256 KiB a block, of which PyTorch's copy moves 2 GiB: far more than any cache."""
    spec = gpu_check._spec(Sizes())
    assert isinstance(spec, KVCacheSpec) and spec.block_bytes == 256 * 1024
    assert all(n % Sizes.block_size == 0 for _, n in Sizes.batches)
    assert KVCache(gpu_check._spec(TINY), num_blocks=2, device="cpu").kv.numel() > 0
    assert HostPool(gpu_check._spec(TINY), 2, pin_memory=False).num_blocks == 2
