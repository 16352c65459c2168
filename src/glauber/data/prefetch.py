"""Work done ahead by threads, its results in the order of the work."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def prefetch(work: Callable[[Item], Result], items: Iterable[Item], threads: int, most: int) -> Iterator[tuple[Item, Result]]:
    """Each item with what `work` makes of it; up to `most` of them are under way while the one before is used."""
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > most:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
