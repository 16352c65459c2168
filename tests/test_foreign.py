"""Folders of other libraries, and of ours that hold no model: `load` says in one sentence what it is and what to do with it."""

import json
from collections.abc import Callable
from pathlib import Path

import diffusers
import numpy as np
import pytest
import torch
import transformers
from huggingface_hub import PyTorchModelHubMixin
from PIL import Image
from refusals import refused
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

import glauber
from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig
from glauber.data import prepare
from glauber.train.checkpoint import write_checkpoint
from glauber.train.codec import train_codec
from glauber.train.vq import VQSettings

TINY = {"vocab_size": 20, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2}


def words() -> transformers.PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")


def gpt2(folder: Path) -> None:
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**TINY)).save_pretrained(folder)
    words().save_pretrained(folder)


def bert(folder: Path) -> None:
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=20, **shape)).save_pretrained(folder)


def gpt2_sharded(folder: Path) -> None:
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**TINY)).save_pretrained(folder, max_shard_size="2KB")
    assert (folder / "model.safetensors.index.json").is_file()
    assert not (folder / "model.safetensors").exists()


def gpt2_bin(folder: Path) -> None:
    gpt2(folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def gpt2_damaged(folder: Path) -> None:
    gpt2(folder)
    (folder / "model.safetensors").write_bytes(b"cut")


class Linear(torch.nn.Linear, PyTorchModelHubMixin):
    """Another class of the hub's mixin."""

    def __init__(self, in_features: int = 3, out_features: int = 2):
        super().__init__(in_features, out_features)


class Bare(torch.nn.Linear, PyTorchModelHubMixin):
    """One with nothing to configure, so that the mixin writes no config.json."""

    def __init__(self):
        super().__init__(3, 2)


def unet(folder: Path) -> None:
    small_unet().save_pretrained(folder)


def small_unet() -> diffusers.UNet2DModel:
    blocks = {"down_block_types": ("DownBlock2D",), "up_block_types": ("UpBlock2D",), "add_attention": False}
    return diffusers.UNet2DModel(sample_size=4, block_out_channels=(4,), layers_per_block=1, norm_num_groups=2, **blocks)


def pipeline(folder: Path) -> None:
    diffusers.DDPMPipeline(small_unet(), diffusers.DDPMScheduler()).save_pretrained(folder)


def vq_of_diffusers(folder: Path) -> None:
    diffusers.VQModel(block_out_channels=(4,), norm_num_groups=2, num_vq_embeddings=4).save_pretrained(folder)


def codec_of_ours(folder: Path) -> None:
    images = folder.parent / "images"
    images.mkdir()
    for k, image in enumerate(np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)):
        Image.fromarray(image).save(images / f"{k}.png")
    train_codec([images], folder, VQSettings(codes=4, factor=2, width=4, steps=1, batch=2), size=8, progress=False)


def adapter(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"hidden": 4, "depth": 2}))
    save_file({"weight": torch.zeros(2)}, folder / "model.safetensors")


def data_of_ours(folder: Path) -> None:
    (folder.parent / "a.txt").write_text("the cat sat on the mat " * 50)
    prepare([folder.parent / "a.txt"], folder, "bytes", length=8, progress=False)


def checkpoint_of_ours(folder: Path) -> None:
    write_checkpoint(folder.parent, {"weights": {"a": torch.zeros(2)}}, {"step": 3}, keep=1)
    (folder.parent / "step-00000003").rename(folder)


def run_of_ours(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"recipe": {"name": "tiny"}, "data": "0"}))


def loose_weights(folder: Path) -> None:
    folder.mkdir()
    torch.save({"weight": torch.zeros(2)}, folder / "pytorch_model.bin")


def ours(folder: Path) -> None:
    network = Transformer(TransformerConfig(5, 4, width=8, layers=1, heads=2))
    Model(network, Process(Schedule.round_robin(4, 8, "linear"), NoiseLaw.uniform(5))).save(folder)


def ours_sharded(folder: Path) -> None:
    ours(folder)
    tensors = sorted(load_file(folder / "model.safetensors").items())
    names = [f"model-0000{k}-of-00002.safetensors" for k in (1, 2)]
    for k, name in enumerate(names):
        save_file(dict(tensors[k::2]), folder / name)
    index = {"weight_map": {tensor: names[k % 2] for k, (tensor, _) in enumerate(tensors)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


def ours_bin(folder: Path) -> None:
    ours(folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


GPT2 = r"holds GPT2LMHeadModel of transformers, not a model of glauber; to judge texts by it, glauber evaluate --judge .*folder"
CODEC = "is a codec of images, not a model; use it as glauber prepare --tokenizer vq:.*folder"
MIXIN = "saved by another class .* PyTorchModelHubMixin; .*that class"
KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "gpt2": (gpt2, GPT2),
    "gpt2 in shards": (gpt2_sharded, GPT2),
    "gpt2 in a pickle": (gpt2_bin, GPT2),
    "gpt2 with damaged weights": (gpt2_damaged, GPT2),
    "bert": (bert, r"holds BertForMaskedLM of transformers, not a model of glauber; .*load it with transformers"),
    "unet": (unet, "holds UNet2DModel of diffusers, not a model of glauber; load it with diffusers"),
    "pipeline": (pipeline, "holds DDPMPipeline of diffusers, not a model of glauber; load it with diffusers"),
    "vq of diffusers": (
        vq_of_diffusers,
        "is a codec of images, not a model; use it as glauber prepare --tokenizer vq:.*folder",
    ),
    "codec": (codec_of_ours, CODEC),
    "mixin": (lambda folder: Linear().save_pretrained(folder), MIXIN),
    "bare mixin": (
        lambda folder: Bare().save_pretrained(folder),
        "saved by another class .* PyTorchModelHubMixin; .*that class",
    ),
    "another config": (adapter, "config.json .* depth, hidden .*; load it with what wrote it"),
    "tokenizer": (lambda folder: words().save_pretrained(folder), "is a tokenizer, .*--tokenizer .*folder/tokenizer.json"),
    "data": (data_of_ours, "is prepared data, not a model; train on it by glauber train --data .*folder"),
    "checkpoint": (checkpoint_of_ours, "is a checkpoint of a training run, not a model; name the run's folder, and its newest"),
    "run": (run_of_ours, "is a training run that has no model yet; go on with it by glauber train --out .*folder --resume"),
    "weights alone": (loose_weights, "holds weights but no config.json"),
    "ours in shards": (ours_sharded, "its weights in several files; join them into one model.safetensors"),
    "ours in a pickle": (ours_bin, "its weights in pytorch_model.bin, a pickle .*; save them as model.safetensors"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_model_of_ours_is_told_for_what_it_is(kind, tmp_path):
    make, about = KINDS[kind]
    make(tmp_path / "folder")
    with refused(about):
        glauber.load(tmp_path / "folder")
