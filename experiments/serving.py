"""What `glauber serve` bears: requests that share a chain against one after the other, and 64 clients of whom many hang up.

    python experiments/serving.py [--seconds 120] [--clients 64] [--out docs/results/serving.json]

Starts the command itself, on the CPU. The clients run in this process; so the server has not all cores for itself.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from glauber.provenance import write_figures

TOGETHER = 16
"""Requests at once, in the first part."""
HANG_UP = 1 / 3
WARM = 0.25
"""Share of the time after which memory is looked at."""
TEXT = "It was the [[8]] of times, it was the [[8]] of times, and nobody [[4]] about it."
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "causal completions of 64 tokens": ("/v1/completions", {"model": "novels", "prompt": "It was the", "max_tokens": 64}),
    "infills, the model's own chain": ("/v1/infill", {"model": "novels", "text": TEXT}),
    "infills, 4 sweeps": ("/v1/infill", {"model": "novels", "text": TEXT, "sweeps": 4}),
    "infills, blocks of 8": ("/v1/infill", {"model": "novels", "text": TEXT, "sweeps": 2, "block": 8, "order": "segments"}),
    "variations, 2 sweeps": ("/v1/vary", {"model": "novels", "text": "It was the best of times.", "sweeps": 2}),
    "images": ("/v1/images/sample", {"model": "fashion"}),
}
MIX: list[tuple[float, str, str, dict[str, Any]]] = [
    (4, "completion", "/v1/completions", {"model": "novels", "prompt": "She said", "max_tokens": 24}),
    (2, "completion, streamed", "/v1/completions", {"model": "novels", "prompt": "At last", "max_tokens": 24, "stream": True}),
    (2, "infill", "/v1/infill", {"model": "novels", "text": "It was the [[4]] of times"}),
    (1, "infill, streamed", "/v1/infill", {"model": "novels", "text": "It was the [[4]] of times", "stream": True}),
    (1, "infill, 2 sweeps", "/v1/infill", {"model": "novels", "text": "It [[3]] so", "sweeps": 2, "top_p": 0.9}),
    (1, "one site", "/v1/token", {"model": "novels", "text": "It was the best of times", "site": 3, "redraw": True}),
    (1, "score", "/v1/score", {"model": "novels", "texts": ["It was the best of times, it was the worst of times."]}),
    (1, "tokens", "/v1/tokenize", {"model": "novels", "text": "It was the best of times"}),
    (1, "image", "/v1/images/sample", {"model": "fashion"}),
]


@contextlib.contextmanager
def served() -> Iterator[tuple[str, int]]:
    """Its address and process id, when it is ready."""
    words = [sys.executable, "-m", "glauber", "serve", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            while httpx.get(f"{found[0]}/health").status_code != 200:
                time.sleep(0.1)
            yield found[0], server.pid
            assert server.poll() is None, "the server has ended by itself, or somebody has ended it"
        finally:
            server.send_signal(signal.SIGTERM)


def sharing(url: str) -> dict[str, Any]:
    """Seconds of equal requests with other seeds: one after the other, and all at once."""
    return {name: asyncio.run(both(url, path, asked)) for name, (path, asked) in PLANS.items()}


async def both(url: str, path: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Of one plan; the answers must be the same."""
    async with httpx.AsyncClient(timeout=300) as client:

        async def one(seed: int) -> Any:
            answer = await client.post(url + path, json={**asked, "seed": seed})
            answer.raise_for_status()
            return answer.json()

        await one(0)
        began = time.perf_counter()
        alone = [await one(seed) for seed in range(TOGETHER)]
        middle = time.perf_counter()
        at_once = await asyncio.gather(*map(one, range(TOGETHER)))
        end = time.perf_counter()
    same = sum(said(first) == said(second) for first, second in zip(alone, at_once, strict=True))
    figures = {"requests": TOGETHER, "one_after_the_other_s": middle - began, "at_once_s": end - middle, "same_answers": same}
    print(f"{path} {asked}: {middle - began:.1f} s alone, {end - middle:.1f} s at once", flush=True)
    return figures | {"times_the_throughput": (middle - began) / (end - middle)}


def said(answer: dict[str, Any]) -> Any:
    """What does not depend on the clock."""
    return [answer.get(name) for name in ("texts", "images")] + [choice["text"] for choice in answer.get("choices", [])]


