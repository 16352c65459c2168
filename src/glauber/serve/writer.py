"""What a completion says while it is written: where it ends, and what of it is certain."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from glauber.codec import TextCodec
from glauber.sampler import Sampler
from glauber.serve import fields
from glauber.serve.job import Job
from glauber.tasks.template import CONTEXT, added_text


class Piece(NamedTuple):
    """One completion."""

    text: str
    tokens: list[int]
    reason: str


class Writer:
    """Follows rows that are written from left to right: which have ended, and what they say so far."""

    def __init__(
        self,
        job: Job,
        sampler: Sampler,
        codec: TextCodec,
        prompt: Tensor,
        request: fields.Completion,
        stops: Sequence[str],
        held: bool,
    ):
        self.job, self.codec, self.stops, self.held = job, codec, stops, held
        self.onward, self.length, self.most = sampler.schedule.causal, sampler.length, request.max_tokens
        self.prompt, self.context = prompt.tolist(), prompt.tolist()[-CONTEXT:]
        self.before = codec.decode(self.context)
        self.stream = request.stream
        self.said = [""] * request.n
        self.ended: list[Piece | None] = [None] * request.n

    def on_step(self, t: int, x: Tensor) -> None:
        """Tell what is new, and take out the rows that have ended."""
        known = min(self.length - t - len(self.prompt), self.most)
        if not self.onward or known < 1:
            return
        first = len(self.prompt)
        for row, ids in enumerate(x[:, first : first + known].tolist()):
            if self.ended[row] is not None or not (self.stream or self.stops or ids[-1] == self.codec.end):
                continue
            piece = self.piece(ids)
            if piece.reason == "stop":
                self.ended[row] = piece
                if self.job.rows is not None:
                    self.job.rows.gone[row] = True
            if self.stream and piece.reason != "stop" and known < self.most:
                self._tell(row, self._sure(piece.text))

    def pieces(self, rows: Tensor) -> list[Piece]:
        """What each row (L,) says after the prompt."""
        first = len(self.prompt)
        written = zip(self.ended, rows[:, first : first + self.most].tolist(), strict=True)
        return [self.piece(ids) if ended is None else ended for ended, ids in written]

    def piece(self, ids: list[int]) -> Piece:
        """Up to the end of the text, or to the first of the texts at which it stops."""
        reason, whole = "length", len(ids)
        if self.codec.end in ids:
            reason, whole = "stop", ids.index(self.codec.end)
        ids = ids[:whole]
        text = self._text(ids)
        found = [place for stop in self.stops if (place := text.find(stop)) >= 0]
        if found:
            reason, text = "stop", text[: min(found)]
            ids = ids[: next(k for k in range(len(ids) + 1) if len(self._text(ids[:k])) >= len(text))]
        return Piece(text, ids, reason)

    def _text(self, ids: list[int]) -> str:
        text = added_text(self.codec.decode([*self.context, *ids]), self.before, self.codec, ids)
        return text.removeprefix(" ") if self.held else text

    def _sure(self, text: str) -> str:
        """Without what may yet become another character, or one of the texts at which it stops."""
        text = text.rstrip("\ufffd")
        held = max((k for stop in self.stops for k in range(1, len(stop)) if text.endswith(stop[:k])), default=0)
        return text[: len(text) - held]

    def _tell(self, row: int, text: str) -> None:
        if len(text) > len(self.said[row]) and text.startswith(self.said[row]):
            self.job.tell("text", (row, text[len(self.said[row]) :]))
            self.said[row] = text
