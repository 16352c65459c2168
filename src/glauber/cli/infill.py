"""The command `infill`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from glauber.cli.app import app, command, how, output, what
from glauber.cli.files import require_free, require_names, require_new, save_images
from glauber.cli.load import open_model
from glauber.cli.options import ClassOptions, Codec, Force, Html, ModelName, Seed, Watched
from glauber.cli.result import print_result


@dataclass(frozen=True)
class Given:
    """What is filled in: a text, a file of texts, an image or tokens; and where the gaps are."""

    text: Annotated[
        str | None,
        what(
            help="A text; [[12]] in it is a gap of 12 tokens, [[3-20]] of 3 to 20, [[ ]] of any number. A plain [[ has a "
            "backslash before it."
        ),
    ] = None
    texts: Annotated[Path | None, what(help="Many texts: a .jsonl file, each line with a field text.")] = None
    image: Annotated[Path | None, what(help="An image of the model's size; with --mask, or smaller and with --outpaint.")] = (
        None
    )
    tokens: Annotated[Path | None, what(help="Tokens as .npy, one row or several; with --mask.")] = None
    mask: Annotated[
        Path | None,
        what(help="What to fill in: white pixels of an image of any size, or true in a .npy, e.g. one of the tokens' shape."),
    ] = None
    midi: Annotated[Path | None, what(help="A .mid, for a model of music: what it lacks is written, e.g. to a soprano.")] = None
    part: Annotated[str | None, what(help="With --midi: what to write anew, e.g. alto,tenor, bars 3-4 or bass bars 1-2.")] = (
        None
    )
    mask_rule: Annotated[
        str | None, what(help="Which tokens white pixels free: cover, paper or iterative, the default for a VQ codec.")
    ] = None
    outpaint: Annotated[
        str | None,
        what(help="Instead of --mask: go on around a smaller image; middle, or pixels from the left and the top: 8,16."),
    ] = None

    def __post_init__(self) -> None:
        if sum(source is not None for source in (self.text, self.texts, self.image, self.tokens, self.midi)) != 1:
            raise ValueError("say what to fill in: one of --text, --texts, --image, --tokens and --midi")
        if (self.mask is None) != (self.outpaint is not None or (self.image is None and self.tokens is None)):
            raise ValueError("tokens need a --mask, an image either a --mask or --outpaint, and text has its [[gaps]]")
        if self.part is not None and self.midi is None:
            raise ValueError("--part says what of a --midi to write anew; name one")
        if self.image is None and (self.outpaint is not None or self.mask_rule is not None):
            raise ValueError("--outpaint and --mask-rule are for images; name one with --image")


@dataclass(frozen=True)
class FillOptions:
    """What a fill of a text has to be, and which is chosen."""

    seams: Annotated[
        str, how(help="word joins a fill to the words around it, so that no word is cut; raw takes it as it comes.")
    ] = "word"
    ban_word: Annotated[
        list[str] | None,
        how("--ban-word", metavar="<word>", help="A word that no fill may have; say it again for more of them."),
    ] = None
    sentence: Annotated[bool, how("--sentence", help="Each gap ends with a sentence.")] = False
    best_of: Annotated[
        int | None, how(help="Make so many fills and give the likeliest, by the likelihood of the whole text per character.")
    ] = None
    draws: Annotated[
        int | None, how(help="Where a gap's length is not given, each fill is chosen among so many draws; 16 if not given.")
    ] = None

    @property
    def touched(self) -> bool:
        """Whether the user set any."""
        return self != FillOptions()

    def chosen(self) -> dict[str, Any]:
        """As keywords of `filling`."""
        from glauber.tasks.constraints import Choice, Constraints

        constraints = Constraints(self.seams, tuple(self.ban_word or ()), self.sentence)
        choice = Choice(self.best_of) if self.draws is None else Choice(self.best_of, self.draws)
        return {"constraints": constraints, "choice": choice}


@command(app)
def infill(
    model: ModelName,
    *,
    given: Given,
    num: Annotated[int, what("-n", "--num", help="How many different fills.")] = 1,
    codec: Codec = None,
    fill: FillOptions,
    options: ClassOptions,
    seed: Seed = None,
    out: Annotated[
        Path | None,
        output(help="With --image and --midi a folder, filled if not given; with --texts a .jsonl; with --tokens a .npy."),
    ] = None,
    html: Html = None,
    watch: Watched = False,
    force: Force = False,
    as_json: Annotated[
        bool,
        output("--json", help="Print the result as JSON; for texts with each fill's likelihood, tokens and calls."),
    ] = False,
) -> None:
    """Fill gaps in texts, images, tokens.

    What is given comes back as it was, to the byte.
    """
    if num < 1:
        raise ValueError(f"ask for at least one fill, not {num}")
    if watch and given.text is None:
        raise ValueError("--watch shows one text that fills, so it goes with --text")
    if html is not None and given.text is None and given.image is None:
        raise ValueError("--html shows one text or one image that is filled, so it goes with --text or --image")
    require_names({"--html": html}, force)
    _require_place(given, out, force, as_json)
    if fill.touched and given.text is None and given.texts is None:
        raise ValueError("--seams, --ban-word, --sentence, --best-of and --draws are for texts; name one with --text")
    from glauber.cli.infill_files import infill_lines, infill_named, infill_text, infill_tokens, inpaint
    from glauber.cli.replay import Replay

    began = time.perf_counter()
    loaded, bar = open_model(model), not as_json
    replay = (
        None if html is None else Replay(loaded, loaded.sampler(**options.chosen(), gaps=True), html, model, seed, given.text)
    )
    if given.texts is not None:
        infill_lines(loaded, given.texts, out, num, seed, options, fill.chosen(), as_json)
        return
    if given.image is not None:
        chosen = options.chosen() | ({} if given.mask_rule is None else {"mask_rule": given.mask_rule})
        film = None if replay is None else replay.film
        images = inpaint(loaded, given.image, given.mask, given.outpaint, num, seed, on_step=film, progress=bar, **chosen)
        result: dict[str, Any] = {"files": save_images(images, out or FOLDER)}
    elif given.midi is not None:
        folder = out or FOLDER
        result = infill_named(loaded, given.midi, given.part, folder, num, seed, progress=bar, **options.chosen())
    elif given.tokens is not None and given.mask is not None:
        fills = None if num == 1 else num
        result = infill_tokens(loaded, given.tokens, given.mask, out, fills, seed, progress=bar, **options.chosen())
    else:
        recorder = None if replay is None else replay.watch
        result = infill_text(loaded, str(given.text), num, seed, options, fill.chosen(), watch, as_json, recorder)
    if replay is not None:
        result["replay"] = replay.save({"texts": result.get("texts", [])})
    print_result({"seconds": time.perf_counter() - began, **result}, as_json)


FOLDER = Path("filled")
"""For images, where no other is named."""


def _require_place(given: Given, out: Path | None, force: bool, as_json: bool) -> None:
    """Refuse where the result cannot be written."""
    if given.image is not None or given.midi is not None:
        require_free(out or FOLDER, force)
    elif given.text is not None and out is not None:
        raise ValueError("the text goes to the screen; --out is for --texts, --image and --tokens")
    elif out is not None:
        require_new(out, force)
    elif given.tokens is not None and not as_json:
        raise ValueError("say where to put the filled tokens, e.g. --out filled.npy, or print them with --json")
