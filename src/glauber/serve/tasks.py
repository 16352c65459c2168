"""What the requests ask a model for, as steps that share chains: filling, varying, scoring, one site, tokens."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from glauber.chain.truncation import Truncation
from glauber.codec import TextCodec
from glauber.method import Run
from glauber.model import Model
from glauber.process.draws import categorical, new_generator, uniform
from glauber.sampler import Sampler
from glauber.serve import fields, limits
from glauber.serve.job import Job, Task
from glauber.serve.show import TextShow
from glauber.tasks.constraints import Choice, Constraints
from glauber.tasks.infill import filling
from glauber.tasks.queries import site_laws
from glauber.tasks.score import score_windows, windows_of
from glauber.tasks.steps import Draw, Steps
from glauber.tasks.template import Filled, read_pattern, row_texts, token_texts
from glauber.tasks.vary import varying
from glauber.tasks.windows import windows

Answer = dict[str, Any]
Make = Callable[[fields.Strict, Callable[[dict[str, Any]], Sampler]], Sampler]
"""(request, build) → the sampler of the request's options, which the worker keeps; `build` makes it of them."""


def require_within(calls: int, most: int = limits.CALLS) -> None:
    """Refuse what would take more network calls than a request may."""
    if calls > most:
        raise ValueError(f"this may take {calls:,} network calls, more than the {most:,} of a request; ask for less")


def infill(request: fields.Infill, seed: int, samplers: Make) -> Task:
    """The text with its gaps filled in, as `glauber infill` does it."""

    def task(job: Job, model: Model) -> Steps[Answer]:
        began, codec = time.monotonic(), model.require_text_codec()
        sampler = samplers(request, lambda options: model.sampler(**options, gaps=True))
        pattern = read_pattern(request.text, codec, sampler.length)
        template = pattern.template([size.start for size in pattern.sizes])
        parts = windows(len(template.tokens), sampler.length, template.gaps)
        choice = Choice(request.best_of, request.draws)
        made = choice.made(request.n)
        draws = 1 if pattern.fixed else request.draws
        if made * draws > limits.DRAWS:
            raise ValueError(f"this draws {made * draws:,} fills at once, more than {limits.DRAWS}; lower draws, n or best_of")
        most = sampler.calls * len(parts) * draws
        free = int((~template.given).sum()) if pattern.fixed else sampler.length
        require_within(made * (most + (free if request.probabilities else 0)))
        show = None
        if request.stream:
            about = {"seed": seed, "calls": most}
            show = TextShow(job, sampler.schedule, codec, template.tokens, template.given, request, about, made)
        wanted = Constraints(request.seams, tuple(request.ban_words), request.sentence)
        given = request.n, new_generator(seed), request.probabilities, show, False, wanted, choice
        filled = yield from filling(sampler, codec, request.text, *given)
        return fills(filled) | cost(job, began, seed)

    return task


def fills(filled: Sequence[Filled]) -> Answer:
    """The texts, and for each of them its gaps with their tokens."""
    gaps = [[_known(gap._asdict()) for gap in each.gaps] for each in filled]
    return {"texts": [each.text for each in filled], "fills": gaps}


def _known(parts: Answer) -> Answer:
    """Those that were worked out."""
    return {name: value for name, value in parts.items() if value is not None}


def vary(request: fields.Vary, seed: int, samplers: Make) -> Task:
    """Variations of a text, as `glauber vary` makes them."""

    def task(job: Job, model: Model) -> Steps[Answer]:
        began, codec = time.monotonic(), model.require_text_codec()
        sampler = samplers(request, lambda options: model.varying(**options))
        schedule = sampler.schedule
        t = round(request.strength * len(schedule.times)) * schedule.block
        require_within(2 * request.n * sampler.calls)
        show = None
        if request.stream:
            tokens = torch.tensor(codec.encode(request.text), dtype=torch.int64)
            given, about = torch.zeros(len(tokens), dtype=torch.bool), {"seed": seed, "calls": sampler.calls}
            show = TextShow(job, schedule, codec, tokens, given, request, about)
        on_step = None if show is None else show(None, 0, 0)
        texts = yield from varying(sampler, codec, request.text, t, request.n, new_generator(seed), on_step)
        return {"texts": texts, "step": t, "steps": schedule.steps} | cost(job, began, seed)

    return task


