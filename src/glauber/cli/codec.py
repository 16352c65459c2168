"""The command `codec train`."""

from pathlib import Path
from typing import Annotated

import typer

from glauber.cli.app import app, command, how, output, program, what
from glauber.cli.files import require_free
from glauber.cli.load import calm_threads
from glauber.cli.options import Force

codecs = typer.Typer(help="Train a codec of images.")
app.add_typer(codecs, name="codec")


@command(codecs)
def train(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Images, and folders of them.")],
    out: Annotated[Path, output(help="Folder for the codec, its log and sheets of reconstructions.")],
    size: Annotated[int, what(help="Cut images to squares and resize these to so many pixels a side.")] = 64,
    codes: Annotated[int, how(help="V, the number of different tokens.")] = 512,
    factor: Annotated[int, how(help="Pixels a side that become one token, a power of two.")] = 8,
    width: Annotated[int, how(help="Channels of the network's first block.")] = 32,
    steps: Annotated[int, how(help="Steps of training.")] = 10_000,
    batch: Annotated[int, how(help="Images in each step.")] = 64,
    lr: Annotated[float, how(help="Learning rate at its highest.")] = 1e-3,
    perceptual: Annotated[bool, how("--perceptual", help="Add LPIPS; needs the package stlpips-pytorch.")] = False,
    adversarial: Annotated[bool, how("--adversarial", help="Add a critic: sharper, less faithful.")] = False,
    grey: Annotated[bool, what("--grey", help="Make images grey.")] = False,
    every: Annotated[int, output(help="Steps between two sheets of reconstructions.")] = 500,
    seed: Annotated[int, how(min=0, max=2**31 - 1, help="Another seed, another codec.")] = 0,
    resume: Annotated[bool, output("--resume", help="Go on in --out from where it was.")] = False,
    force: Force = False,
) -> None:
    """Train a VQ codec on images.

    Then use it as `prepare --tokenizer vq:CODEC`. Ctrl-C keeps what there is.
    """
    require_free(out, force or resume)
    from glauber.train.codec import train_codec
    from glauber.train.vq import VQSettings

    calm_threads()
    settings = VQSettings(
        codes, factor, width, steps=steps, batch=batch, lr=lr, perceptual=perceptual, adversarial=adversarial, seed=seed
    )
    trained = train_codec(images, out, settings, size, grey, every, resume)
    report = trained.report
    which = f"{report['held_out']} held-out images" if report["held_out"] else "images it was trained on"
    if not trained.done:
        print(f"stopped at step {report['step']}; the codec so far is in {out}, go on with --resume")
    print(f"{which} come back with {report['psnr']:.1f} dB and use {report['codes']} of {codes} codes; sheets in {out}")
    print(f"try: {program()} prepare {images[0]} --out data --size {size} --tokenizer vq:{out}")
