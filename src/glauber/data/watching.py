"""Reading with a bar."""

from collections.abc import Iterator

import numpy as np

from glauber.data.sources import Piece, Position, Sources
from glauber.runtime.progress import progress_bar


def watched(sources: Sources, position: Position | None, label: str, progress: bool) -> Iterator[Piece]:
    """The pieces, with a bar of the bytes read."""
    before = np.cumsum([0, *(source.size for source in sources.files)]).tolist()
    with progress_bar(progress, sources.size or None, label, "B", unit_scale=True) as bar:
        done = 0
        for piece in sources.pieces(position):
            now = before[piece.after.file] + piece.read
            if now != done:
                bar.update(now - done)
                done = now
            yield piece
