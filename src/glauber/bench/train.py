"""How fast training is, against the card's own matrix products and against a plain loop, in one run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glauber.bench.timing import clear, device_name, matmul_rate, memory, seconds_per_call
from glauber.conditional import Transformer, TransformerConfig
from glauber.data import prepare
from glauber.method import find_method
from glauber.process import NoiseLaw, Process, Schedule
from glauber.train import Trainer, TrainSpec
from glauber.train.trainer import Rows

LARGE = TransformerConfig(vocab=32100, length=1024, width=1024, layers=24, heads=16)
HOW = ("glauber", "fixed batch", "plain loop")
"""Trained from shards on the disk; the same with one batch that never changes; and the least that training can be."""
SMALL = TransformerConfig(vocab=27, length=256, width=512, layers=8, heads=8)


def bench_train(seconds: float = 10.0, quick: bool = False) -> dict[str, Any]:
    """Rows of a table: network, loss, batch, tokens per second, model FLOP/s and its share of the matmul rate, peak memory."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    large = replace(LARGE, vocab=512, length=64, width=64, layers=2, heads=4) if quick else LARGE
    small = replace(SMALL, length=64, width=64, layers=2, heads=4) if quick else SMALL
    rate = matmul_rate(device, 512 if quick else 8192)
    rows = []
    for name, config, batch, method, optimizer, hows in (
        ("large", large, 32, "ggm", "adamw", HOW),
        ("large", large, 32, "ggm", "muon", HOW[:1]),  # the other ways would be the same again
        ("large", large, 64, "ggm", "adamw", HOW[:1]),
        ("large", large, 64, "ggm", "muon", HOW[:1]),
        ("large", replace(large, conditioning="time"), 32, "ggm-binary", "adamw", HOW[:1]),
        ("small", small, 256, "ggm", "adamw", HOW),
        ("small", small, 256, "ggm", "muon", HOW[:1]),
    ):
        for how in hows:
            row = measure(config, batch // 16 if quick else batch, method, how, device, seconds, optimizer)
            row |= {"network": name, "share_of_matmul": row["flops_per_second"] / rate}
            rows.append(row)
            print(_line(row), flush=True)
    return {"device": device_name(device), "torch": torch.__version__, "matmul_flops_per_second": rate, "rows": rows}


def measure(
    config: TransformerConfig,
    batch: int,
    method: str,
    how: str,
    device: torch.device,
    seconds: float,
    optimizer: str = "adamw",
) -> dict[str, Any]:
    """One row: a few steps to warm up, then steps for about `seconds`."""
    torch.manual_seed(0)
    clear(device)
    network = Transformer(config).to(device)
    process = Process(Schedule.round_robin(config.length, 4 * config.length), NoiseLaw.uniform(config.vocab))
    with TemporaryDirectory() as folder:
        rows = random_shards(Path(folder), config, max(1024, batch))
        if how == "plain loop":
            tokens = torch.from_numpy(rows[np.arange(batch)]).to(device)
            step: Callable[[], Any] = plain_step(network, tokens, device)
        else:
            spec = TrainSpec(steps=10**9, batch=batch, lr=1e-4, precision="bf16", grad_clip=1.0, optimizer=optimizer)
            trainer = Trainer(network, process, rows, spec, method, compiled=device.type == "cuda")
            if how == "fixed batch":
                fixed = trainer.batch()
                trainer.batch = lambda: fixed  # type: ignore[method-assign]
            step = trainer.advance
        per_step = seconds_per_call(step, device, seconds)
    used, held = memory(device)
    flops = model_flops(config, batch, config.length if how == "plain loop" or find_method(method).can.clean_conditional else 1)
    return {
        "how": how,
        "method": method if how != "plain loop" else "cross-entropy",
        "optimizer": optimizer,
        "parameters": sum(p.numel() for p in network.parameters()),
        "length": config.length,
        "batch": batch,
        "seconds_per_step": per_step,
        "tokens_per_second": batch * config.length / per_step,
        "flops_per_second": flops / per_step,
        "memory_gb": used,
        "reserved_gb": held,
    }


def random_shards(folder: Path, config: TransformerConfig, rows: int) -> Rows:
    """Random tokens, prepared as any data is."""
    np.save(folder / "tokens.npy", np.random.default_rng(0).integers(config.vocab, size=(rows, config.length), dtype=np.int32))
    return prepare([folder / "tokens.npy"], folder / "shards", vocab=config.vocab, valid=0.0, progress=False).rows("train")


def plain_step(network: Transformer, tokens: Tensor, device: torch.device) -> Callable[[], Any]:
    """The least that training can be: one fixed batch, compiled forward and backward, plain cross-entropy, AdamW."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    t, survival = torch.zeros(len(tokens), device=device), torch.full(tokens.shape, 0.5, device=device)
    forward = torch.compile(network) if device.type == "cuda" else network

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16):
            logits = forward(tokens, t, survival)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return step


def model_flops(config: TransformerConfig, batch: int, answered: int) -> float:
    """A multiply-add counts two, forward and backward three times the forward; the head answers for `answered` sites a row."""
    D, L = config.width, config.length
    per_site = config.layers * (2 * 12 * D * D + 4 * L * D)
    head = 2 * D * config.vocab * answered
    return 3.0 * batch * (L * per_site + head)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['network']:6} {row['method']:13} {row['optimizer']:5} {row['how']:11} batch {row['batch']:4}"
        f"  {row['tokens_per_second']:12,.0f} tokens/s  {row['flops_per_second'] / 1e12:7.1f} TFLOP/s"
        f"  {row['share_of_matmul']:6.1%} of matmul  {row['memory_gb']:6.1f} GB ({row['reserved_gb']:.1f} taken)"
    )
