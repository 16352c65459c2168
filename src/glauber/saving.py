"""What of a model is kept, and how it comes back: its tensors, its config.json, a folder, the Hugging Face hub."""

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch
from torch import Tensor, nn

from glauber.card import card
from glauber.codec import Codec, NamedCodec, codec_from_dict, is_image_codec
from glauber.conditional import Transformer, TransformerConfig
from glauber.hub import CARD, Download, upload
from glauber.method import Method, find_method
from glauber.process import NoiseLaw, Process, Schedule
from glauber.runtime.files import write
from glauber.runtime.memory import require_memory
from glauber.runtime.precision import is_rounded
from glauber.storage import (
    codec_part,
    expanded,
    load_strictly,
    pick,
    read_model,
    require_layout,
    require_names,
    write_model,
)

FORMAT = 2
FLOAT = 4  # bytes
KEYS = ("format", "method", "network", "schedule", "trained_schedule", "codec", "sampling", "about")


class SavedModel(nn.Module):
    """The parts of a model, and what writes and reads them. The noise law and the codec stay exact through casts and moves."""

    method: Method
    sampling: dict[str, Any]
    about: dict[str, Any]
    trained: Schedule | None

    def __init__(self, network: Transformer, process: Process, codec: Codec | None):
        super().__init__()
        require_agreement(network.config, process)
        require_codec_fits(codec, network.config)
        self.network, self._process, self.codec = network, process, codec
        for name, tensor in self._exact_tensors().items():
            self.register_buffer(name, tensor.clone())
        self.register_load_state_dict_post_hook(lambda module, _: module._adopt_buffers())  # type: ignore[no-untyped-call]

    @property
    def device(self) -> torch.device:
        return self.network.embed.weight.device

    @property
    def process(self) -> Process:
        return self._process.to(self.device)

    @property
    def classes(self) -> list[str]:
        """Their names, or their numbers where they have none; empty for a model that was not trained on classes."""
        number = self.network.config.classes
        names = self.about.get("classes")
        return list(map(str, names if isinstance(names, list) and len(names) == number else range(number)))

    def _exact_tensors(self) -> dict[str, Tensor]:
        """The noise law and the codec as saved beside the weights."""
        codec = {} if self.codec is None else self.codec.tensors()
        return {"noise": self._process.noise.probs, **{f"codec_{name}": tensor for name, tensor in codec.items()}}

    def _adopt_buffers(self) -> None:
        """Loading puts tensors into the buffers; the law and the codec are made anew from them."""
        loaded = {name: buffer.detach().cpu().clone() for name, buffer in self.named_buffers(recurse=False)}
        self._process = Process(self._process.schedule, NoiseLaw(loaded["noise"], self._process.noise.allowed))
        if self.codec is not None:
            self.codec = codec_from_dict(self.codec.to_dict(), codec_part(loaded))

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Move or cast: the network only is cast, the law and the codec stay exact."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, tensor in self._exact_tensors().items():
            setattr(self, name, tensor.to(self.device))
        return self

    def config(self) -> dict[str, Any]:
        """All but the tensors, as it stands in config.json: `schedule` is the one that it samples by."""
        return {
            "format": FORMAT,
            "method": self.method.name,
            "network": self.network.config.to_dict(),
            "schedule": self._process.schedule.to_dict(),
            "trained_schedule": None if self.trained is None else self.trained.to_dict(),
            "codec": None if self.codec is None else self.codec.to_dict(),
            "sampling": self.sampling,
            "about": self.about,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        """The model of a `config()` and all its tensors, by name; compact ones are expanded."""
        if config.get("format") != FORMAT:
            said = config.get("format")
            raise ValueError(f"the model's format is {said}; this version of glauber reads {FORMAT}, so train or get it again")
        require_names("the config", config, KEYS)
        if not isinstance(config["about"], dict) or not isinstance(config["sampling"], dict):
            raise ValueError("the config's 'about' and 'sampling' must be tables")
        try:
            made = cls(*_parts(config, tensors), config["method"], config["sampling"], config["about"], _trained(config))  # type: ignore[call-arg]
        except (KeyError, TypeError) as error:
            raise ValueError(f"the model's config does not fit this version of glauber: {error}") from error
        load_strictly(made, expanded(tensors))
        return made

    def save(self, folder: str | os.PathLike[str], overwrite: bool = False, compact: bool = False) -> Path:
        """Write config.json and model.safetensors, the layout of huggingface_hub's PyTorchModelHubMixin.

        Args:
            compact: the network's matrices in int8, with a scale for each row; a quarter of the size, and rounded.
        """
        if is_rounded(self.network):
            raise ValueError("the weights are rounded to bfloat16 while the model samples; save it afterwards")
        write_model(Path(folder), self.config(), self.state_dict(), overwrite, compact)
        return Path(folder)

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        *,
        repo_id: str | None = None,
        push_to_hub: bool = False,
        **push_to_hub_kwargs: Any,
    ) -> str | None:
        """As a model of the hub's mixin does: `save`, in place of a model that is there, with a card where there is none.

        Args:
            repo_id: on the hub, if it is pushed, too; the folder's name if not given.
            push_to_hub: upload it, with the other options as for `push_to_hub`, and return the URL.
        """
        folder = self.save(save_directory, overwrite=True)
        if not (folder / CARD).exists():
            write(folder / CARD, card(self, repo_id or folder.resolve().name).encode())
        return self.push_to_hub(repo_id or folder.resolve().name, **push_to_hub_kwargs) if push_to_hub else None

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str],
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
    ) -> Self:
        """As a model of the hub's mixin does: what `glauber.load` gives, with the hub client's options."""
        how = Download(revision, token, cache_dir, force_download, local_files_only)
        return cls.from_config(*read_model(pretrained_model_name_or_path, how)).eval()

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        commit_message: str = "Push model by glauber",
        token: str | bool | None = None,
        revision: str | None = None,
    ) -> str:
        """Upload to the Hugging Face hub, with a card unless there is one, and return the commit's URL.

        `glauber.load(repo_id)` brings it back. The card names what `about` holds under "license", "language" and "metrics".

        Args:
            private: of a repository that is new; the owner's own default if None.
            token: the one that `hf auth login` keeps if None.
            revision: a branch, made if there is none; the main one if None.
        """
        with TemporaryDirectory() as folder:
            saved = self.save(folder)
            return upload(saved, partial(card, self), repo_id, private, commit_message, token, revision)


