"""Completions as OpenAI's: a prompt that is continued, or filled up to a suffix."""

import secrets
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.codec import TextCodec
from glauber.conditional import CausalConditional
from glauber.method import Run
from glauber.model import Model
from glauber.process import Process
from glauber.process.draws import new_generator
from glauber.sampler import Sampler
from glauber.serve import fields
from glauber.serve.job import Job, Task
from glauber.serve.tasks import Answer, Make, cost, require_within
from glauber.serve.writer import Piece, Writer
from glauber.tasks.gaps import Size
from glauber.tasks.infill import filling
from glauber.tasks.queries import site_laws
from glauber.tasks.steps import Draw, Steps
from glauber.tasks.template import begin_with_space, pattern_of, template_of, token_texts
from glauber.tasks.windows import beyond, windows

LEAST = -1000.0
"""Of a logarithm, which JSON has no infinity for."""


def completion(request: fields.Completion, seed: int, samplers: Make) -> Task:
    """A continuation; with a suffix what stands between."""
    stops = [request.stop] if isinstance(request.stop, str) else list(request.stop or [])
    require_servable(request, stops)
    return _between(request, seed, samplers) if request.suffix else _onward(request, stops, seed, samplers)


def require_servable(request: fields.Completion, stops: Sequence[str]) -> None:
    """Refuse what does not go together."""
    if request.best_of is not None and request.best_of != request.n:
        raise ValueError("best_of is not served: all completions are returned, so it can only be n; leave it out")
    if request.suffix and stops:
        raise ValueError("stop is not served with a suffix: what stands between has max_tokens tokens; leave one of them out")
    if "" in stops:
        raise ValueError("stop holds an empty text, at which everything would end; leave it out")
    if request.stream_options is not None and not request.stream:
        raise ValueError("stream_options is for streams; add stream, or leave it out")


def chain_options(options: dict[str, Any]) -> dict[str, Any]:
    """With temperature 0 as what it stands for: the likeliest token."""
    if options.get("temperature") != 0:
        return options
    return {name: value for name, value in options.items() if name not in ("temperature", "top_p")} | {"top_k": 1}


def _between(request: fields.Completion, seed: int, samplers: Make) -> Task:
    def task(job: Job, model: Model) -> Steps[Answer]:
        began, codec = time.monotonic(), model.require_text_codec()
        sampler = samplers(request, lambda options: model.sampler(**chain_options(options), gaps=True))
        L, gap = sampler.length, Size(request.max_tokens, request.max_tokens)
        pattern = pattern_of([request.prompt, str(request.suffix)], [gap], codec, L)
        template = pattern.template([request.max_tokens])
        require_within(request.n * sampler.calls)
        probable = request.logprobs is not None
        filled = yield from filling(sampler, codec, pattern, request.n, new_generator(seed))
        pieces = [Piece(each.gaps[0].text, each.gaps[0].tokens, "length") for each in filled]
        (start, (sites,)), *_ = windows(len(template.tokens), L, template.gaps)
        part = template.tokens[start : start + L]
        rows = F.pad(part, (0, L - len(part))).repeat(len(filled), 1)
        inside = range(sites.start - start, sites.stop - start)
        rows[:, inside.start : inside.stop] = torch.tensor([piece.tokens for piece in pieces])
        text_sites = torch.arange(L) < len(part)
        laws = _both_ways(sampler, rows, text_sites, inside) if probable else None
        given = len(template.tokens) - request.max_tokens
        note = None
        if len(part) < len(template.tokens):
            unseen = len(template.tokens) - len(part)
            note = f"the model has {L} tokens and saw those around the gap; {unseen} of the text it did not see"
        return _answer(request, codec, pieces, laws, given, note, cost(job, began, seed))

    return task


