"""What `replay`, `simulate` and `data` do and print: the commands that use rich.

Results go to standard output and complaints to standard error. Progress bars and
colours appear on a terminal only, so that output can be piped and compared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from blockmgr import bench
from blockmgr.catalogue import TRACES, Trace
from blockmgr.download import DownloadError, download, is_intact
from blockmgr.errors import BadTrace
from blockmgr.replay import RECORDINGS, replay_file
from blockmgr.screen import complain, printable, shorten
from blockmgr.simulate import Simulation, simulate
from blockmgr.workloads import (
    MOONCAKE_BLOCK_SIZE,
    data_folder,
    find_trace,
    read_mooncake,
)


def _bar(console: Console, hidden: bool = False) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=hidden or not sys.stdout.isatty(),
    )


def _follow(bar: Progress, what: str, total: int) -> Callable[[int], None]:
    """A new line on the bar, and the function that says how far it is."""
    task = bar.add_task(what, total=total)
    return lambda done: bar.update(task, completed=done)


# --- replay ---------------------------------------------------------------------------


def run_replay(files: Sequence[Path]) -> int:
    """Replay recordings, or all of ours: 0 equal, 1 some differ, 2 a bad file."""
    paths = list(files) or sorted(RECORDINGS.rglob("*.jsonl.gz"))
    console = Console(highlight=False, soft_wrap=True)
    worst = equal = compared = 0
    with _bar(console) as bar:
        for path in bar.track(paths, description="replaying"):
            try:
                result = replay_file(path)
            except BadTrace as error:
                complain(error)
                worst = 2
                continue
            console.print(shorten(printable(str(result))), markup=False)
            compared += not result.no_counterpart
            equal += result.steps > 0 and result.difference is None
            if result.difference is not None:
                worst = max(worst, 1)
    if len(paths) > 1 and sys.stdout.isatty():
        console.print(f"{equal} of {compared} decide the same as vLLM in every step")
    return worst


# --- bench ----------------------------------------------------------------------------


def run_bench(quick: bool, flat: bool, as_json: bool) -> int:
    """Measure the basic operations and show them beside the targets."""
    console = Console(highlight=False)
    tasks: dict[str, Callable[[int], None]] = {}
    with _bar(console, hidden=as_json) as bar:

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = _follow(bar, what, total)
            tasks[what](done)

        sizes = bench.FLAT_SIZES if flat else ()
        rounds = bench.QUICK_ROUNDS if quick else bench.ROUNDS
        report = bench.run(rounds, sizes, progress)
    if as_json:
        print(json.dumps(report.as_json(), indent=1))
        return 0
    console.print(f"1 unit = {report.unit_ns:.1f} ns: one append(popleft()) of a deque")
    console.print(_bench_table(report))
    console.print("units per operation; vLLM 0.33 and nano-vllm in the same units")
    if report.flat:
        console.print(_flat_table(report))
        console.print("units per operation in pools of so many blocks")
    return 0


def _bench_table(report: bench.Report) -> Table:
    right = ("ns", "units", "at most", "vLLM", "nano")
    table = Table(Column("operation"))
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in bench.ROWS:
        others = [f"{n:,}" if n else "" for n in (row.target, row.vllm, row.nano)]
        units = report.rows[row.name]
        colour = "red" if units > row.target else "green"
        ours = (f"{report.ns(row.name):,.0f}", f"[{colour}]{units:,.1f}[/]")
        table.add_row(row.about, *ours, *others)
    return table


def _flat_table(report: bench.Report) -> Table:
    table = Table(Column("row", no_wrap=True))
    for size in next(iter(report.flat.values())):
        table.add_column(f"{size:,}", justify="right", no_wrap=True)
    table.add_column("largest / smallest", justify="right")
    for name, sizes in report.flat.items():
        units = list(sizes.values())
        ratio = f"{units[-1] / units[0]:.2f}"
        table.add_row(name, *(f"{u:,.1f}" for u in units), ratio)
    return table


# --- simulate -------------------------------------------------------------------------


def run_simulate(trace: str, sizes: Sequence[int], policy: str, as_json: bool) -> int:
    """Serve a trace through a pool of each size and show what was found again."""
    path = find_trace(trace) if trace in TRACES else Path(trace)
    requests = read_mooncake(path)
    console = Console(highlight=False)
    results = []
    with _bar(console, hidden=as_json) as bar:
        for size in sizes:
            shown = _follow(bar, f"{size:,} blocks", len(requests))
            results.append(simulate(requests, size, shown))
    if as_json:
        print(_as_json(path.name, policy, results))
    else:
        _show(console, path.name, policy, results)
    return 0


def _as_json(name: str, policy: str, results: Iterable[Simulation]) -> str:
    rows = [asdict(result) | {"hit_rate": result.hit_rate} for result in results]
    head = {"trace": name, "policy": policy, "block_size": MOONCAKE_BLOCK_SIZE}
    return json.dumps(head | {"results": rows}, indent=1)


def _show(
    console: Console, name: str, policy: str, results: Sequence[Simulation]
) -> None:
    first = results[0]
    about = (
        f"{printable(name)}: {first.requests:,} requests, {first.blocks:,} blocks of "
        f"{MOONCAKE_BLOCK_SIZE} tokens, {policy.upper()}"
    )
    console.print(about, markup=False, soft_wrap=True)
    console.print(_table_of(results))
    console.print("hit rate: share of all prompt tokens that need not be computed")
    if any(run.too_long for run in results):
        console.print("too long: requests of which only the start fits into the pool")


def _table_of(results: Iterable[Simulation]) -> Table:
    table = Table()
    for heading in ("blocks", "hit rate", "blocks found", "evictions", "too long"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    for run in results:
        counts = (run.hit_blocks, run.evictions, run.too_long)
        table.add_row(
            f"{run.num_blocks:,}", f"{run.hit_rate:.1%}", *(f"{n:,}" for n in counts)
        )
    return table


# --- data -----------------------------------------------------------------------------


def run_data(names: Sequence[str], only_list: bool) -> int:
    """Download traces (all four, or those named), or list what there is."""
    chosen = [TRACES[name] for name in names] or list(TRACES.values())
    if only_list:
        console = Console(highlight=False)
        console.print(f"in {data_folder()}:", markup=False, soft_wrap=True)
        console.print(_listing(chosen))
        return 0
    if not names:
        chosen = [trace for trace in chosen if trace.address]
    return max(map(_get, chosen))


def _get(trace: Trace) -> int:
    folder = data_folder()
    if is_intact(trace, folder / trace.file):
        print(f"{trace.name}: already in {folder}")
        return 0
    try:
        with _bar(Console()) as bar:
            path = download(trace, folder, _follow(bar, trace.name, trace.size))
    except DownloadError as error:
        complain(error)
        return 1
    print(f"{trace.name}: {trace.size:,} bytes, check sum right, in {path}")
    print(f"  from {trace.origin} ({trace.licence})")
    return 0


def _listing(traces: Iterable[Trace]) -> Table:
    # A name is what one types: it may not be cut, however narrow the terminal is.
    name = Column("trace", no_wrap=True, min_width=max(len(t) for t in TRACES))
    table = Table(name, "what", "licence", "here")
    for trace in traces:
        table.add_row(trace.name, trace.what, trace.licence, _place(trace))
    return table


def _place(trace: Trace) -> str:
    path = data_folder() / trace.file
    if not path.is_file():
        return "no: make data" if trace.address else "no; not for download"
    return "yes" if is_intact(trace, path) else "damaged: make data"
