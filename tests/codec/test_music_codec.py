"""Chorales as tokens and back: the files are read again with the libraries that others read them with."""

import json
import tomllib
import wave
from importlib.metadata import EntryPoint
from pathlib import Path

import mido
import numpy as np
import pytest
import torch
from PIL import Image

from glauber.codec import NamedCodec
from glauber.codec.music import (
    FRAMES,
    RANGES,
    REST,
    VOICES,
    Music,
    as_pitches,
    as_tokens,
    notes,
    parse_part,
    read_midi,
    roll,
    transposed,
    write_midi,
    write_wav,
)

MIDDLE = [70, 62, 57, 50]


def piece(frames=FRAMES, seed=0):
    """Any music within the ranges: pitches held for one to four sixteenths, and some rests."""
    random = np.random.default_rng(seed)
    pitches = np.stack(
        [np.repeat(random.integers(low, high + 1, frames), random.integers(1, 5, frames))[:frames] for low, high in RANGES], 1
    )
    pitches[random.random(pitches.shape) < 0.1] = -1
    return pitches


@pytest.fixture(scope="module")
def codec():
    """As the package registers it."""
    said = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"]
    return NamedCodec("music", EntryPoint("music", said["glauber.codecs"]["music"], "glauber.codecs").load()())


def test_a_site_may_hold_a_rest_or_a_pitch_of_its_voice(codec):
    for voice, (low, high) in enumerate(RANGES):
        own = codec.allowed.view(FRAMES, len(VOICES), -1)[7, voice]
        assert {codec.names[token] for token in own.nonzero().flatten().tolist()} == {
            "rest",
            *(Music.names[pitch - 35] for pitch in range(low, high + 1)),
        }
    assert (Music.names[1], Music.names[-1], Music.vocab) == ("C2", "A5", 47)


def test_pitches_come_back_from_tokens():
    pitches = piece()
    assert np.array_equal(as_pitches(as_tokens(pitches)), pitches)


def test_a_run_of_one_pitch_is_one_tied_note():
    row = as_tokens(np.array([[60, 62, 57, 50]] * 3 + [[62, 62, 57, -1]] + [[60, 62, 57, 50]]))
    assert [(note.voice, note.start, note.stop, note.pitch) for note in notes(row)] == [
        *[(0, 0, 3, 60), (0, 3, 4, 62), (0, 4, 5, 60)],
        *[(1, 0, 5, 62), (2, 0, 5, 57), (3, 0, 3, 50), (3, 4, 5, 50)],
    ]


@pytest.mark.parametrize("seed", range(3))
def test_midi_comes_back_as_it_was(tmp_path, seed):
    row = as_tokens(piece(seed=seed))
    write_midi(row, tmp_path / "a.mid")
    end = max(note.stop for note in notes(row))  # trailing rests are no events
    assert np.array_equal(read_midi(tmp_path / "a.mid"), row[:end])
    read = mido.MidiFile(tmp_path / "a.mid")
    assert [track.name for track in read.tracks] == list(VOICES)
    assert read.length == pytest.approx(end * 0.15, abs=1e-6)
    sounding = set()
    for message in read:
        if message.type == "note_on":
            sounding.add((message.channel, message.note))
        elif message.type == "note_off":
            sounding.remove((message.channel, message.note))
    assert not sounding


def test_midi_of_another_program_is_read_by_its_own_clock(tmp_path):
    """96 ticks a quarter, velocity 0 for the end of a note, no names: the first track is the soprano."""
    track = mido.MidiTrack(
        [mido.Message("note_on", note=72, velocity=64, time=0), mido.Message("note_on", note=72, velocity=0, time=96)]
    )
    track += [mido.Message("note_on", note=71, velocity=64, time=24), mido.Message("note_off", note=71, time=24)]
    made = mido.MidiFile(ticks_per_beat=96)
    made.tracks += [mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=400_000)]), track]
    made.save(tmp_path / "a.mid")
    assert as_pitches(read_midi(tmp_path / "a.mid"))[:, 0].tolist() == [72] * 4 + [-1] + [71]


def test_a_tone_sounds_at_its_pitch(tmp_path):
    row = np.zeros((FRAMES, 4), int)
    row[:, 0] = as_tokens(np.array([[69, -1, -1, -1]]))[0, 0]
    write_wav(row, tmp_path / "a.wav")
    with wave.open(str(tmp_path / "a.wav")) as sound:
        assert (sound.getnchannels(), sound.getsampwidth(), sound.getframerate()) == (1, 2, 11_025)
        samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2").astype(float)
    assert 0.5 * 32767 < np.abs(samples).max() <= 0.8 * 32767 + 1
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.fft.rfftfreq(len(samples), 1 / 11_025)[spectrum.argmax()] == pytest.approx(440, abs=0.5)


def test_silence_is_a_file_too(tmp_path):
    write_wav(np.zeros((FRAMES, 4), int), tmp_path / "a.wav")
    with wave.open(str(tmp_path / "a.wav")) as sound:
        assert not any(sound.readframes(sound.getnframes()))


