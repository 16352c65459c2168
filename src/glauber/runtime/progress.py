"""Progress bars: from the third second on, and gone from the screen before an error is shown."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
DELAY = 2.0  # seconds
_alive: list[Any] = []


class _Unseen:
    """Looks like a bar, and needs no package."""

    n = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@contextmanager
def progress_bar(shown: bool, total: int | None, label: str, unit: str, **style: Any) -> Iterator[Any]:
    """A bar to be updated; `style` are other options of tqdm."""
    if not shown:
        yield _Unseen()
        return
    from tqdm.auto import tqdm

    bar = tqdm(total=total, desc=label, unit=unit, **({"delay": DELAY, "dynamic_ncols": True} | style))
    _alive.append(bar)
    try:
        yield bar
    except BaseException:
        bar.leave = False
        raise
    finally:
        _alive.remove(bar)
        bar.close()


def watched(items: Iterable[Item], shown: bool, total: int | None, label: str, unit: str, **style: Any) -> Iterator[Item]:
    """The items, with a bar that counts them."""
    with progress_bar(shown, total, label, unit, **style) as bar:
        for item in items:
            yield item
            bar.update()


def clear() -> None:
    """Take the bars away: what they count was cut off, and something else has to be said."""
    for bar in _alive:
        bar.leave = False
        bar.close()
