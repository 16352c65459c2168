"""Music in four voices ⇄ tokens, as a named codec: chorales from JSON, .mid in and out, a .wav by a synthesiser, a picture.

A row is 64 sixteenths of four voices, soprano first. A token is a rest or a pitch. A voice keeps to its range, which is that of
the 382 chorales of czhuang/JSB-Chorales-dataset. Whether a note is held or repeated is not in that data, and not in the tokens:
on the way out, a pitch that goes on in its voice is one tied note.
"""

import json
import math
import wave
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VOICES = ("soprano", "alto", "tenor", "bass")
RANGES = ((60, 81), (52, 74), (46, 69), (36, 66))
"""MIDI pitches, both ends included."""
FRAMES, BAR = 64, 16
LOWEST, REST = 36, 0
TICKS = 120
"""MIDI ticks of a sixteenth."""
SECONDS = 0.15
"""Of a sixteenth: a hundred quarters a minute."""
RATE = 11_025
PARTIALS = (1.0, 0.5, 0.25, 0.12, 0.06)
PITCHES = ("C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B")
COLOURS = ((214, 69, 65), (46, 134, 193), (39, 174, 96), (142, 68, 173))


class Note(NamedTuple):
    """Of a voice: frames from `start` to `stop`, and a MIDI pitch."""

    voice: int
    start: int
    stop: int
    pitch: int


