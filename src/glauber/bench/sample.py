"""How fast the chain is, against the bare network and against the card's own matrix products, in one run."""

import time
from dataclasses import replace
from typing import Any

import torch

from glauber.bench.timing import clear, device_name, matmul_rate, memory, seconds_per_call, wait
from glauber.chain import run_chain
from glauber.conditional import Denoiser, Transformer, TransformerConfig
from glauber.process import NoiseLaw, Process, Schedule

LARGE = TransformerConfig(vocab=32100, length=1024, width=1024, layers=24, heads=16)
SMALL = TransformerConfig(vocab=4096, length=256, width=384, layers=8, heads=6, cond=64, reads=True)
BATCHES = (1, 8, 64, 256)


def bench_sample(seconds: float = 4.0, quick: bool = False) -> dict[str, Any]:
    """Rows of a table: network, length, batch, seconds of the bare forward and of a chain's call, tokens per second, memory."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    large = replace(LARGE, vocab=64, length=32, width=32, layers=2, heads=2) if quick else LARGE
    small = replace(SMALL, vocab=64, length=16, width=32, layers=1, heads=2) if quick else SMALL
    rate, rows = matmul_rate(device, 256 if quick else 8192), []
    cases = [("large", large, batch) for batch in BATCHES] + [("small", small, batch) for batch in BATCHES]
    cases += [("large", replace(large, length=large.length * times // 4), 16) for times in (1, 2, 4, 8, 16)]
    for name, config, batch in cases[:1] + cases[4:5] if quick else cases:
        row = {"network": name} | measure(config, batch, device, seconds)
        row["share_of_matmul"] = row["flops"] / row["forward_seconds"] / rate
        rows.append(row)
        print(_line(row), flush=True)
    return {"device": device_name(device), "torch": torch.__version__, "matmul_flops_per_second": rate, "rows": rows}


def measure(config: TransformerConfig, batch: int, device: torch.device, seconds: float) -> dict[str, Any]:
    """One row, in bfloat16: the bare network, asked about one site of each row, and a chain that asks so at each step.

    Tokens per second are those of the paper's setting (four sweeps, keep ½, no truncation), from a call's time and the calls of
    the row that needs most.
    """
    torch.manual_seed(0)
    clear(device)
    network = Transformer(config).to(device).eval()
    torch.nn.init.normal_(network.head.weight, std=0.02)  # or all laws would be the same
    if device.type == "cuda":
        network.compile_parts()
    L, D = config.length, config.width
    noise = NoiseLaw.uniform(config.vocab).to(device)
    x = noise.sample((batch, L))
    t, survival = torch.zeros(batch, device=device), torch.full((batch, L), 0.5, dtype=torch.float64, device=device)
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        forward = seconds_per_call(lambda: network(x, t, survival, x[:, :1] % L), device, seconds / 4)
        call = _call(network, noise, batch, max(64, int(seconds / 4 / forward)), device)
    used, held = memory(device)
    signal = Schedule.round_robin(L, 4 * L, 0.5).signal
    needed = (torch.rand(batch, 4 * L, dtype=torch.float64) < signal).sum(1).double()
    return {
        "parameters": sum(p.numel() for p in network.parameters()),
        "length": L,
        "batch": batch,
        "forward_seconds": forward,
        "call_seconds": call,
        "ratio": call / forward,
        "calls_per_sample": float(signal.sum()),
        "tokens_per_second": batch * L / (call * needed.max().item()),
        "flops": 2.0 * batch * (L * config.layers * (12 * D * D + 2 * L * D) + D * config.vocab),
        "memory_gb": used,
        "reserved_gb": held,
    }


def _call(network: Transformer, noise: NoiseLaw, batch: int, steps: int, device: torch.device) -> float:
    """Seconds of a call: what it costs more to make twice as many, so that what is done once for a chain is left out."""
    L = network.config.length
    # Tokens are always kept, so that every step needs the network.
    process = Process(Schedule.round_robin(L, -(-2 * steps // L) * L, 1.0), noise).to(device)

    def timed(number: int) -> float:
        generator = torch.Generator(device).manual_seed(0)
        start = noise.sample((batch, L), generator), process.schedule.steps
        wait(device)
        began = time.perf_counter()
        run_chain(Denoiser(network), process, start=start, stop=start[1] - number, generator=generator)
        wait(device)
        return time.perf_counter() - began

    timed(steps)
    return (timed(2 * steps) - timed(steps)) / steps


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['network']:5} L={row['length']:4} batch {row['batch']:3}  forward {row['forward_seconds'] * 1e3:8.2f} ms"
        f" ({row['share_of_matmul']:5.1%} of matmul)  call {row['call_seconds'] * 1e3:8.2f} ms = {row['ratio']:.2f} x"
        f"  {row['tokens_per_second']:8,.0f} tokens/s  {row['memory_gb']:5.1f} GB"
    )
