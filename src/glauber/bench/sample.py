"""How fast the chain is, against the bare network and against the card's own matrix products, in one run."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from glauber.bench.timing import clear, device_name, matmul_rate, memory, seconds_per_call, wait
from glauber.chain import CallCounter, run_chain
from glauber.conditional import Denoiser, Transformer, TransformerConfig
from glauber.process import NoiseLaw, Process, Schedule
from glauber.runtime.cuda_graph import CudaGraph
from glauber.runtime.precision import bfloat16
from glauber.runtime.runners import WORTH, cuda_runner

LARGE = TransformerConfig(vocab=32100, length=1024, width=1024, layers=24, heads=16)
SMALL = TransformerConfig(vocab=4096, length=256, width=384, layers=8, heads=6, cond_dim=64, causal=True)
BATCHES = (64, 1, 256, 8)  # what is used most comes first
LENGTHS = (256, 1024, 4096, 2048, 512)
ROWS = 16
"""Of the table of lengths, and of the skip."""

Row = dict[str, Any]
Case = Callable[[], Iterator[Row]]


def bench_sample(seconds: float = 4.0, quick: bool = False, keep: Callable[[Row], None] = lambda figures: None) -> Row:
    """Tables: the bare forward and a chain's call by network, length and batch; top-p; the skip.

    All figures so far go to `keep` after each row, and a case that fails leaves its error under "failed".
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    peak = matmul_rate(device, 256 if quick else 8192)
    figures: Row = {"device": device_name(device), "torch": torch.__version__, "matmul_flops_per_second": peak}
    figures |= {"rows": [], "top_p": [], "skip": [], "failed": []}
    print(f"{figures['device']}: {peak / 1e12:.0f} TFLOP/s in bfloat16 products", flush=True)

    def note(row: Row) -> None:
        table = row.pop("table")
        figures[table].append(row)
        print(f"{table:6}", " ".join(f"{name}={_short(value)}" for name, value in row.items()), flush=True)
        keep(figures)

    for name, case in _cases(device, peak, seconds, quick):
        began = time.perf_counter()
        try:
            for row in case():
                note(row)
        except RuntimeError as error:  # such as a card that is too small; the other cases may still fit
            note({"table": "failed", "case": name, "error": str(error)})
        print(f"       {name}: {time.perf_counter() - began:.1f} s in all", flush=True)
    return figures


def _cases(device: torch.device, peak: float, seconds: float, quick: bool) -> Iterator[tuple[str, Case]]:
    """Names, and what makes rows of the tables; where the time is short, the last may be left out."""
    large = replace(LARGE, vocab=64, length=32, width=32, layers=2, heads=2) if quick else LARGE
    small = replace(SMALL, vocab=64, length=16, width=32, layers=1, heads=2) if quick else SMALL

    def case(name: str, config: TransformerConfig, batch: int, **more: bool) -> tuple[str, Case]:
        run = partial(measure, name, config, batch, device, peak, seconds, **more)
        return f"{name} network, length {config.length}, batch {batch}", run

    batches, lengths = (BATCHES[:1], (8,)) if quick else (BATCHES, LENGTHS)
    yield from (case("large", large, batch, top_p=batch == batches[0]) for batch in batches)
    yield from (case("large", replace(large, length=L), ROWS, skip=lengths[0] == L) for L in lengths[:3])
    yield from (case("small", small, batch) for batch in batches)
    yield from (case("large", replace(large, length=L), ROWS) for L in lengths[3:])


