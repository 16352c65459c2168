"""The commands of `bench`."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from glauber.cli.app import app, command, how, output, what
from glauber.cli.files import require_new, require_writable
from glauber.cli.load import calm_threads
from glauber.cli.options import Force

benches = typer.Typer(help="Measure speed; compare methods.")
app.add_typer(benches, name="bench")

Raw = Annotated[Path | None, output("--out", help="A JSON file for the raw figures.")]
Quick = Annotated[bool, how("--quick", help="Tiny, to see that it runs.")]


@command(benches, "train")
def bench_train(out: Raw = None, quick: Quick = False, force: Force = False) -> None:
    """Measure the speed of training.

    The result is compared with the limit of the hardware.
    """
    _measure(out, force, lambda bench, _: bench.bench_train(seconds=1.0 if quick else 10.0, quick=quick))


@command(benches, "sample")
def bench_sample(out: Raw = None, quick: Quick = False, force: Force = False) -> None:
    """Measure the speed of sampling.

    The result is compared with the limit of the hardware.
    """
    _measure(out, force, lambda bench, keep: bench.bench_sample(0.2 if quick else 4.0, quick, keep))


@command(benches, "prepare")
def bench_prepare(
    text: Annotated[list[str], what(help="A text, or several; used again up to 100 MB.")],
    out: Raw = None,
    quick: Quick = False,
    force: Force = False,
) -> None:
    """Measure the speed of prepare.

    The library tokenizers, which encodes the same text in memory, is measured for comparison.
    """
    _measure(out, force, lambda bench, _: bench.bench_prepare(text, quick))


@command(benches, "oracle")
def bench_oracle(out: Raw = None, quick: Quick = False, force: Force = False) -> None:
    """Compare samplers with the truth.

    Which are right, and at what cost: all samplers of this package, and some of others, driven by exact conditionals of a small
    table and of a hidden Markov chain. What they get wrong is then their own doing. A few minutes; --out also gets a picture.
    """
    picture = None
    if out is not None:
        require_new(out, force)
        if out.suffix.lower() == ".png":
            raise ValueError(f"--out is the file of the figures, beside which the picture is drawn; name it {out.stem}.json")
        picture = out.with_suffix(".png")
        require_new(picture, force)
    calm_threads()

    def work(bench: ModuleType, keep: Callable[[dict[str, Any]], None]) -> Any:
        return bench.bench_oracle(quick, picture)

    _measure(out, force, work)


def _measure(out: Path | None, force: bool, work: Callable[[ModuleType, Callable[[dict[str, Any]], None]], Any]) -> None:
    """Do the work, and keep its figures; it may keep some earlier."""
    if out is not None:
        require_new(out, force)
    from glauber import bench
    from glauber.provenance import write_figures

    def keep(figures: dict[str, Any]) -> None:
        if out is not None:
            write_figures(out, figures)

    keep(work(bench, keep))


@command(benches, "table1")
def bench_table1(
    out: Annotated[Path, output(help="Folder of the table; called again, it goes on with what is there.")],
    data: Annotated[Path | None, what(help="Shards of text to train on, as `glauber prepare` makes them.")] = None,
    test: Annotated[Path | None, what(help="A held-out text; the validation rows of the data if not given.")] = None,
    methods: Annotated[
        str | None,
        what(help="Some of ggm, ar, mdlm, sedd, udlm, plaid, mlm-gibbs, as in ggm,ar; or none, to evaluate alone."),
    ] = None,
    seconds: Annotated[float | None, how(help="Of training, for each; 180, or 1.5 with --tiny.")] = None,
    settings: Annotated[
        list[str] | None, how("--set", help="Change a setting of all, e.g. network.width=512. May be repeated.")
    ] = None,
    number: Annotated[int | None, how("-n", "--number", help="Samples for each row; 256, or 24 with --tiny.")] = None,
    judge: Annotated[
        str | None, how(help="Causal language model that scores the samples: a folder, .gguf file or hub id.")
    ] = None,
    tiny: Annotated[bool, how("--tiny", help="A minute on two cores, with data and a language model of its own.")] = False,
) -> None:
    """Compare methods as the paper does.

    In small: all methods on one network, trained equally long, sampled, bounded, and scored by a causal language model.

    What is done is not done again, so that training and evaluation may take place on two machines, and in parts.
    """
    require_writable(out)
    from glauber import bench
    from glauber.bench.table1.evaluated import markdown
    from glauber.train.overrides import parse_settings

    calm_threads()
    chosen = None if methods is None else [name.strip() for name in methods.split(",") if name.strip() != "none"]
    table = bench.bench_table1(
        out, data, test, chosen, seconds, parse_settings(settings) if settings else None, number, judge, tiny
    )
    print(f"\n{markdown(table['rows'])}\ntable1.json, table1.md and the pictures are in {out}")