def _parts(config: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[Transformer, Process, Codec | None]:
    """Network, process and codec, of a size that was looked at before they are made."""
    shape, method = TransformerConfig(**config["network"]), find_method(config["method"])
    layout = method.layout(shape)
    require_layout(tensors, layout)
    codec = None if config["codec"] is None else codec_from_dict(config["codec"], codec_part(tensors))
    require_codec_fits(codec, shape)
    noise = NoiseLaw(pick(tensors, "noise"), getattr(codec, "allowed", None))
    process = Process(Schedule.round_robin(**config["schedule"]), noise)
    require_agreement(shape, process)
    require_memory(FLOAT * layout.parameters, "this model", "use a machine that has more")
    with torch.random.fork_rng(devices=[]):  # the first weights are overwritten; the caller's draws stay as they were
        network = method.network(shape)
    return network, process, codec


def _trained(config: dict[str, Any]) -> Schedule | None:
    return None if config["trained_schedule"] is None else Schedule.round_robin(**config["trained_schedule"])


def require_agreement(shape: TransformerConfig, process: Process) -> None:
    """Refuse a network and a process of different sizes."""
    if (shape.vocab, shape.length) != (process.vocab, process.length):
        raise ValueError(
            f"the network has {shape.vocab} tokens and length {shape.length}, "
            f"the process {process.vocab} and {process.length}; they must agree"
        )


def require_codec_fits(codec: Codec | None, shape: TransformerConfig) -> None:
    """Refuse a codec of other tokens, or of another number of sites."""
    sites = codec.length if isinstance(codec, NamedCodec) else shape.length
    sites = codec.grid[0] * codec.grid[1] if is_image_codec(codec) else sites
    if codec is not None and (codec.vocab, sites) != (shape.vocab, shape.length):
        raise ValueError(f"the codec has {codec.vocab} codes for {sites} sites, the network {shape.vocab} for {shape.length}")
