"""The command `demo`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from glauber.cli.app import app, command, how, output, program
from glauber.cli.files import require_free
from glauber.cli.options import Force


@command(app)
def demo(
    out: Annotated[Path, output(help="Folder for the pictures, the model and summary.json.")] = Path("demo"),
    force: Force = False,
    seed: Annotated[int, how(min=0, max=2**31 - 1, help="Another seed, other digits.")] = 0,
) -> None:
    """Train and sample on small digits.

    Trains on embedded digits from scratch, draws samples, fills gaps in, and writes pictures of it all: about two minutes.
    """
    require_free(out, force)
    _require_packages()
    import torch

    from glauber.cli.demo_run import run_demo

    torch.set_num_threads(1)  # a second thread saves a quarter on an idle machine, and triples the time on a busy one
    _print_summary(run_demo(out, seed), out)


def _require_packages() -> None:

    missing = [name for name in ("sklearn", "PIL", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ImportError(f"the demo needs {', '.join(missing)}: pip install 'glauber[demo]'")


def _print_summary(summary: dict[str, Any], out: Path) -> None:
    lines = [
        ("loss, before → after", f"{summary['loss_before']:.2f} → {summary['loss_after']:.2f} nats per site"),
        ("held-out digits", f"at most {summary['held_out_bits_per_token']:.2f} bits per token (of 6)"),
        ("network calls per digit", f"{summary['calls']:.1f} for {summary['steps']} chain steps"),
        ("classifier's confidence", f"{summary['confidence_samples']:.2f} on samples"),
        ("", f"{summary['confidence_real']:.2f} on real held-out digits"),
        ("", f"{summary['confidence_codec']:.2f} on those after the codec"),
        ("", f"{summary['confidence_noise']:.2f} on noise"),
        ("classes among samples", f"{summary['classes']} of 10"),
        ("time", f"{summary['seconds']:.0f} s"),
        ("pictures", ", ".join(("samples.png", "chain.gif", "infill.png", "loss.png"))),
        ("", f"in {out}; figures in {out / 'summary.json'}"),
        ("try next", f"{program()} sample {out / 'model'} -n 8 --out more"),
    ]
    print()
    for name, text in lines:
        print(f"{name:<24} {text}")
