"""The command `serve`."""

from typing import Annotated

import typer

from glauber.cli.app import app, command, how, sampling, what
from glauber.cli.options import BUNDLED, MODEL


@command(app)
def serve(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", help=f"{MODEL}. Those in the box if none is named.")
    ] = None,
    *,
    host: Annotated[str, what(help="The address to listen to; another than this machine's own needs a --key.")] = "127.0.0.1",
    port: Annotated[int, what(min=0, max=65535, help="0 for a free one.")] = 8000,
    key: Annotated[
        str | None, what(envvar="GLAUBER_KEY", help="That requests have to bring; better said by the environment.")
    ] = None,
    device: Annotated[str | None, how(help="cpu, cuda or cuda:1; the GPU if there is one.")] = None,
    precision: Annotated[str | None, sampling(help="fp32 or bf16; what the device is good at if not given.")] = None,
) -> None:
    """Serve models over HTTP.

    As OpenAI's completions and more, for programs on this machine; GET /docs says what there is.
    """
    from glauber.cli.serve_run import run_server

    run_server(models or BUNDLED.split(" or "), host, port, key, device, precision)