class Load:
    """Clients that ask again and again until the time is over."""

    def __init__(self, url: str, pid: int, clients: int, seconds: float):
        self.url, self.pid, self.clients, self.seconds = url, pid, clients, seconds
        self.statuses: Counter[str] = Counter()
        self.took: defaultdict[str, list[float]] = defaultdict(list)
        self.health: list[float] = []
        self.memory: list[tuple[float, float]] = []
        self.lost: list[str] = []

    async def run(self) -> dict[str, Any]:
        """The figures."""
        self.end = time.monotonic() + self.seconds
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.clients)
        async with httpx.AsyncClient(timeout=300, limits=limits) as client:
            await asyncio.gather(*(self.client(client, number) for number in range(self.clients)), self.watch(client))
            left = await self.settled(client)
        return self.figures(left)

    async def client(self, client: httpx.AsyncClient, number: int) -> None:
        """One of them."""
        choose = random.Random(number)
        while time.monotonic() < self.end:
            _, name, path, asked = choose.choices(MIX, [weight for weight, *_ in MIX])[0]
            asked = {**asked, "seed": choose.randrange(2**31)} if path != "/v1/tokenize" else asked
            patience = choose.uniform(0.02, 2.0) if choose.random() < HANG_UP else None
            began = time.monotonic()
            try:
                async with asyncio.timeout(patience):
                    answer = await client.post(self.url + path, json=asked)
            except TimeoutError:
                self.statuses["hung up"] += 1
                continue
            except httpx.HTTPError as error:
                self.lost.append(f"{name}: {error!r}")
                continue
            await self.judge(name, answer, time.monotonic() - began)

    async def judge(self, name: str, answer: httpx.Response, took: float) -> None:
        """Count an answer; come again later where that was said."""
        self.statuses[str(answer.status_code)] += 1
        if answer.status_code == 200:
            self.took[name].append(took)
            if "text/event-stream" in answer.headers["content-type"] and not re.search(r"\[DONE\]|event: done", answer.text):
                self.lost.append(f"{name}: a stream without an end")
        elif answer.status_code == 429:
            await asyncio.sleep(float(answer.headers["retry-after"]))

    async def watch(self, client: httpx.AsyncClient) -> None:
        """How soon /health answers, and the server's memory."""
        began = time.monotonic()
        async with httpx.AsyncClient() as own:
            while time.monotonic() < self.end:
                asked = time.monotonic()
                (await own.get(f"{self.url}/health")).raise_for_status()
                self.health.append(time.monotonic() - asked)
                self.memory.append((time.monotonic() - began, resident(self.pid)))
                await asyncio.sleep(0.1)

    async def settled(self, client: httpx.AsyncClient) -> float:
        """How many requests still wait a while after the last client has gone."""
        for _ in range(100):
            told = (await client.get(f"{self.url}/metrics")).text
            waiting = sum(float(line.split()[-1]) for line in told.splitlines() if line.startswith("glauber_waiting{"))
            if not waiting:
                break
            await asyncio.sleep(0.1)
        return waiting

    def figures(self, left: float) -> dict[str, Any]:
        """What was seen."""
        every = [took for kind in self.took.values() for took in kind]
        warm = [size for when, size in self.memory if when >= WARM * self.seconds]
        part = max(1, len(warm) // 10)
        return {
            "clients": self.clients,
            "seconds": self.seconds,
            "answers": dict(self.statuses),
            "server_errors": sum(count for status, count in self.statuses.items() if status.startswith("5")),
            "lost": self.lost,
            "still_waiting_after": left,
            "answer_s": {"all": spread(every), **{name: spread(kind) for name, kind in sorted(self.took.items())}},
            "health_s": spread(self.health),
            "memory_mb": {"after_warm_up": sum(warm[:part]) / part, "at_the_end": sum(warm[-part:]) / part, "most": max(warm)},
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Of some times."""
    ordered = sorted(values)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return {"number": len(ordered), "median": at(0.5), "p95": at(0.95), "p99": at(0.99), "most": ordered[-1]}


def resident(pid: int) -> float:
    """MB of memory that a process holds."""
    return int(re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0]) / 1000


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with served() as (url, pid):
        figures = {"sharing": sharing(url), "load": asyncio.run(Load(url, pid, given.clients, given.seconds).run())}
    print(json.dumps(figures, indent=1))
    if given.out is not None:
        write_figures(given.out, figures)


if __name__ == "__main__":
    main()
