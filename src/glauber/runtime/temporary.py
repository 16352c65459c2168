"""A network that is another one for a while, and comes back as it was."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

from glauber.conditional.transformer import Transformer

Restore = Callable[[], None]
USERS: WeakKeyDictionary[Transformer, dict[str, tuple[int, Restore]]] = WeakKeyDictionary()
"""What each network is just now, for how many, and how to take it back."""
LOCK = Lock()


@contextmanager
def changed(network: Transformer, what: str, make: Callable[[], Restore]) -> Iterator[None]:
    """The first who comes makes it so, the last who goes takes it back: several threads may use one network."""
    with LOCK:
        users = USERS.setdefault(network, {})
        number, restore = users[what] if what in users else (0, make())
        users[what] = number + 1, restore
    try:
        yield
    finally:
        with LOCK:
            number, restore = users.pop(what)
            if number > 1:
                users[what] = number - 1, restore
            else:
                restore()