def _onward(request: fields.Completion, stops: Sequence[str], seed: int, samplers: Make) -> Task:
    def task(job: Job, model: Model) -> Steps[Answer]:
        began, codec = time.monotonic(), model.require_text_codec()
        sampler = samplers(request, lambda options: model.sampler(**chain_options(options), gaps=True))
        L, more = sampler.length, request.max_tokens
        if more > L:
            raise ValueError(f"max_tokens is {more}, and this model's rows have {L} tokens; ask for at most {L}")
        require_within(request.n * sampler.calls)
        begun = template_of([request.prompt, ""], [1], codec)
        prompt = begun.tokens[:-1]
        dropped = max(0, len(prompt) + more - L)
        shown = prompt[dropped:]
        writer = Writer(job, sampler, codec, shown, request, stops, begun.held[0])
        n, sites = len(shown), torch.arange(L)
        wanted = (sites >= n) & (sites < n + more)
        rules = [(sites == n, ~begin_with_space(codec))] if begun.held[0] else []
        clamp = (sites < n, F.pad(shown, (0, L - n)))
        stop, away = sampler.schedule.settled(wanted), beyond(sampler, n + more)
        rows = yield Draw(
            sampler,
            request.n,
            Run(new_generator(seed), clamp, None, stop, away, rules, writer.on_step),
        )
        rows = rows.cpu()
        pieces = writer.pieces(rows)
        note = f"the model has {L} tokens; the first {dropped} of the prompt were left out" if dropped else None
        laws = None
        if request.logprobs is not None:
            laws = _laws(sampler, rows, torch.arange(L) < n + more, range(n, n + max(len(piece.tokens) for piece in pieces)))
        return _answer(request, codec, pieces, laws, len(prompt), note, cost(job, began, seed))

    return task


def _laws(sampler: Sampler, rows: Tensor, text: Tensor, sites: range) -> list[Tensor]:
    """(rows, V) the law of each site, in logarithms: given those before it where the model writes so, else given all others."""
    process = Process(sampler.schedule, sampler.process.noise)
    conditional = sampler.method.conditional(sampler.network, process)
    if not isinstance(conditional, CausalConditional):
        return _both_ways(sampler, rows, text, sites)
    with torch.no_grad():
        laws = conditional.laws(rows.to(process.noise.probs.device))[:, sites.start : sites.stop].cpu()
    return list(laws.unbind(1))


def _both_ways(sampler: Sampler, rows: Tensor, text: Tensor, sites: range) -> list[Tensor]:
    found = torch.cat([law for law, _ in site_laws(sampler, rows, text, sites)])
    return list(found.log().view(len(rows), len(sites), -1).unbind(1))


def _answer(
    request: fields.Completion,
    codec: TextCodec,
    pieces: Sequence[Piece],
    laws: list[Tensor] | None,
    prompt: int,
    note: str | None,
    spent: Answer,
) -> Answer:
    written = sum(len(piece.tokens) for piece in pieces)
    choices = [
        {
            "index": row,
            "text": piece.text,
            "finish_reason": piece.reason,
            "logprobs": None if laws is None else _logprobs(request, codec, piece, [law[row] for law in laws]),
        }
        for row, piece in enumerate(pieces)
    ]
    return {
        "choices": choices,
        "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
        "glauber": spent | ({} if note is None else {"note": note}),
    }


def _logprobs(request: fields.Completion, codec: TextCodec, piece: Piece, laws: list[Tensor]) -> Answer:
    texts = token_texts(codec)
    found: Answer = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    place = len(request.prompt)
    for token, law in zip(piece.tokens, laws, strict=False):
        best = law.topk(min(int(request.logprobs or 0), len(law)))
        found["tokens"].append(texts[token])
        found["token_logprobs"].append(max(LEAST, law[token].item()))
        tops = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        found["top_logprobs"].append({texts[each]: max(LEAST, value) for each, value in tops})
        found["text_offset"].append(place)
        place += len(texts[token])
    return found


def new_id() -> str:
    """Of an answer."""
    return f"cmpl-{secrets.token_hex(12)}"
