"""What can be counted in four voices, and how far it lies from real chorales.

A chord is a run of frames in which no voice changes. All rates are per 100 chords.
"""

from itertools import combinations, pairwise
from typing import Any

import numpy as np

from glauber.codec.music import as_pitches, notes

FIFTH, OCTAVE = 7, 0
LEAP = 12
"""Melodic intervals beyond this many semitones are counted as one."""
LONGEST = 16
"""Sixteenths; longer notes are counted as one."""


def chords(pitches: np.ndarray) -> np.ndarray:
    """(chords, 4): frames (frames, 4) that differ from the one before."""
    new = np.r_[True, (np.diff(pitches, axis=0) != 0).any(1)]
    return pitches[new]


def crossings(found: np.ndarray) -> int:
    """Chords in which some voice sounds above a higher one."""
    crossed = np.zeros(len(found), bool)
    for upper, lower in combinations(range(found.shape[1]), 2):
        crossed |= (found[:, upper] > 0) & (found[:, lower] > found[:, upper])
    return int(crossed.sum())


def parallels(found: np.ndarray, interval: int) -> int:
    """Pairs of voices that move from one such interval to another in the same direction."""
    number = 0
    for before, after in pairwise(found):
        for upper, lower in combinations(range(found.shape[1]), 2):
            here, there = before[[upper, lower]], after[[upper, lower]]
            if min(here.min(), there.min()) <= 0:
                continue
            moves = there - here
            same = moves[0] * moves[1] > 0
            both = [abs(pair[0] - pair[1]) % 12 == interval for pair in (here, there)]
            number += bool(same and all(both))
    return number


def histograms(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Shares of melodic intervals (semitones without sign, LEAP or more) and note lengths (sixteenths, LONGEST or more)."""
    intervals, lengths = np.zeros(LEAP + 1), np.zeros(LONGEST + 1)
    for row in rows:
        found = notes(row)
        for note in found:
            lengths[min(note.stop - note.start, LONGEST)] += 1
        for first, second in pairwise(found):
            if first.voice == second.voice and first.stop == second.start:
                intervals[min(abs(second.pitch - first.pitch), LEAP)] += 1
    return {"intervals": intervals / max(1, intervals.sum()), "lengths": lengths / max(1, lengths.sum())}


def statistics(rows: np.ndarray, real: np.ndarray) -> dict[str, Any]:
    """Of rows of tokens (N, frames, 4), with the total variation distances of their histograms to those of `real` rows."""
    all_chords = [chords(as_pitches(row)) for row in rows]
    number = sum(map(len, all_chords))
    own, theirs = histograms(rows), histograms(real)
    return {
        "chords": number,
        "crossings": 100 * sum(map(crossings, all_chords)) / number,
        "parallel_fifths": 100 * sum(parallels(each, FIFTH) for each in all_chords) / number,
        "parallel_octaves": 100 * sum(parallels(each, OCTAVE) for each in all_chords) / number,
        "mean_length": float((own["lengths"] * np.arange(LONGEST + 1)).sum()),
        **{f"{name}_distance": float(np.abs(own[name] - theirs[name]).sum() / 2) for name in own},
        **{name: own[name].round(5).tolist() for name in own},
    }