class Music:
    """The codec. Shapes: 64 frames, 4 voices."""

    shape = (FRAMES, len(VOICES))
    vocab = RANGES[0][1] - LOWEST + 2
    names = ("rest", *(f"{PITCHES[pitch % 12]}{pitch // 12 - 1}" for pitch in range(LOWEST, RANGES[0][1] + 1)))

    def __init__(self) -> None:
        pitch = np.arange(self.vocab) - 1 + LOWEST
        own = [(pitch >= low) & (pitch <= high) | (np.arange(self.vocab) == REST) for low, high in RANGES]
        self.allowed = np.broadcast_to(np.stack(own), (*self.shape, self.vocab)).copy()

    def encode(self, file: Path) -> np.ndarray | dict[str, np.ndarray]:
        """A .mid, cut into rows; or a .json of chorales by split.

        Rows of the training chorales begin at every bar and come in each key in which every voice keeps to its range. Those of
        the other splits do not overlap, and are in their own key. Of a piece, what does not fill a last row is left out.
        """
        if file.suffix.lower() != ".json":
            return cut(read_midi(file), FRAMES)
        try:
            splits = {split: [as_tokens(piece) for piece in pieces] for split, pieces in json.loads(file.read_text()).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{file} holds no chorales: a table of lists of pieces, each a list of four pitches") from error
        return {split: np.concatenate([_rows(piece, split == "train") for piece in pieces]) for split, pieces in splits.items()}

    def decode(self, tokens: np.ndarray) -> list[Note]:
        """The notes, tied."""
        return notes(tokens)

    def save(self, tokens: np.ndarray, stem: Path) -> list[Path]:
        """A .mid, a .wav and a piano roll .png."""
        files = [stem.with_suffix(ending) for ending in (".mid", ".wav", ".png")]
        write_midi(tokens, files[0])
        write_wav(tokens, files[1])
        roll(tokens).save(files[2])
        return files

    def given(self, file: Path, part: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Of a .mid the first 64 sixteenths. Free are the voices that are silent throughout, or the `part` that is named."""
        tokens = read_midi(file)[:FRAMES]
        short = FRAMES - len(tokens)
        if not (tokens != REST).any():
            raise ValueError(f"{file} has no notes in its first {FRAMES} sixteenths; give a melody")
        row = np.pad(tokens, ((0, short), (0, 0)), constant_values=REST)
        free = np.zeros(self.shape, bool)
        if part is None:
            free[:, (row == REST).all(0)] = True
        else:
            frames, voices = parse_part(part)
            free[frames, voices] = True
        if not free.any():
            raise ValueError(f"{file} has all four voices; say with --part what to write anew, e.g. alto,tenor or bars 3-4")
        return ~free, row


def parse_part(part: str) -> tuple[slice, Any]:
    """Words such as "alto,tenor", "bars 3-4" or "bass bars 1-2": frames, and an index (1, n) of voices."""
    names, mark, bars = part.partition("bars") if "bars" in part else part.partition("bar")
    voices = [name for name in names.replace(",", " ").split() if name]
    first, _, last = bars.strip().partition("-")
    sound = all(name in VOICES for name in voices) and (voices or mark)
    if not sound or (mark and not (first.isdecimal() and (last or first).isdecimal())):
        raise ValueError(f"a part is made of voices ({', '.join(VOICES)}) and bars, such as bass bars 1-2, not {part!r}")
    begin, end = (int(first) - 1, int(last or first)) if mark else (0, FRAMES // BAR)
    if not 0 <= begin < end <= FRAMES // BAR:
        raise ValueError(f"a row has the bars 1-{FRAMES // BAR}, not {bars.strip()}")
    return slice(begin * BAR, end * BAR), [VOICES.index(name) for name in voices] or slice(None)


def as_tokens(piece: Any) -> np.ndarray:
    """A piece (frames, 4) of pitches, anything below 1 a rest, as tokens; a pitch outside its voice's range is refused."""
    pitches = np.asarray(piece)
    if pitches.ndim != 2 or pitches.shape[1] != len(VOICES) or pitches.dtype.kind not in "iu":
        raise ValueError(f"a piece has frames of {len(VOICES)} pitches each")
    for voice, (low, high) in enumerate(RANGES):
        own = pitches[:, voice]
        if ((own > 0) & ((own < low) | (own > high))).any():
            raise ValueError(
                f"the {VOICES[voice]} goes beyond its range, {low} to {high}; move it, or give it to another voice"
            )
    return np.where(pitches > 0, pitches - LOWEST + 1, REST)


def as_pitches(tokens: np.ndarray) -> np.ndarray:
    """The inverse, with -1 for a rest."""
    return np.where(tokens == REST, -1, tokens - 1 + LOWEST)


def cut(piece: np.ndarray, hop: int) -> np.ndarray:
    """(rows, 64, 4): windows of a piece that begin every `hop` frames."""
    starts = range(0, len(piece) - FRAMES + 1, hop)
    return np.stack([piece[start : start + FRAMES] for start in starts]) if starts else np.zeros((0, *Music.shape), int)


def _rows(piece: np.ndarray, training: bool) -> np.ndarray:
    return np.concatenate([cut(each, BAR) for each in transposed(piece)]) if training else cut(piece, FRAMES)


def transposed(piece: np.ndarray) -> list[np.ndarray]:
    """The piece in every key in which each voice keeps to its range."""
    pitches = as_pitches(piece)
    sung = [pitches[:, voice][pitches[:, voice] > 0] for voice in range(len(VOICES))]
    room = [(low - own.min(), high - own.max()) for own, (low, high) in zip(sung, RANGES, strict=True) if len(own)]
    down, up = max((low for low, _ in room), default=0), min((high for _, high in room), default=0)
    return [np.where(piece == REST, REST, piece + shift) for shift in range(down, up + 1)]


def notes(tokens: np.ndarray) -> list[Note]:
    """The notes of tokens (frames, 4), voice by voice."""
    found = []
    for voice, line in enumerate(as_pitches(tokens).T):
        edges = [0, *(np.flatnonzero(np.diff(line)) + 1).tolist(), len(line)]
        found += [Note(voice, start, stop, int(line[start])) for start, stop in pairwise(edges) if line[start] > 0]
    return found


def write_midi(tokens: np.ndarray, file: Path) -> None:
    """A track for each voice."""
    mido = _mido()
    made = mido.MidiFile(ticks_per_beat=4 * TICKS)
    for voice, name in enumerate(VOICES):
        track = mido.MidiTrack([mido.MetaMessage("track_name", name=name)])
        if voice == 0:
            track.append(mido.MetaMessage("set_tempo", tempo=round(4e6 * SECONDS)))
        at = 0
        for note in (each for each in notes(tokens) if each.voice == voice):
            for kind, frame in (("note_on", note.start), ("note_off", note.stop)):
                track.append(mido.Message(kind, channel=voice, note=note.pitch, velocity=80, time=(frame - at) * TICKS))
                at = frame
        made.tracks.append(track)
    made.save(file)


def read_midi(file: Path) -> np.ndarray:
    """Tokens (frames, 4). Tracks named after voices are these; others with notes are soprano, alto, tenor, bass in turn."""
    mido = _mido()
    try:
        read = mido.MidiFile(file)
    except (OSError, EOFError, ValueError, KeyError, IndexError) as error:
        raise ValueError(f"{file} cannot be read as MIDI ({error})") from error
    tracks = [track for track in read.tracks if any(message.type == "note_on" for message in track)]
    if len(tracks) > len(VOICES):
        raise ValueError(f"{file} has {len(tracks)} tracks with notes; there are {len(VOICES)} voices")
    spans = [_spans(track, 4 / read.ticks_per_beat) for track in tracks]
    frames = max((stop for each in spans for _, stop, _ in each), default=0)
    pitches = np.full((frames, len(VOICES)), -1)
    free = [voice for voice, name in enumerate(VOICES) if name not in {track.name.strip().lower() for track in tracks}]
    for track, own in zip(tracks, spans, strict=True):
        name = track.name.strip().lower()
        voice = VOICES.index(name) if name in VOICES else free.pop(0)
        for start, stop, pitch in own:
            pitches[start:stop, voice] = pitch
    return as_tokens(pitches)


def _spans(track: Any, scale: float) -> list[tuple[int, int, int]]:
    """First frame, the one after the last, and the pitch of each note; of notes that sound at once the later one stays."""
    at, found = 0.0, []
    begun: dict[int, float] = {}
    for message in track:
        at += message.time * scale
        if message.type not in ("note_on", "note_off"):
            continue
        if message.note in begun:
            start = begun.pop(message.note)
            found.append((round(start), max(round(at), round(start) + 1), message.note))
        if message.type == "note_on" and message.velocity:
            begun[message.note] = at
    return sorted(found)


def write_wav(tokens: np.ndarray, file: Path) -> None:
    """Mono, 16 bits: each note a few partials that swell and fade."""
    length = math.ceil((len(tokens) * SECONDS + 0.5) * RATE)
    sound = np.zeros(length)
    for note in notes(tokens):
        begin, size = round(note.start * SECONDS * RATE), round((note.stop - note.start) * SECONDS * RATE)
        sound[begin : begin + size] += tone(note.pitch, size)
    loudest = max(float(np.abs(sound).max()), 1e-9)
    with wave.open(str(file), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((sound / loudest * 0.8 * 32767).astype("<i2").tobytes())


def tone(pitch: int, size: int) -> np.ndarray:
    """(size,) samples of a note."""
    at = np.arange(size) / RATE
    hertz = 440 * 2 ** ((pitch - 69) / 12)
    body = sum(share * np.sin(2 * np.pi * hertz * (k + 1) * at) for k, share in enumerate(PARTIALS))
    edge = min(size // 2, round(0.02 * RATE))
    gate = np.minimum(1, np.minimum(np.arange(1, size + 1), np.arange(size, 0, -1)) / max(1, edge))
    return np.asarray(body * gate * np.exp(-0.5 * at))


def roll(tokens: np.ndarray, scale: int = 8) -> Any:
    """A picture: time from left to right, pitch upwards, a colour for each voice, and a line at each bar."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise ImportError("a piano roll needs pillow: pip install 'glauber[music]'") from error
    rows, top = RANGES[0][1] - LOWEST + 3, RANGES[0][1] + 1
    picture = Image.new("RGB", (len(tokens) * scale, rows * scale), (250, 250, 248))
    draw = ImageDraw.Draw(picture)
    for pitch in range(LOWEST - 1, top + 1):
        if pitch % 12 in (1, 3, 6, 8, 10):  # the black keys
            draw.rectangle((0, (top - pitch) * scale, picture.width, (top - pitch + 1) * scale - 1), (238, 238, 236))
    for frame in range(0, len(tokens) + 1, BAR // 4):
        draw.line((frame * scale, 0, frame * scale, picture.height), (170, 170, 170) if frame % BAR == 0 else (222, 222, 222))
    for note in notes(tokens):
        y = (top - note.pitch) * scale
        box = (note.start * scale + 1, y + 1, note.stop * scale - 2, y + scale - 2)
        draw.rectangle(box, COLOURS[note.voice])
    return picture


def _mido() -> Any:
    try:
        import mido
    except ImportError as error:
        raise ImportError("MIDI files need mido: pip install 'glauber[music]'") from error
    return mido
