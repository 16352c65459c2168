"""The options that several commands share."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from glauber.cli.app import output, sampling, what

BUNDLED = " or ".join(sorted(config.parent.name for config in (Path(__file__).parents[1] / "bundled").glob("*/config.json")))
MODEL = f"{BUNDLED}, which are in the box; the folder of a run or a model; or a hub id owner/name"
PAPERS = "paper-owt, paper-celebahq, paper-ffhq, paper-800m"
MINUTES = 5.0
"""Of a run whose recipe is chosen for it."""
RECIPES = f"tiny, small, base, large, digits, novels, fashion, faces or chorales, or one of the paper's: {PAPERS}"


def use_named(word: str | None) -> str | None:
    """Find the user's codec, before anything that needs it."""
    if word is not None:
        from glauber.codec import use_codec

        use_codec(word)
    return word


def check_seed(seed: int | None) -> int | None:
    """Refuse what no generator takes."""
    if seed is not None and not 0 <= seed < 2**63:
        raise typer.BadParameter(f"a seed is a whole number from 0 to 2^63 - 1, not {seed}")
    return seed


ModelName = Annotated[str, typer.Argument(metavar="MODEL", help=f"{MODEL}.")]
Seed = Annotated[int | None, sampling(callback=check_seed, help="Give one to get the same result again.")]
Codec = Annotated[
    str | None,
    what("--codec", callback=use_named, help="A codec of your own: module:Class, or the name of one that is installed."),
]
Watched = Annotated[bool, output("--watch", help="Show in a terminal how the text forms.")]
Html = Annotated[
    Path | None, output(help="A .html: the chain step by step, as one file that any browser opens, to keep or to send.")
]
Force = Annotated[bool, output("--force", help="Write into a folder that is not empty, or replace a file.")]
Json = Annotated[bool, output("--json", help="Print the result as JSON, for programs.")]


@dataclass(frozen=True)
class ScheduleOptions:
    """The schedule of a chain; None for the model's own."""

    sweeps: Annotated[int | None, sampling(help="Visits per site; the model's own number if not given.")] = None
    block: Annotated[
        int | None,
        sampling(
            help="Sites re-sampled at once: faster, no longer exact. With left-to-right neighbours are drawn together, so "
            "segments is better."
        ),
    ] = None
    order: Annotated[
        str | None,
        sampling(
            help="The direction of writing: left-to-right, right-to-left, random, strided (neighbours one after the other, the "
            "sites of a block far apart) or segments (equal parts, each from left to right, all at once)."
        ),
    ] = None

    def chosen(self) -> dict[str, Any]:
        """What the user set, as keywords of the library."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class ChainOptions(ScheduleOptions):
    """A chain: its schedule, and how each site is drawn."""

    kernel: Annotated[str | None, sampling(help="heat-bath, or reversal, which keeps a site's own token as evidence.")] = None
    top_p: Annotated[float | None, sampling(help="Draw only from the likeliest tokens that make up this probability.")] = None
    top_k: Annotated[int | None, sampling(help="Draw only from this many likeliest tokens.")] = None
    temperature: Annotated[
        str | None, sampling(help="Below 1 safer, above 1 more varied; 1.05,1.0 is 1.05 for the first half of the chain.")
    ] = None

    def chosen(self) -> dict[str, Any]:
        options = super().chosen()
        if self.temperature is not None:
            try:
                options["temperature"] = [float(part) for part in self.temperature.split(",")]
            except ValueError:
                raise ValueError(f"temperature is a number, or several with commas between, not {self.temperature!r}") from None
        return options


@dataclass(frozen=True)
class ClassOptions(ChainOptions):
    """A chain that may be conditioned on a class."""

    class_: Annotated[
        str | None, what("--class", help="Of one class, by its name or number, where the model was trained on classes.")
    ] = None
    guidance: Annotated[
        float | None,
        sampling(
            help="How far to go beyond the class's own law, e.g. 2; not at all if not given. It doubles the network calls."
        ),
    ] = None
