"""The command `play`."""

from typing import Annotated

import typer

from glauber.cli.app import app, command, how, sampling, what
from glauber.cli.options import BUNDLED, MODEL


@command(app)
def play(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", help=f"{MODEL}. Those in the box if none is named.")
    ] = None,
    *,
    port: Annotated[int, what(min=0, max=65535, help="0 for a free one; what you wrote is kept for each port.")] = 8000,
    device: Annotated[str | None, how(help="cpu, cuda or cuda:1; the GPU if there is one.")] = None,
    precision: Annotated[str | None, sampling(help="fp32 or bf16; what the device is good at if not given.")] = None,
) -> None:
    """Play with models in a browser.

    Serves them to this machine alone and opens the page: write texts with gaps and watch a chain fill them, see what else
    could stand at a place, paint holes into pictures.
    """
    from webbrowser import open_new_tab

    from glauber.cli.serve_run import run_server

    run_server(models or BUNDLED.split(" or "), "127.0.0.1", port, None, device, precision, open_new_tab)