def test_the_picture_has_a_box_of_the_voice_s_colour_where_the_note_is():
    row = np.zeros((FRAMES, 4), int)
    row[8:12, 2] = as_tokens(np.array([[-1, -1, 57, -1]]))[0, 2]
    picture = np.asarray(roll(row, 8))
    boxed = np.argwhere((picture == (39, 174, 96)).all(-1))
    (top, left), (bottom, right) = boxed.min(0), boxed.max(0)
    assert (left // 8, right // 8) == (8, 11)
    assert top // 8 == bottom // 8 == 82 - 57


def test_saving_writes_three_files_that_open(tmp_path, codec):
    files = codec.save(torch.from_numpy(as_tokens(piece())).view(1, -1), tmp_path / "piece")
    assert [file.name for file in files] == ["0000.mid", "0000.wav", "0000.png"]
    with Image.open(files[2]) as picture:
        assert picture.size == (512, 384)


def test_training_rows_begin_at_every_bar_in_every_key_and_the_others_do_not(tmp_path, codec):
    long = np.array([MIDDLE] * 100)
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"train": [long.tolist()], "test": [long.tolist()], "valid": [long[:63].tolist()]}))
    rows = codec.encode(file)
    room = [min(high - pitch for pitch, (_, high) in zip(MIDDLE, RANGES, strict=True))]
    room.append(min(pitch - low for pitch, (low, _) in zip(MIDDLE, RANGES, strict=True)))
    assert {split: len(part) for split, part in rows.items()} == {"train": 3 * (sum(room) + 1), "test": 1, "valid": 0}
    assert len(rows["train"].view(-1, FRAMES, 4)[:, 0, 0].unique()) == sum(room) + 1


def test_a_key_is_a_shift_of_all_voices_and_rests_stay():
    row = as_tokens(np.array([MIDDLE, [70, -1, 57, 50]]))
    for each in transposed(row):
        moved = as_pitches(each) - as_pitches(row)
        assert len(set(moved[as_pitches(row) > 0].tolist())) == 1
        assert each[1, 1] == REST


@pytest.mark.parametrize(
    ("part", "frames", "voices"),
    [
        ("alto,tenor", range(64), [1, 2]),
        ("bars 3-4", range(32, 64), [0, 1, 2, 3]),
        ("bar 1", range(16), [0, 1, 2, 3]),
        ("bass bars 2", range(16, 32), [3]),
    ],
)
def test_a_part_is_read(part, frames, voices):
    free = np.zeros((FRAMES, 4), bool)
    found, index = parse_part(part)
    free[found, index] = True
    due = np.zeros((FRAMES, 4), bool)
    due[np.ix_(list(frames), voices)] = True
    assert np.array_equal(free, due)


@pytest.mark.parametrize("part", ["", "viola", "bars", "bars 4-3", "bars 0", "bars 5", "bars x", "soprano bars 1-9"])
def test_what_is_no_part_is_refused(part):
    with pytest.raises(ValueError, match=r"a part is made of|a row has the bars"):
        parse_part(part)


def test_a_soprano_is_given_and_the_other_voices_are_free(tmp_path, codec):
    row = as_tokens(piece())
    row[:, 1:] = REST
    write_midi(row[:50], tmp_path / "melody.mid")
    given, tokens = codec.given(tmp_path / "melody.mid", None)
    assert given.view(FRAMES, 4).sum(0).tolist() == [FRAMES, 0, 0, 0]
    assert tokens.view(FRAMES, 4)[: len(row[:45]), 0].tolist() == row[:45, 0].tolist()


@pytest.mark.parametrize(
    ("content", "about"),
    [
        (b"no midi", "cannot be read as MIDI"),
        (b"", "cannot be read as MIDI"),
    ],
)
def test_a_file_that_is_no_midi_is_refused(tmp_path, content, about):
    (tmp_path / "a.mid").write_bytes(content)
    with pytest.raises(ValueError, match=about):
        read_midi(tmp_path / "a.mid")


def test_what_the_voices_cannot_sing_is_refused(tmp_path, codec):
    with pytest.raises(ValueError, match="the bass goes beyond its range, 36 to 66"):
        as_tokens(np.array([[70, 62, 57, 67]]))
    write_midi(as_tokens(piece()), tmp_path / "full.mid")
    with pytest.raises(ValueError, match="has all four voices; say with --part"):
        codec.given(tmp_path / "full.mid", None)
    write_midi(np.zeros((FRAMES, 4), int), tmp_path / "rests.mid")
    with pytest.raises(ValueError, match="has no notes in its first 64 sixteenths"):
        codec.given(tmp_path / "rests.mid", None)
    for content in ("[1, 2]", "not json", '{"train": [[1, 2]]}', '{"train": 3}'):
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(ValueError, match="holds no chorales"):
            codec.encode(tmp_path / "a.json")
