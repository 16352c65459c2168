"""A served page in a real Chromium: models that nobody trained, the command `play`, a browser without its own errands."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from visits import Served, Visit, chromium, ready

from glauber import Model, NoiseLaw, PixelCodec, Process, Schedule, Transformer, TransformerConfig
from glauber.codec import ByteCodec, CharCodec

ALPHABET = "".join(map(chr, range(32, 127))) + "“”é\n"
FLAGS = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
WIDTHS = (1280, 390)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models `texts`, `bytes` and `images`, the last of two classes."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    codec = CharCodec(ALPHABET)
    network = Transformer(TransformerConfig(codec.vocab, 96, width=16, layers=1, heads=2))
    Model(network, Process(Schedule.round_robin(96, 96, keep=0.0), NoiseLaw.uniform(codec.vocab)), codec).save(folder / "texts")
    raw = Transformer(TransformerConfig(257, 32, width=16, layers=1, heads=2))
    Model(raw, Process(Schedule.round_robin(32, 32, keep=0.0), NoiseLaw.uniform(257)), ByteCodec()).save(folder / "bytes")
    config = TransformerConfig(vocab=8, length=64, width=16, layers=1, heads=2, grid=(8, 8), classes=2)
    process = Process(Schedule.round_robin(64, 64, keep=0.0), NoiseLaw.uniform(8))
    Model(Transformer(config), process, PixelCodec((8, 8), 8), about={"classes": ["coat", "bag"]}).save(folder / "images")
    return folder


@pytest.fixture(scope="session")
def served(models: Path) -> Iterator[Served]:
    """The page that most tests open."""
    server = Served(models)
    yield server
    server.end()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path, root = chromium(), ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *root])
        yield opened
        opened.close()


@pytest.fixture(params=WIDTHS, ids=lambda width: f"{width}px")
def visit(browser: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """At a wide and at a narrow screen."""
    opened = Visit(browser, request.param, permissions=["clipboard-read", "clipboard-write"])
    yield opened
    opened.end()


@pytest.fixture
def page(visit: Visit, served: Served) -> Any:
    """The page as a newcomer finds it, once the models are there."""
    return ready(visit.open(served.url))