def measure(
    name: str,
    config: TransformerConfig,
    batch: int,
    device: torch.device,
    peak: float,
    seconds: float,
    top_p: bool = False,
    skip: bool = False,
) -> Iterator[Row]:
    """In bfloat16: the bare compiled network, queried at one site of each row, and a chain whose steps query it so.

    Tokens per second are those of the paper's setting (four sweeps, keep ½, no truncation), from a call's time and the calls of
    the row that needs most. With `top_p` and `skip` those tables' rows, too, on the same compiled network.
    """
    L, D, shape = config.length, config.width, {"network": name, "length": config.length, "batch": batch}
    signal = Schedule.round_robin(L, 4 * L, 0.5).signal
    noise = NoiseLaw.uniform(config.vocab).to(device)
    with _network(config, device) as network:
        x = noise.sample((batch, L))
        t, survival = torch.zeros_like(x[:, 0]), torch.full((batch, L), 0.5, dtype=torch.float64, device=device)
        forward = seconds_per_call(lambda: network(x, t, survival, x[:, :1] % L), device, seconds / 4)
        replayed = seconds_replayed(lambda: network(x, t, survival, x[:, :1] % L), device, seconds / 4)
        _watch_memory(device)
        call = seconds_of_call(network, noise, batch, seconds, forward)
        used, held = memory(device)
        # All rows begin together, and the chain is done when the last of them is.
        needed = (torch.rand(batch, 4 * L, dtype=torch.float64) < signal).sum(1).max().item()
        flops = 2.0 * batch * (L * config.layers * (12 * D * D + 2 * L * D) + D * config.vocab)
        yield {
            "table": "rows",
            **shape,
            "parameters": sum(p.numel() for p in network.parameters()),
            "forward_seconds": forward,
            "replayed_seconds": replayed,
            "call_seconds": call,
            "ratio": call / forward,
            "ratio_to_replayed": call / replayed,
            "share_of_matmul": flops / forward / peak,
            "tokens_per_second": batch * L / (call * needed),
            "calls_per_sample": float(signal.sum()),
            "flops": flops,
            "memory_gb": used,
            "reserved_gb": held,
        }
        if top_p:
            truncated = seconds_of_call(network, noise, batch, seconds, forward, top_p=0.9)
            yield {"table": "top_p", **shape, "top_p": 0.9, "call_seconds": truncated, "ratio": truncated / call}
        if skip:
            yield {"table": "skip", **shape, **with_and_without_skip(network, noise, batch, call)}


@contextmanager
def _network(config: TransformerConfig, device: torch.device) -> Iterator[Transformer]:
    """A network with random weights, on a card compiled, in bfloat16; without what the case before has left."""
    torch._dynamo.reset()  # or, having seen other shapes, it would be compiled for any shape
    clear(device)
    torch.manual_seed(0)
    network = Transformer(config).to(device).eval()
    torch.nn.init.normal_(network.head.weight, std=0.02)  # or all laws would be the same
    if device.type == "cuda":
        network.compile_parts()
    with torch.no_grad(), bfloat16(network) if device.type == "cuda" else nullcontext():
        yield network


def seconds_replayed(work: Callable[[], Tensor], device: torch.device, seconds: float) -> float:
    """As `seconds_per_call`, as a CUDA graph; that is where a card waits for a batch of 1."""
    return seconds_per_call(CudaGraph(work, device) if device.type == "cuda" else work, device, seconds)


def _watch_memory(device: torch.device) -> None:
    """From here on."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def seconds_of_call(network: Transformer, noise: NoiseLaw, batch: int, seconds: float, forward: float, **options: Any) -> float:
    """What each call of a chain adds to its time; what is done once for a chain, such as its CUDA graph, is left out."""
    device, L, least = noise.probs.device, network.config.length, WORTH + 1  # from which on there is a CUDA graph
    more = max(16, min(2000, int(seconds / 2 / forward)))
    # Tokens are always kept, so that every step needs the network.
    process = Process(Schedule.round_robin(L, -(-(least + more) // L) * L, 1.0), noise).to(device)

    def timed(number: int) -> float:
        generator = torch.Generator(device).manual_seed(0)
        start = noise.sample((batch, L), generator), process.schedule.steps
        wait(device)
        began = time.perf_counter()
        given = Denoiser(network), process
        run_chain(*given, start=start, stop=start[1] - number, generator=generator, **options, _runner=cuda_runner)
        wait(device)
        return time.perf_counter() - began

    timed(4)  # what is made once for all chains
    return (timed(least + more) - timed(least)) / more


def with_and_without_skip(network: Transformer, noise: NoiseLaw, batch: int, call: float) -> Row:
    """The paper's setting, end to end: four sweeps, keep ½, no truncation. A call is also what each step would cost at best."""
    device, L = noise.probs.device, network.config.length
    process = Process(Schedule.round_robin(L, 4 * L, 0.5), noise).to(device)
    seconds, counts = {}, {}
    for skip in (True, False):
        counted, generator = CallCounter(Denoiser(network)), torch.Generator(device).manual_seed(0)
        wait(device)
        began = time.perf_counter()
        run_chain(counted, process, batch, skip=skip, generator=generator, _runner=cuda_runner)
        wait(device)
        seconds[skip], counts[skip] = time.perf_counter() - began, counted
    return {
        "seconds": seconds[True],
        "seconds_without": seconds[False],
        "faster": seconds[False] / seconds[True],
        "faster_than_calls_alone": 4 * L * call / seconds[True],
        "calls": counts[True].calls,
        "calls_without": counts[False].calls,
        "calls_per_sample": counts[True].rows / batch,
        "calls_per_sample_without": counts[False].rows / batch,
        "calls_per_sample_1024": float(Schedule.round_robin(1024, 4096, 0.5).signal.sum()),
    }


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace(" ", "_")
