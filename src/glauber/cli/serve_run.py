"""What `serve` does: it opens the port, loads the models, and ends when it is told to."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from glauber.cli.load import open_model

if TYPE_CHECKING:
    from glauber.model import Model


def run_server(
    names: Sequence[str],
    host: str,
    port: int,
    key: str | None,
    device: str | None,
    precision: str | None,
    opened: Callable[[str], object] | None = None,
) -> None:
    """Until SIGTERM or Ctrl-C. `opened` is told the address, at which requests are taken while the models are loaded."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(f"serve needs {error.name}: pip install 'glauber[serve]'") from error
    from glauber.serve.gate import require_access

    access, served = require_access(host, key), _named(names)
    from glauber.sampler import require_precision
    from glauber.serve.app import Service
    from glauber.serve.listen import address, allow_connections, bind, make_server
    from glauber.storage import find

    require_precision(precision)
    _require_device(device)
    for name in served.values():
        find(name)
    allow_connections()
    service = Service({own: _loading(name, device, precision) for own, name in served.items()})
    with bind(host, port) as socket:
        print(f"{', '.join(served)} at {address(socket)} (Ctrl-C ends it)", flush=True)
        service.start()
        if opened is not None:
            Thread(target=opened, args=[address(socket)], daemon=True).start()
        make_server(service, access).run([socket])
        service.end()
    if service.failure is not None:
        raise service.failure


def _named(names: Sequence[str]) -> dict[str, str]:
    """The names that requests use."""
    served: dict[str, str] = {}
    for name in names:
        own = _served_name(name)
        if own in served:
            raise ValueError(f"two models would be called {own}; rename a folder, or serve them by two servers")
        served[own] = name
    return served


def _require_device(device: str | None) -> None:
    """Refuse one that there is not."""
    import torch

    try:
        torch.zeros(1, device=device or "cpu").tolist()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(f"there is no device {device} here; name cpu, or cuda where there is a GPU") from None


def _loading(name: str, device: str | None, precision: str | None) -> "Callable[[], Model]":
    return partial(open_model, name, device, precision)


def _served_name(model: str) -> str:
    """What requests call it: never a path."""
    return model if model.count("/") == 1 and not Path(model).exists() else Path(model).resolve().name
