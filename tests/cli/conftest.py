"""Models that nobody trained, saved: of images, of tokens alone, of texts."""

from pathlib import Path

import pytest
import torch
from program import STORY, model

from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig
from glauber.codec import TokenizerCodec


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(codec=True).save(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(codec=False).save(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    codec = TokenizerCodec.train([STORY], 280)
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(codec.vocab, 16, width=16, layers=1, heads=2))
    torch.nn.init.normal_(network.head.weight)
    process = Process(Schedule.round_robin(16, 32, keep="linear"), NoiseLaw.uniform(codec.vocab))
    return Model(network, process, codec).save(tmp_path_factory.mktemp("texts"))
