"""What a user holds: weights, process and codec in one."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from glauber.card import card
from glauber.chain import check_options, run_chain
from glauber.chain.banned import Rule, restrict
from glauber.chain.budget import Plan, plan_within
from glauber.chain.clamp import is_beginning
from glauber.codec import ImageCodec, TextCodec, codec_from_dict, is_image_codec
from glauber.conditional import (
    CLASSIFIERS,
    CausalConditional,
    Conditional,
    Denoiser,
    StepLaw,
    Transformer,
    TransformerConfig,
    conditional_of,
)
from glauber.hub import CARD, Download, upload
from glauber.method import DIFFUSIONS, LOSSES, layout_of, network_of
from glauber.method.diffusion import sites_in
from glauber.process import Mask, NoiseLaw, Process, Schedule, Tokens, as_array, as_tokens
from glauber.runtime.files import write
from glauber.runtime.memory import require_memory
from glauber.runtime.precision import bfloat16, is_rounded, pays_in_bfloat16
from glauber.runtime.runners import cuda_runner
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
from glauber.tasks.infill import continue_text, fill_text, fill_tokens, new_generator, require_text_codec, vary_text
from glauber.tasks.inpaint import REFINEMENTS, fast_pass, given_tokens, own_rule, read_mask
from glauber.tasks.score import Windows, characters, cut, score_windows

if TYPE_CHECKING:
    from PIL.Image import Image

FORMAT = 1
FLOAT = 4  # bytes
MASKING = ("mdlm", "sedd")
"""Diffusions whose network knows the clean conditional given some tokens, as filling gaps needs it."""
KEYS = ("format", "network", "schedule", "codec", "objective", "sampling", "about")


class Model(nn.Module):
    """A trained network with the process that it reverses and the codec of what its tokens stand for.

    Args:
        objective: the loss it was trained with: "binary" and "marginal" make it a classifier, the others a clean conditional,
            "dense" one for any schedule.
        sampling: options of `run_chain` that `sample` and `inpaint` use unless told otherwise.
        about: provenance, for people: data, recipe, steps, ...
    """

    def __init__(
        self,
        network: Transformer,
        process: Process,
        codec: ImageCodec | TextCodec | None = None,
        objective: str = "dense",
        sampling: dict[str, Any] | None = None,
        about: dict[str, Any] | None = None,
    ):
        super().__init__()
        shape = network.config
        _require_agreement(shape, process)
        sites = codec.grid[0] * codec.grid[1] if is_image_codec(codec) else shape.length
        if codec is not None and (codec.vocab, sites) != (shape.vocab, shape.length):
            raise ValueError(
                f"the codec has {codec.vocab} codes for {sites} sites, the network {shape.vocab} for {shape.length}"
            )
        if objective not in LOSSES:
            raise ValueError(f"the objective is one of {', '.join(LOSSES)}, not {objective!r}")
        check_options(sampling or {}, process.vocab)
        self.network, self._process, self.codec = network, process, codec
        self.objective, self.sampling, self.about = objective, dict(sampling or {}), dict(about or {})
        self.precision = None
        for name, tensor in self._exact_tensors().items():
            self.register_buffer(name, tensor.clone())
        self.register_load_state_dict_post_hook(lambda module, _: module._adopt_buffers())  # type: ignore[no-untyped-call]

    @property
    def device(self) -> torch.device:
        return self.network.embed.weight.device

    @property
    def precision(self) -> str | None:
        """ "fp32" or "bf16", in which it samples and fills; None for bf16 on a GPU, which is much faster there, and else fp32.
        The paper's classifiers are sampled in fp32, as in the paper, unless told otherwise.

        Draws are float64 and scores fp32 in any case.
        """
        return self._precision

    @precision.setter
    def precision(self, precision: str | None) -> None:
        if precision not in (None, "fp32", "bf16"):
            raise ValueError(f"the precision is fp32 or bf16, or None for what the device is good at, not {precision!r}")
        self._precision = precision

    @property
    def process(self) -> Process:
        return self._process.to(self.device)

    @property
    def conditional(self) -> Conditional | StepLaw:
        """What `run_chain` takes, for the model's own schedule."""
        return self.conditional_for(self.process)

    def conditional_for(
        self, process: Process, gaps: bool = False, class_: str | int | None = None, guidance: float = 0.0
    ) -> Conditional | StepLaw:
        """What the model knows, for a chain of this process; with `gaps` it must look at both sides of a site.

        `class_` and `guidance` as for `run`.
        """
        if self.objective in DIFFUSIONS and self.objective not in MASKING:
            raise ValueError(f"the method {self.objective} changes all sites at once and cannot fill gaps; use another method")
        if self.objective in MASKING and self.network.config.conditioning == "time":  # which cannot see that a token is noise
            raise ValueError("a masked diffusion told the time knows no noise but masks; train it with conditioning=survival")
        found = conditional_of(self.objective, self.network, process, self.class_number(class_), guidance)
        if not gaps or not isinstance(found, CausalConditional):
            return found
        if self.objective == "reading":
            raise ValueError("an autoregressive model looks to the left alone and cannot fill gaps; use one of another method")
        return Denoiser(self.network)

    @property
    def classes(self) -> list[str]:
        """Their names, or their numbers where they have none; empty for a model that was not trained on classes."""
        number = self.network.config.classes
        names = self.about.get("classes")
        return list(map(str, names if isinstance(names, list) and len(names) == number else range(number)))

    def class_number(self, class_: str | int | None) -> int | None:
        """Of a class by its name or number; None for none."""
        known = self.classes
        if class_ is None:
            return None
        if not known:
            raise ValueError("this model was not trained on classes; leave the class out")
        if isinstance(class_, str) and class_ in known:
            return known.index(class_)
        number = int(class_) if str(class_).isdecimal() else -1
        if not 0 <= number < len(known):
            few = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
            raise ValueError(f"there is no class {class_!r}; choose one of {few}")
        return number

    @property
    def text_codec(self) -> TextCodec | None:
        """The codec, where it is one of text."""
        return None if is_image_codec(self.codec) else cast(TextCodec | None, self.codec)

    def schedule(
        self, sweeps: int | None = None, block: int | None = None, order: str | None = None, calls: int | None = None
    ) -> Schedule:
        """The model's own schedule, or another one with some of these changed. Other sweeps let survival fall linearly to 0.

        calls: choose them all so that a sample takes at most so many network calls, see `glauber.chain.budget`.
        """
        own = self.process.schedule
        if calls is not None:
            return self.plan(calls, sweeps, block, order).schedule
        if sweeps is None and block is None and order is None:
            return own
        self._require_any_schedule()
        if sweeps is not None and sweeps < 1:
            raise ValueError(f"sweeps must be at least 1, not {sweeps}")
        settings = own.to_dict()
        if block is not None and order is None and settings["order"] in ("right-to-left", "left-to-right"):
            settings["order"] = "segments"  # sites updated together are then far apart
        if sweeps is not None and sweeps != own.sweeps:
            settings |= {"steps": sweeps * own.length, "keep": "linear"}
        if block is not None:
            settings["block"] = block
        if order is not None:
            settings["order"] = order
        generator = torch.Generator().manual_seed(0)
        return Schedule.round_robin(**settings, generator=generator).to(self.device)

    def plan(self, calls: int, sweeps: int | None = None, block: int | None = None, order: str | None = None) -> Plan:
        """How to sample with at most so many network calls: a schedule, and options of `run_chain`."""
        if any(option is not None for option in (sweeps, block, order)):
            raise ValueError("calls chooses the sweeps, the block and the order; leave either these out or calls")
        self._require_any_schedule()
        plan = plan_within(calls, self.process.length)
        return Plan(plan.schedule.to(self.device), plan.options)

    @property
    def any_schedule(self) -> bool:
        """Whether it can run another schedule than its own."""
        return self.network.config.conditioning != "time" and self.objective == "dense"

    def _require_any_schedule(self) -> None:
        if not self.any_schedule:
            raise ValueError("a model told only the time, or not trained with the dense loss, runs on its own schedule alone")

    def sample_tokens(
        self,
        num: int = 1,
        seed: int | None = None,
        sweeps: int | None = None,
        block: int | None = None,
        order: str | None = None,
        **chain: Any,
    ) -> Tensor:
        """(num, L) tokens from a chain on `schedule(sweeps, block, order)`; `chain` are options of `run` and `run_chain`."""
        return self.run(num, new_generator(seed), (), sweeps, block, order, **chain)

    def run(
        self,
        num: int | None,
        generator: torch.Generator | None,
        rules: Sequence[Rule] = (),
        sweeps: int | None = None,
        block: int | None = None,
        order: str | None = None,
        class_: str | int | None = None,
        guidance: float = 0.0,
        calls: int | None = None,
        sampler: str | None = None,
        **chain: Any,
    ) -> Tensor:
        """As `sample_tokens`, with a generator, and rules that bar tokens from sites.

        Args:
            class_: all rows are of this class, by name or number.
            guidance: how far to go beyond the class's own conditional c, away from the general one: c is then proportional to
                c(·|class)^(1+guidance) / c(·)^guidance. 0 for the class as it is; twice the calls otherwise.
            calls: at most so many network calls a sample, instead of sweeps, block and order (twice as many with guidance); L
                if not given, for a method that is no chain.
            sampler: of such a method, see `glauber.method`.
        """
        if self.objective in DIFFUSIONS and "clamp" not in chain:
            chain |= {"sweeps": sweeps, "block": block, "class": class_, "guidance": guidance or None}
            return self._diffused(num, generator, calls, sampler, order, **chain)
        if sampler is not None:
            raise ValueError("a sampler is for methods that are no chain; this model has calls, or sweeps and a block")
        if calls is not None:
            if "clamp" in chain or "start" in chain:
                raise ValueError(
                    "calls is for whole samples; with a prompt, or to fill gaps or to vary, choose sweeps and a block"
                )
            plan = self.plan(calls, sweeps, block, order)
            schedule, chain = plan.schedule, plan.options | chain
        else:
            schedule = self.schedule(sweeps, block, order)
        process = Process(schedule, self.process.noise)
        options = self.sampling | chain
        if self.objective in CLASSIFIERS:
            options.setdefault("truncate", "mixture")  # all that it knows
        clamp = options.get("clamp")
        gaps = clamp is not None and not is_beginning(clamp)
        conditional = self.conditional_for(process, gaps, class_, guidance)
        with self.evaluating(), self._in_precision():
            return run_chain(restrict(conditional, rules), process, num, generator=generator, **options, _runner=cuda_runner)

    def _diffused(
        self,
        num: int | None,
        generator: torch.Generator | None,
        calls: int | None,
        sampler: str | None,
        order: str | None,
        progress: bool = False,
        **chain: Any,
    ) -> Tensor:
        """Samples of a method that is no chain."""
        method = DIFFUSIONS[self.objective]
        options = self.sampling | {name: value for name, value in chain.items() if value is not None}
        if wrong := [name for name in options if name not in method.options]:
            known = ", ".join(("calls", "sampler", "order", *method.options))
            raise ValueError(f"the method {self.objective} takes {known}, but no {wrong[0]}")
        check_options(options, self.process.vocab)
        process, calls = self.process, self.process.length if calls is None else calls
        rows, sites = 1 if num is None else num, sites_in(order, process.length, calls)
        with self.evaluating(), self._in_precision():
            return method.sample(self.network, process, rows, calls, generator, sampler, sites, progress, **options).tokens

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """The network in evaluation mode, and then again in the one it was in."""
        was_training = self.network.training
        self.network.eval()
        try:
            yield
        finally:
            self.network.train(was_training)

    def _in_precision(self) -> AbstractContextManager[None]:
        """The network in its `precision`; one that was cast as a whole stays so."""
        automatic = self.precision is None and self.objective not in CLASSIFIERS and pays_in_bfloat16(self.device)
        low = self.network.head.weight.dtype == torch.float32 and (automatic or self.precision == "bf16")
        return bfloat16(self.network) if low else nullcontext()

    def sample(self, num: int = 1, seed: int | None = None, prompt: str | None = None, **options: Any) -> list[Any]:
        """`num` samples, decoded: PIL images, strings, or lists of tokens without a codec. Options as for `sample_tokens`.

        prompt: how each of them begins, for text.
        """
        if prompt is not None:
            return continue_text(self, prompt, num, seed, **options)[0]
        return self.decode(self.sample_tokens(num, seed, **options))

    def inpaint(
        self,
        image: "Image | np.ndarray",
        mask: "Image | np.ndarray",
        num: int | None = None,
        seed: int | None = None,
        mask_rule: str | None = None,
        **options: Any,
    ) -> Any:
        """Fill the white part of `mask` in: one PIL image, or a list of `num`. Pixels outside come back as they were.

        A mask of another size is scaled. `mask_rule` says which tokens it frees, see `tasks.inpaint.RULES`; "iterative" if
        it is not given and the codec is a VQ network, else "cover".
        """
        codec = self._require_codec()
        if "clamp" in options:
            raise ValueError("inpaint clamps what the mask leaves black; run_chain takes a clamp of your own")
        pixels = np.asarray(image)
        if pixels.shape != codec.shape:
            raise ValueError(f"this model takes images of {_size(codec.shape)}, not of {_size(pixels.shape)}; bring it to that")
        hole = read_mask(np.asarray(mask), codec.shape[:2])
        rule = own_rule(codec) if mask_rule is None else mask_rule
        given, tokens = given_tokens(codec, pixels, hole, rule)
        generator, rows = new_generator(seed), 1 if num is None else num

        def fill(tokens: Tensor, options: dict[str, Any]) -> np.ndarray:
            pictures = codec.decode(self.run(rows, generator, clamp=(given, tokens), **options))
            pictures[:, ~hole] = pixels[~hole]
            return pictures

        for _ in range(REFINEMENTS if rule == "iterative" and rows else 0):
            tokens = codec.encode(fill(tokens, options | fast_pass(self)))
        images = self._as_images(fill(tokens, options))
        return images[0] if num is None else images

    def infill(self, text: str, num: int | None = None, seed: int | None = None, **options: Any) -> Any:
        r"""Fill the gaps of a text in: one string, or a list of `num`. What is given comes back as it was, to the byte.

        [[12]] is a gap of 12 tokens; a plain [[ is written \[[. Options as for `sample_tokens`; see `tasks.infill`.
        """
        texts = [filled.text for filled in fill_text(self, text, 1 if num is None else num, seed, **options)]
        return texts[0] if num is None else texts

    def infill_tokens(
        self, tokens: Tokens, mask: Mask, num: int | None = None, seed: int | None = None, **options: Any
    ) -> Tensor:
        """Draw anew the tokens, (rows, n) or (n,) with n ≤ L, where the mask is true. `num` adds an axis of fills in front.

        Of a network on a grid also (rows of the grid, columns), or several of these. The mask has the shape of the tokens, or
        of one row, flat or on the grid.
        """
        return fill_tokens(self, tokens, mask, num, seed, **options)

    def vary(self, text: str, t: int, num: int | None = None, seed: int | None = None, **options: Any) -> Any:
        """Noise a text to step t of the schedule and run the chain back: one string, or a list of `num`."""
        texts = vary_text(self, text, t, 1 if num is None else num, seed, **options)
        return texts[0] if num is None else texts

    def score(
        self,
        items: str | Sequence[Any] | Tensor | np.ndarray,
        kernel: str = "reversal",
        draws: int = 8,
        seed: int = 0,
        sweeps: int | None = None,
        block: int | None = None,
        order: str | None = None,
    ) -> dict[str, Any]:
        """Upper bound on the negative log-likelihood under `kernel`'s chain, in bits per token; for text, per character too.

        Args:
            items: texts, which are cut into windows of L tokens; images, PIL's or (N, H, W); or tokens (N, L).
        """
        (found,) = score_windows(self, self._windows(items), (kernel,), draws, seed, sweeps, block, order).values()
        return found

    def _windows(self, items: str | Sequence[Any] | Tensor | np.ndarray) -> Windows:
        texts = [items] if isinstance(items, str) else items
        if not isinstance(texts, Tensor | np.ndarray) and all(isinstance(text, str) for text in texts):
            text_codec = require_text_codec(self)
            return cut(text_codec.encode_batch(texts), text_codec, self.process.length)
        if not isinstance(items, Tensor) and (images := as_array(items, "what is scored")).ndim > 2:
            return Windows(self._require_codec().encode(images))
        tokens, codec = self.process.check_tokens(items), self.text_codec
        return Windows(tokens, None, None if codec is None else characters(tokens.tolist(), codec))

    def decode(self, tokens: Tokens) -> list[Any]:
        """PIL images, strings, or lists of tokens where there is no codec."""
        if is_image_codec(self.codec):
            return self._as_images(self.codec.decode(tokens))
        rows = as_tokens(tokens).tolist()
        return rows if self.codec is None else [self.codec.decode(row) for row in rows]

    def _require_codec(self) -> ImageCodec:
        if not is_image_codec(self.codec):
            raise ValueError("this model has no image codec; give it tokens instead")
        return self.codec

    @staticmethod
    def _as_images(pixels: np.ndarray) -> "list[Image]":
        try:
            from PIL import Image
        except ImportError as error:
            raise ImportError("images need pillow: pip install 'glauber[image]'") from error
        return [Image.fromarray(picture) for picture in pixels]

    def _exact_tensors(self) -> dict[str, Tensor]:
        """The noise law and the codec as saved beside the weights."""
        codec = {} if self.codec is None else self.codec.tensors()
        return {"noise": self._process.noise.probs, **{f"codec_{name}": tensor for name, tensor in codec.items()}}

    def _adopt_buffers(self) -> None:
        """Loading puts tensors into the buffers; the law and the codec are made anew from them."""
        loaded = {name: buffer.detach().cpu().clone() for name, buffer in self.named_buffers(recurse=False)}
        self._process = Process(self._process.schedule, NoiseLaw(loaded["noise"]))
        if self.codec is not None:
            self.codec = codec_from_dict(self.codec.to_dict(), codec_part(loaded))

    def _apply(self, fn: Any, recurse: bool = True) -> "Model":
        """Move or cast: the network only is cast, the law and the codec stay exact."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, tensor in self._exact_tensors().items():
            setattr(self, name, tensor.to(self.device))
        return self

    def config(self) -> dict[str, Any]:
        """All but the tensors, as it stands in config.json."""
        return {
            "format": FORMAT,
            "network": self.network.config.to_dict(),
            "schedule": self._process.schedule.to_dict(),
            "codec": None if self.codec is None else self.codec.to_dict(),
            "objective": self.objective,
            "sampling": self.sampling,
            "about": self.about,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], tensors: dict[str, Tensor]) -> "Model":
        """The model of a `config()` and all its tensors, by name; compact ones are expanded."""
        if config.get("format") != FORMAT:
            raise ValueError(f"the model's format is {config.get('format')}; this version of glauber reads {FORMAT}")
        require_names("the config", config, KEYS)
        if not isinstance(config["about"], dict) or not isinstance(config["sampling"], dict):
            raise ValueError("the config's 'about' and 'sampling' must be tables")
        try:
            shape = TransformerConfig(**config["network"])
            layout = layout_of(config["objective"], shape)
            require_layout(tensors, layout)
            process = Process(Schedule.round_robin(**config["schedule"]), NoiseLaw(pick(tensors, "noise")))
            _require_agreement(shape, process)
            require_memory(FLOAT * layout.parameters, "this model", "use a machine that has more")
            tensors = expanded(tensors)
            with torch.random.fork_rng(devices=[]):  # the first weights are overwritten; the caller's draws stay as they were
                network = network_of(config["objective"], shape)
            codec = None if config["codec"] is None else codec_from_dict(config["codec"], codec_part(tensors))
            model = cls(network, process, codec, config["objective"], config["sampling"], config["about"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"the model's config does not fit this version of glauber: {error}") from error
        load_strictly(model, tensors)
        return model

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
    ) -> "Model":
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
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            saved = self.save(folder)
            return upload(saved, partial(card, self), repo_id, private, commit_message, token, revision)


def load(
    name: str | os.PathLike[str],
    device: torch.device | str = "cpu",
    precision: str | None = None,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
) -> Model:
    """A model by its folder, its training run's folder, its bundled name, or its id on the Hugging Face hub ("owner/name").

    Of a run that was stopped it is the averaged network of the newest checkpoint, which `about` names.

    Args:
        precision: "fp32" or "bf16" to sample in; if not given bf16 on a GPU, but for the paper's classifiers, and else fp32.
        revision: of a model on the hub: a branch, a tag or a commit.
        token: for the hub; the one that `hf auth login` keeps if None.
    """
    model = Model.from_pretrained(name, revision=revision, token=token).to(device)
    model.precision = precision
    return model


def _require_agreement(shape: TransformerConfig, process: Process) -> None:
    if (shape.vocab, shape.length) != (process.vocab, process.length):
        raise ValueError(
            f"the network has {shape.vocab} tokens and length {shape.length}, "
            f"the process {process.vocab} and {process.length}; they must agree"
        )


def _size(shape: tuple[int, ...]) -> str:
    return f"{'×'.join(map(str, shape[1::-1]))} pixels{', in colour' * (len(shape) == 3)}"
