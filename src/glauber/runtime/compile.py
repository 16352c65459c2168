"""A network that is compiled for a while, which takes some twenty seconds the first time."""

from collections.abc import Iterator
from contextlib import contextmanager

from glauber.conditional.transformer import Transformer
from glauber.runtime.temporary import Restore, changed


@contextmanager
def compiled(network: Transformer) -> Iterator[None]:
    """As by `compile_parts`. The next time, and for the same shapes, nothing has to be compiled again."""

    def compile_parts() -> Restore:
        already = network.compiled
        if not already:
            network.compile_parts()
        return lambda: None if already else _decompile(network)

    with changed(network, "compiled", compile_parts):
        yield


def _decompile(network: Transformer) -> None:
    network.compiled = False
    for block in network.blocks:
        block._compiled_call_impl = None
