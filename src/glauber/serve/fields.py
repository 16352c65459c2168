"""What requests hold. Every number has a bound, every list and text a length; what is not named here is refused by its name."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from glauber.process.schedule import ORDERS
from glauber.serve import limits

Whole = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Seed = Annotated[Whole, Field(ge=0, lt=2**63)]
Num = Annotated[Whole, Field(ge=1, le=limits.NUM)]
Temperature = Annotated[Number, Field(gt=0, le=100)]
TopP = Annotated[Number, Field(gt=0, le=1)]
Token = Annotated[Whole, Field(ge=0, lt=2**24)]
Row = Annotated[list[Token], Field(min_length=1, max_length=limits.TOKENS)]
Picture = Annotated[str, Field(max_length=limits.BODY, description="A PNG as data:image/png;base64,…")]
Text = Annotated[str, Field(max_length=limits.TEXT)]
Word = Annotated[str, Field(min_length=1, max_length=100)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Strict(BaseModel):
    """A request for one of the models."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())
    model: Name = Field(description="One of /v1/models.")

    @property
    def options(self) -> dict[str, Any]:
        """Those of the sampler that were said, as `Model.sampler` takes them."""
        names = CHAIN_OPTIONS & self.model_fields_set
        return {name: value for name in sorted(names) if (value := getattr(self, name)) is not None}


class Schedule(Strict):
    """The schedule of a chain; what is not said is the model's own."""

    sweeps: Annotated[Whole, Field(ge=1, le=limits.SWEEPS)] | None = Field(None, description="Visits of each site.")
    block: Annotated[Whole, Field(ge=1, le=limits.SITES)] | None = Field(None, description="Sites drawn at once.")
    order: Literal[ORDERS] | Annotated[list[Token], Field(max_length=limits.SITES)] | None = Field(  # type: ignore[valid-type]
        None, description="The direction of writing, or the sites as they are written."
    )


class Law(Strict):
    """How a token is drawn from its law."""

    temperature: Temperature | Annotated[list[Temperature], Field(min_length=1, max_length=16)] | None = Field(
        None, description="One, or several for equal parts of the chain."
    )
    top_p: TopP | None = None
    top_k: Annotated[Whole, Field(ge=1, le=2**24)] | None = None
    ban: Annotated[list[Token], Field(max_length=1024)] | None = Field(None, description="Tokens that are never drawn.")


class Chain(Schedule, Law):
    """All options of the sampler that fit any task."""

    kernel: Literal["heat-bath", "reversal"] | None = None
    mark_noise: bool | None = Field(None, strict=True)
    skip: bool | None = Field(None, strict=True)
    clamp_rule: Literal["exact", "paper"] | None = None
    truncate: Literal["clean", "mixture"] | None = None
    precision: Literal["fp32", "bf16"] | None = None


CHAIN_OPTIONS = {
    *("sweeps", "block", "order", "temperature", "top_p", "top_k", "ban", "kernel", "mark_noise", "skip", "clamp_rule"),
    *("truncate", "precision", "class_", "guidance", "calls", "sampler"),
}


class Classes(Chain):
    """The same, where the model may have been trained on classes."""

    class_: Name | Annotated[Whole, Field(ge=0, lt=2**24)] | None = Field(None, alias="class", description="By name or number.")
    guidance: Annotated[Number, Field(ge=0, le=1000)] | None = None


class Streamed(Strict):
    """How many results, and how they come."""

    n: Num = 1
    seed: Seed | None = Field(None, description="Drawn and told if it is not given.")
    stream: bool = Field(False, strict=True, description="Server-sent events: start, state, done.")
    every: Annotated[Whole, Field(ge=1, le=2**22)] | None = Field(None, description="A state every so many steps.")


class Infill(Classes, Streamed):
    """A text with gaps: [[12]] stands for 12 tokens, [[3-20]] for 3 to 20, [[ ]] for any number."""

    text: Text
    probabilities: bool = Field(False, strict=True, description="Of each token that is filled in; a network call for each.")
    seams: Literal["word", "raw"] = Field("word", description="Whether fills are joined to what is given as words.")
    ban_words: Annotated[list[Word], Field(max_length=64)] = Field([], description="Words that no fill may have.")
    sentence: bool = Field(False, strict=True, description="Each gap ends with a sentence.")
    best_of: Annotated[Whole, Field(ge=1, le=64)] | None = Field(None, description="So many are made, the likeliest answered.")
    draws: Annotated[Whole, Field(ge=1, le=64)] = Field(16, description="Among so many, where a gap's length is open.")


class Vary(Chain, Streamed):
    """A text that is noised part of the way and brought back."""

    text: Text
    strength: Annotated[Number, Field(ge=0, le=1)] = 0.5


class Score(Schedule):
    """How likely texts are."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=64)]
    kernel: Literal["heat-bath", "reversal"] = "reversal"
    draws: Annotated[Whole, Field(ge=1, le=64)] = 8
    seed: Seed = 0


class Tokenize(Strict):
    """A text that becomes tokens."""

    text: Text


class OneSite(Law):
    """One site of a text or of tokens: its law given all others, and one redraw."""

    text: Text | None = None
    tokens: Row | None = None
    site: Annotated[Whole, Field(ge=0, lt=limits.TOKENS)]
    redraw: bool = Field(False, strict=True)
    seed: Seed | None = None
    temperature: Temperature = 1.0


class Images(Classes, Streamed):
    """Whole images."""

    calls: Annotated[Whole, Field(ge=1, le=limits.CALLS)] | None = Field(
        None, description="At most so many network calls each."
    )
    sampler: Name | None = None


class Inpaint(Classes, Streamed):
    """An image whose white part of the mask is filled in."""

    image: Picture
    mask: Picture
    mask_rule: Literal["cover", "paper", "iterative"] | None = None


class StreamOptions(BaseModel):
    """As OpenAI's."""

    model_config = ConfigDict(extra="forbid")
    include_usage: bool = Field(False, strict=True)


class Completion(Chain):
    """As OpenAI's; beyond it the options of the chain. What it has and we do not is refused, unless it asks for nothing."""

    prompt: Text
    suffix: Text | None = None
    max_tokens: Annotated[Whole, Field(ge=1, le=limits.TOKENS)] = 16
    n: Num = 1
    temperature: Annotated[Number, Field(ge=0, le=100)] = Field(1.0, description="0 takes the likeliest token.")
    top_p: TopP = 1.0
    seed: Seed | None = None
    stop: Text | Annotated[list[Text], Field(max_length=4)] | None = None
    logprobs: Annotated[Whole, Field(ge=0, le=5)] | None = None
    stream: bool = Field(False, strict=True)
    stream_options: StreamOptions | None = None
    best_of: Num | None = Field(None, description="Only as many as n.")
    echo: Literal[False] | None = None
    frequency_penalty: Literal[0] | None = None
    presence_penalty: Literal[0] | None = None
    logit_bias: Annotated[dict[str, Any], Field(max_length=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def without_null(cls, said: Any) -> Any:
        """OpenAI's clients say null of what they leave to the server."""
        return {name: value for name, value in said.items() if value is not None} if isinstance(said, dict) else said
