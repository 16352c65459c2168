"""What a user holds: weights, process, codec and method in one."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from glauber.chain import check_options
from glauber.codec import Codec, ImageCodec, TextCodec, as_pictures, decode_tokens, is_image_codec, is_text_codec
from glauber.conditional import Conditional, StepLaw, Transformer
from glauber.method import Request, Run, class_number, find_method
from glauber.process import Mask, Process, Schedule, Tokens, as_tokens
from glauber.process.draws import new_generator
from glauber.sampler import Sampler, require_precision
from glauber.saving import SavedModel
from glauber.tasks.constraints import Choice, Constraints
from glauber.tasks.infill import continuing, fill_tokens, filling
from glauber.tasks.inpaint import inpainting
from glauber.tasks.score import score_windows, windows_of
from glauber.tasks.steps import run_alone
from glauber.tasks.vary import SWEEPS, varying

if TYPE_CHECKING:
    from PIL.Image import Image

GIVEN = ("clamp", "start", "stop", "absent", "on_step", "progress")  # to a run of a sampler, not to the sampler


class Model(SavedModel):
    """A trained network with the process by which it samples and the codec of what its tokens stand for.

    Args:
        process: its schedule is the one that the model samples by unless told otherwise.
        method: how it was trained, by its name in `glauber.method`.
        sampling: options of `run_chain` that it uses unless told otherwise.
        about: provenance, for people: data, recipe, steps, ...
        trained: the schedule that it was trained on, if that is another one.
    """

    def __init__(
        self,
        network: Transformer,
        process: Process,
        codec: Codec | None = None,
        method: str = "ggm",
        sampling: dict[str, Any] | None = None,
        about: dict[str, Any] | None = None,
        trained: Schedule | None = None,
    ):
        super().__init__(network, process, codec)
        check_options(sampling or {}, process.vocab)
        self.method, self.trained = find_method(method), trained
        self.method.require_vocabularies(process)
        self.sampling, self.about = dict(sampling or {}), dict(about or {})
        self.precision = None

    @property
    def precision(self) -> str | None:
        """ "fp32" or "bf16", in which it samples and fills; None for bf16 on a GPU, which is much faster there, and else fp32.
        The paper's classifiers are sampled in fp32, as in the paper, unless told otherwise. Scores are fp32 in any case.
        """
        return self._precision

    @precision.setter
    def precision(self, precision: str | None) -> None:
        self._precision = require_precision(precision)

    @property
    def conditional(self) -> Conditional | StepLaw:
        """What `run_chain` takes, for the model's own schedule."""
        return self.method.conditional(self.network, self.process)

    @property
    def text_codec(self) -> TextCodec | None:
        """The codec, where it is one of text."""
        return self.codec if is_text_codec(self.codec) else None

    def require_text_codec(self) -> TextCodec:
        """The codec of text; refused where there is none."""
        if self.text_codec is None:
            raise ValueError("this model has no text codec; give it images or tokens instead")
        return self.text_codec

    def sampler(
        self,
        calls: int | None = None,
        sweeps: int | None = None,
        block: int | None = None,
        order: str | Sequence[int] | Tensor | None = None,
        sampler: str | None = None,
        class_: str | int | None = None,
        guidance: float = 0.0,
        precision: str | None = None,
        gaps: bool = False,
        **options: Any,
    ) -> Sampler:
        """Network, process and options, bound once. What is not said is the model's own.

        Args:
            calls: at most so many network calls a sample; a chain then chooses sweeps, block and order (docs/sampling.md).
            sweeps: visits of each site; the survival falls linearly to 0 over them.
            block: sites drawn at once; exact for 1 alone.
            order: the direction of writing: "left-to-right", "right-to-left", "random", "strided", "segments", or the sites.
            sampler: one of the method's own, for a method that is no chain.
            class_: all rows are of this class, by name or number.
            guidance: how far to go beyond the class's own conditional c, away from the general one: c is then proportional to
                c(·|class)^(1+guidance) / c(·)^guidance. 0 for the class as it is; twice the calls otherwise.
            precision: "fp32" or "bf16"; the model's own if None.
            gaps: some sites will be given, which a method that is no chain must know beforehand.
            options: kernel, mark_noise, temperature, top_p, top_k, ban, ... of `run_chain`.
        """
        number, chain = class_number(class_, self.classes), {**self.sampling, **options}
        request = Request(calls, sweeps, block, order, sampler, number, guidance, gaps, chain)
        return Sampler(self.network, self.process, self.method, request, precision or self.precision)

    def sample_tokens(self, num: int = 1, seed: int | None = None, **options: Any) -> Tensor:
        """(num, L) tokens. Options as for `sampler`; and a clamp, a start, ... as for `run_chain`."""
        given = {name: options.pop(name) for name in GIVEN if name in options}
        sampler = self.sampler(**options, gaps=given.get("clamp") is not None)
        return sampler.run(num, generator=new_generator(seed), **given)

    def sample(self, num: int = 1, seed: int | None = None, prompt: str | None = None, **options: Any) -> list[Any]:
        """`num` samples, decoded: PIL images, strings, or lists of tokens without a codec. Options as for `sample_tokens`.

        prompt: how each of them begins, for text.
        """
        if prompt is None:
            return self.decode(self.sample_tokens(num, seed, **options))
        codec, run = self.require_text_codec(), self._run_of("a prompt", options)
        return run_alone(continuing(self.sampler(**options, gaps=True), codec, prompt, num, new_generator(seed), **run))[0]

    def infill(
        self,
        text: str,
        num: int | None = None,
        seed: int | None = None,
        *,
        seams: str = "word",
        banned: Sequence[str] = (),
        sentence: bool = False,
        best_of: int | None = None,
        draws: int = Choice.draws,
        **options: Any,
    ) -> Any:
        r"""Fill the gaps of a text in: one string, or a list of `num`. What is given comes back as it was, to the byte.

        Args:
            text: [[12]] in it is a gap of 12 tokens, [[3-20]] one of 3 to 20, [[ ]] one of any length;
                a plain [[ is written \[[.
            seams: "word" joins a fill to the words around it; "raw" takes it as it comes.
            banned: words that no fill may have.
            sentence: each gap ends with a sentence.
            best_of: make so many fills, and return the likeliest `num` of them, the best first.
            draws: where a gap's length is not known, each fill is chosen among so many (docs/infilling.md).
            options: as for `sampler`.
        """
        codec, run = self.require_text_codec(), self._run_of("infill", options)
        sampler, fills = self.sampler(**options, gaps=True), 1 if num is None else num
        run["constraints"] = Constraints(seams, banned, sentence)
        steps = filling(sampler, codec, text, fills, new_generator(seed), choice=Choice(best_of, draws), **run)
        texts = [filled.text for filled in run_alone(steps)]
        return texts[0] if num is None else texts

    def infill_tokens(
        self, tokens: Tokens, mask: Mask, num: int | None = None, seed: int | None = None, **options: Any
    ) -> Tensor:
        """Draw anew the tokens, (rows, n) or (n,) with n ≤ L, where the mask is true. `num` adds an axis of fills in front.

        Of a network on a grid also (rows of the grid, columns), or several of these. The mask has the shape of the tokens, or
        of one row, flat or on the grid.
        """
        run = self._run_of("infill", options)
        return fill_tokens(self.sampler(**options, gaps=True), tokens, mask, num, new_generator(seed), **run)

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

        A mask of another size is scaled. `mask_rule` says which tokens it frees, see `tasks.inpaint.RULES`; "iterative" if it
        is not given and the codec is a VQ network, else "cover".
        """
        codec, run = self._require_image_codec(), self._run_of("inpaint", options)
        sampler, rows = self.sampler(**options, gaps=True), 1 if num is None else num
        drawn = Run(new_generator(seed), **run)
        images = as_pictures(run_alone(inpainting(sampler, codec, np.asarray(image), np.asarray(mask), rows, mask_rule, drawn)))
        return images[0] if num is None else images

    def vary(self, text: str, t: int, num: int | None = None, seed: int | None = None, **options: Any) -> Any:
        """Noise a text to step t of the schedule and run the chain back: one string, or a list of `num`.

        Options as for `sampler`, which `varying` makes.
        """
        codec, run = self.require_text_codec(), self._run_of("vary", options)
        rows = 1 if num is None else num
        texts = run_alone(varying(self.varying(**options), codec, text, t, rows, new_generator(seed), **run))
        return texts[0] if num is None else texts

    def varying(self, sweeps: int | None = None, **options: Any) -> Sampler:
        """The sampler of a variation. Its kernel is "reversal" if not told: it weighs the token that stands at a site, where
        the heat bath forgets it, so that much of the text comes back. A model whose own chain is causal makes some sweeps."""
        if self.method.can.clean_conditional:
            options = {"kernel": "reversal", **self.sampling, **options}
        if sweeps is None and self.process.schedule.causal:
            sweeps = SWEEPS
        return self.sampler(sweeps=sweeps, **options)

    def score(
        self,
        items: str | Sequence[Any] | Tensor | np.ndarray,
        kernel: str = "reversal",
        draws: int = 8,
        seed: int = 0,
        **options: Any,
    ) -> dict[str, Any]:
        """Upper bound on the negative log-likelihood under `kernel`'s chain, in bits per token; for text, per character too.

        Args:
            items: texts, which are cut into windows of L tokens; images, PIL's or (N, H, W); or tokens (N, L).
            options: sweeps, block and order, as for `sampler`.
        """
        (found,) = score_windows(
            self.sampler(**options), windows_of(items, self.codec, self.process), (kernel,), draws, seed
        ).values()
        return found

    def decode(self, tokens: Tokens) -> list[Any]:
        """PIL images, strings, what a user's codec makes, or lists of tokens where there is no codec."""
        return decode_tokens(self.codec, as_tokens(tokens))

    def _require_image_codec(self) -> ImageCodec:
        if not is_image_codec(self.codec):
            raise ValueError("this model has no image codec; give it tokens instead")
        return self.codec

    @staticmethod
    def _run_of(what: str, options: dict[str, Any]) -> dict[str, Any]:
        """Take out of the options what goes to a run; a task gives the sites, the start and the end itself."""
        for name in ("clamp", "absent", "start", "stop"):
            if name in options:
                raise ValueError(f"{what} sets the chain's {name} itself; run_chain takes one of your own")
        return {name: options.pop(name) for name in ("on_step", "progress", "watch") if name in options}


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
