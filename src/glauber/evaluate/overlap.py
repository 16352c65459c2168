"""The longest passage that a text shares with the training text: a model that copies is not a model."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from glauber.runtime.progress import progress_bar

BASE, MIX = np.uint64(0xD1342543DE82EF95), np.uint64(0x9E3779B97F4A7C15)
FIRST, LARGEST = 2**16, 2**22
"""The training text is read in chunks: the first is small, since it is searched from length 1 on; each next is larger."""
TABLE = 22
"""Bits of the table that most windows without a partner fail at; fewer where there are few windows."""


class Overlap(NamedTuple):
    """The longest run that a query shares with the training text: query[at : at + length] == train[where : where + length]."""

    length: int
    at: int
    where: int


def characters(text: str) -> np.ndarray:
    """The code points of a text; NUL, which is 0, equals nothing."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    return codes.astype(np.uint16) if not len(codes) or codes.max() < 2**16 else codes.astype(np.uint32)


def joined(documents: Sequence[np.ndarray]) -> np.ndarray:
    """The documents with a 0 after each, so that no run goes over from one to the next."""
    kind = np.result_type(np.uint16, *documents)
    out = np.zeros(sum(len(document) + 1 for document in documents), kind)
    at = 0
    for document in documents:
        out[at : at + len(document)] = document
        at += len(document) + 1
    return out


def longest_overlaps(train: np.ndarray, queries: Sequence[np.ndarray], progress: bool = False) -> list[Overlap]:
    """For each query the longest run that is in `train`, too. Whole numbers, of which 0 equals nothing.

    Windows of a length are compared by hashes mod 2⁶⁴, and only those of the queries that are in the training text, and of the
    training text that are in a query, are made longer by one. A chunk of the training text starts from the shortest length
    that would be news. Exact, but for two different windows of one hash (a chance of about 10⁻⁵ for 10⁸ against 10⁶ windows).
    """
    search = _Search(train, queries)
    begin, size = 0, FIRST
    with progress_bar(progress, len(train), "overlap", "B", unit_scale=True, leave=False) as bar:
        while begin < len(train):
            end = min(begin + size, len(train))
            search.chunk(begin, end)
            bar.update(end - begin)
            begin, size = end, min(2 * size, LARGEST)
    starts = np.cumsum([0, *(len(query) + 1 for query in queries)])
    found = zip(search.best.tolist(), search.at.tolist(), search.where.tolist(), starts.tolist(), strict=False)
    return [Overlap(best, at - start if best else 0, where) for best, at, where, start in found]


class _Search:
    """The queries one after the other with 0 between, and what was found for each."""

    def __init__(self, train: np.ndarray, queries: Sequence[np.ndarray]):
        self.train, self.text = train, joined(queries)
        self.owner = np.repeat(np.arange(len(queries)), [len(query) + 1 for query in queries])
        stops = np.flatnonzero(self.text == 0)
        self.room = stops[np.searchsorted(stops, np.arange(len(self.text)))] - np.arange(len(self.text))
        self.most = np.zeros(len(queries), np.int64)
        np.maximum.at(self.most, self.owner, self.room)
        self.best, self.at, self.where = np.zeros((3, len(queries)), np.int64)

    def chunk(self, begin: int, end: int) -> None:
        """Windows of the training text that start in begin..end-1."""
        rest = self.best < self.most  # those that can still get longer; what is unlike all text is searched for by itself
        odd = rest & (self.best < np.median(self.best[rest]) / 2) if rest.any() else rest
        for group in (odd, rest & ~odd):
            if group.any():
                self._grow(group, begin, end)

    def _grow(self, group: np.ndarray, begin: int, end: int) -> None:
        length = int(self.best[group].min()) + 1
        there = np.flatnonzero((self.room >= length) & group[self.owner])
        theirs = window_hashes(self.text, length)[there]
        ours = window_hashes(self.train[begin : end + length - 1], length)
        here = np.arange(begin, begin + len(ours))
        while True:
            kept = among(ours, theirs)
            here, ours = here[kept], ours[kept]
            kept = among(theirs, ours)
            there, theirs = there[kept], theirs[kept]
            if not len(there):
                return
            self._note(length, there, theirs, here, ours)
            length += 1
            longer, kept = here + length <= len(self.train), self.room[there] >= length
            here, there = here[longer], there[kept]
            ours = ours[longer] * BASE + self.train[here + length - 1]
            theirs = theirs[kept] * BASE + self.text[there + length - 1]

    def _note(self, length: int, there: np.ndarray, theirs: np.ndarray, here: np.ndarray, ours: np.ndarray) -> None:
        news, first = np.unique(self.owner[there], return_index=True)
        first = first[self.best[news] < length]
        news = self.owner[there[first]]
        if not len(news):
            return
        wanted, back = np.unique(theirs[first], return_inverse=True)
        hits = among(ours, wanted)
        place = np.zeros(len(wanted), np.int64)
        place[np.searchsorted(wanted, ours[hits])[::-1]] = here[hits][::-1]  # the first of several
        self.best[news], self.at[news], self.where[news] = length, there[first], place[back]


def window_hashes(array: np.ndarray, length: int) -> np.ndarray:
    """Σ_i a[p + i] BASE^(length-1-i) mod 2⁶⁴ of every window, by doubling: (N,) → (N - length + 1,)."""
    count = len(array) - length + 1
    if count <= 0:
        return np.zeros(0, np.uint64)
    power, base = array.astype(np.uint64), BASE  # windows of 1, 2, 4, ... and BASE to that
    total, done = np.zeros(count, np.uint64), 0  # of the first `done` of a window
    for bit in range(length.bit_length()):
        step = 1 << bit
        if length & step:
            total = total * base + power[done : done + count]
            done += step
        if length >> (bit + 1):
            power = power[:-step] * base + power[step:]
            base = _times(base, base)
    return total


def among(these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """Which of these are among those: numbers mod 2⁶⁴; a small table sorts most out before the search."""
    bits = min(TABLE, len(those).bit_length() + 4)
    shift, table = np.uint64(64 - bits), np.zeros(1 << bits, bool)
    table[(those * MIX) >> shift] = True
    kept: np.ndarray = table[(these * MIX) >> shift]
    maybe = np.flatnonzero(kept)
    ordered = np.unique(those)
    if len(maybe):
        places = np.searchsorted(ordered, these[maybe])
        kept[maybe] = ordered[np.minimum(places, len(ordered) - 1)] == these[maybe]
    return kept


def _times(a: np.uint64, b: np.uint64) -> np.uint64:
    return np.uint64(int(a) * int(b) & 0xFFFFFFFFFFFFFFFF)