def score(request: fields.Score, samplers: Make) -> Task:
    """Bounds on the negative log-likelihood, as `Model.score` has them."""

    def task(job: Job, model: Model) -> Steps[Answer]:
        began = time.monotonic()
        model.require_text_codec()
        names = [name for name in ("sweeps", "block", "order") if getattr(request, name) is not None]
        sampler = samplers(request, lambda _: model.sampler(**{name: getattr(request, name) for name in names}))
        cut = windows_of(request.texts, model.codec, model.process)
        require_within(len(cut.tokens) * request.draws, 1024)
        yield turn(sampler)
        (found,) = score_windows(sampler, cut, (request.kernel,), request.draws, request.seed).values()
        return {name: _finite(value) for name, value in found.items()} | {"seconds": time.monotonic() - began}

    return task


def _finite(value: Any) -> Any:
    """None for what JSON cannot say."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tokenize(request: fields.Tokenize) -> Task:
    """Tokens and the text of each."""

    def task(job: Job, model: Model) -> Steps[Answer]:
        codec = model.require_text_codec()
        tokens = codec.encode(request.text)
        return {"tokens": tokens, "pieces": row_texts(codec, tokens), "length": model.process.length}
        yield  # a generator, which needs no rows

    return task


def one_site(request: fields.OneSite, seed: int, samplers: Make) -> Task:
    """The law of one site given all others, and one draw from it."""

    def task(job: Job, model: Model) -> Steps[Answer]:
        began = time.monotonic()
        tokens = _tokens_of(request, model)
        sampler = samplers(request, lambda _: model.sampler(gaps=True))
        L, codec = sampler.length, model.text_codec
        if len(tokens) > L:
            raise ValueError(f"there are {len(tokens)} tokens, more than this model's {L}; give a piece around the site")
        if request.site >= len(tokens):
            raise ValueError(f"site {request.site} is outside the sequence 0..{len(tokens) - 1}")
        row = model.process.check_tokens([tokens + [0] * (L - len(tokens))])
        truncation = Truncation(request.temperature, request.top_p or 1.0, request.top_k, request.ban or ())
        truncation.check_vocab(model.process.vocab)
        yield turn(sampler)
        ((law, own),) = site_laws(sampler, row, torch.arange(L) < len(tokens), [request.site])
        told: Answer = {"law": likeliest(law[0], codec), "token": one_token(int(own[0, 0]), law[0], codec)}
        if request.redraw:
            drawn = categorical(truncation(law.log(), 0, 1), uniform((1,), new_generator(seed), law.device))
            tokens[request.site] = int(drawn[0])
            told |= {"redrawn": one_token(int(drawn[0]), law[0], codec), "tokens": tokens, "seed": seed}
            told |= {} if codec is None else {"text": codec.decode(tokens), "pieces": row_texts(codec, tokens)}
        return told | {"seconds": time.monotonic() - began}

    return task


def _tokens_of(request: fields.OneSite, model: Model) -> list[int]:
    if (request.text is None) == (request.tokens is None):
        raise ValueError("give either a text or its tokens")
    return list(request.tokens) if request.tokens is not None else model.require_text_codec().encode(str(request.text))


def turn(sampler: Sampler) -> Draw:
    """No rows, but the worker's time."""
    return Draw(sampler, 0, Run())


def likeliest(law: torch.Tensor, codec: TextCodec | None, number: int = limits.LAW) -> list[Answer]:
    """The first tokens of a law (V,)."""
    return [one_token(token, law, codec) for token in law.topk(min(number, len(law))).indices.tolist()]


def one_token(token: int, law: torch.Tensor, codec: TextCodec | None) -> Answer:
    """With its probability, and its text where it has one."""
    piece = {} if codec is None else {"piece": token_texts(codec)[token]}
    return {"token": token, **piece, "probability": law[token].item()}


def cost(job: Job, began: float, seed: int) -> Answer:
    """What an answer took."""
    return {"seed": seed, "calls": job.calls, "seconds": time.monotonic() - began}
