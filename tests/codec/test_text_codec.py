"""Text ⇄ tokens."""

import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused

from glauber.codec import ByteCodec, CharCodec, TokenizerCodec, codec_from_dict, text_codec

TEXTS = ["It was the best of times,\n\n  it was the worst", "of times; café — “so” 你好 😀\t(1859).", "", "\r\n \x00 a"]


def words(count: int = 3000, seed: int = 0) -> list[str]:
    """Made-up texts whose words repeat."""
    draw = random.Random(seed)
    known = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(1, 8))) for _ in range(300)]
    return [" ".join(draw.choices(known, k=30)) + ".\n" for _ in range(count // 30)]


def plain_tokenizer(tmp_path: Path, special: list[str], lower: bool = False) -> Path:
    """A small tokenizer.json of the library's own making, one token per word."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocab = {word: i for i, word in enumerate([*special, "[UNK]", "it", "was", "the", "times"])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if lower:
        tokenizer.normalizer = normalizers.Lowercase()
    if special:
        tokenizer.add_special_tokens(special)
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=10)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.fixture(scope="module")
def bpe() -> TokenizerCodec:
    return TokenizerCodec.train(words(), 400)


@pytest.mark.parametrize("spec", ["char", "bytes", "bpe:300"])
def test_any_text_comes_back_identical_from_characters_bytes_and_a_trained_bpe(spec):
    codec = text_codec(spec, TEXTS)
    assert codec.lossless
    for text in TEXTS:
        assert codec.decode(codec.encode(text)) == text
    assert codec.encode_batch(TEXTS) == [codec.encode(text) for text in TEXTS]
    assert [ids.tolist() for ids in codec.arrays(TEXTS)] == codec.encode_batch(TEXTS)
    assert all(0 <= i < codec.vocab for ids in codec.encode_batch(TEXTS) for i in ids)


@pytest.mark.parametrize("spec", ["char", "bytes", "bpe:300"])
def test_a_codec_from_its_json_gives_the_same_tokens(spec):
    codec = text_codec(spec, TEXTS)
    again = codec_from_dict(json.loads(json.dumps(codec.to_dict())), codec.tensors())
    assert type(again) is type(codec)
    assert (again.vocab, again.end, again.lossless) == (codec.vocab, codec.end, codec.lossless)
    assert again.encode_batch(TEXTS) == codec.encode_batch(TEXTS)
    assert again.to_dict() == codec.to_dict()


@pytest.mark.parametrize("spec", ["char", "bytes", "bpe:300"])
def test_decode_skips_the_end_of_text_and_takes_lists_arrays_and_tensors(spec):
    codec = text_codec(spec, TEXTS)
    ids = [codec.end, *codec.encode(TEXTS[0]), codec.end]
    for given in (ids, tuple(ids), np.array(ids), torch.tensor(ids)):
        assert codec.decode(given) == TEXTS[0]
    assert codec.decode([]) == ""
    assert codec.end not in codec.encode("".join(TEXTS))


def test_the_alphabet_is_the_characters_of_the_texts_by_code_point():
    codec = text_codec("char", ["hello", "café 😀"])
    assert codec.alphabet == " acefhloé😀"
    assert (codec.vocab, codec.end) == (11, 10)
    assert codec.encode("ace") == [1, 2, 3]


def test_a_character_outside_the_alphabet_is_named():
    with refused("the character 'é' \\(U\\+00E9\\)"):
        CharCodec("abcd").encode_batch(["ab", "caé"])


def test_bytes_that_are_no_text_decode_with_a_sign_of_it():
    assert ByteCodec().decode([104, 105, 0xFF, 256]) == "hi\ufffd"


def test_the_same_texts_give_the_same_bpe_in_another_process():
    code = (
        "import hashlib, sys; sys.path[:0] = sys.argv[1:]; from test_text_codec import TokenizerCodec, words;"
        "print(hashlib.sha256(TokenizerCodec.train(iter(words()), 400).tokenizer.to_str().encode()).hexdigest())"
    )
    here = hashlib.sha256(TokenizerCodec.train(words(), 400).tokenizer.to_str().encode()).hexdigest()
    command = [sys.executable, "-c", code, *map(str, Path(__file__).parents[:2])]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.strip() == here


def test_a_bpe_has_at_most_the_tokens_asked_for_and_knows_the_frequent_words(bpe):
    assert 300 < bpe.vocab <= 400
    assert bpe.end == 0
    text = "".join(words())
    assert len(bpe.encode(text)) < 0.6 * len(text)


def test_an_end_of_text_spelt_out_in_a_text_is_plain_text(bpe):
    text = "the <|endoftext|> is near"
    assert bpe.end not in bpe.encode(text)
    assert bpe.decode(bpe.encode(text)) == text


def test_a_tokenizer_file_is_read_without_its_truncation_padding_and_added_tokens(tmp_path):
    codec = text_codec(plain_tokenizer(tmp_path, ["[PAD]", "</s>"]))
    assert codec.end == 1
    assert codec.vocab == 7
    assert codec.encode("it was the times it was") == [3, 4, 5, 6, 3, 4]


def test_a_tokenizer_without_an_end_of_text_gets_one(tmp_path):
    codec = text_codec(plain_tokenizer(tmp_path, []))
    assert (codec.end, codec.vocab) == (5, 6)
    again = codec_from_dict(codec.to_dict(), {})
    assert (again.end, again.vocab) == (5, 6)


def test_the_end_of_text_may_be_named_beside_the_tokenizer(tmp_path):
    path = plain_tokenizer(tmp_path, ["</s>", "<stop>"])
    assert text_codec(path).end == 0
    for name in ("<stop>", {"content": "<stop>"}):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": name}))
        assert text_codec(path).end == 1


def test_a_lossy_tokenizer_says_so_and_remembers_it(tmp_path):
    path = plain_tokenizer(tmp_path, ["</s>"], lower=True)
    assert text_codec(path, ["it was the times"]).lossless
    lossy = text_codec(path, ["it was the times", "It was"])
    assert not lossy.lossless
    assert not codec_from_dict(lossy.to_dict(), {}).lossless


def test_a_tokenizer_of_the_papers_kind_ends_in_its_own_end_of_text(tmp_path):
    """T5's format: a Unigram model behind a metaspace, padding 0, `</s>` 1, unknown 2; here with a few words of its own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁Hello", -1.0), ("▁world", -2.0), ("▁", -3.0), ("s", -4.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    codec = text_codec(tmp_path / "tokenizer.json")
    assert (codec.vocab, codec.end, codec.lossless) == (7, 1, False)
    assert codec.encode("Hello world") == [3, 4]
    assert codec.decode([3, 4, 1]) == "Hello world"
    assert codec.end not in codec.encode("Hello </s> world")
    assert codec_from_dict(json.loads(json.dumps(codec.to_dict())), {}).encode("Hello world") == [3, 4]


def test_importing_the_codecs_does_not_import_tokenizers():
    code = "import sys, glauber.codec, glauber.data; print('tokenizers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("wrong", "about"),
    [
        pytest.param(lambda: text_codec("words"), "unknown tokenizer 'words'", id="name"),
        pytest.param(lambda: text_codec("bpe:many", TEXTS), "unknown tokenizer 'bpe:many'", id="size"),
        pytest.param(lambda: text_codec("bpe:100", TEXTS), "at least 257", id="small"),
        pytest.param(lambda: text_codec("char"), "made from texts", id="sample"),
        pytest.param(lambda: text_codec("char", ["", ""]), "no characters", id="empty"),
        pytest.param(lambda: text_codec("no/such/tokenizer.json"), "missing", id="file"),
        pytest.param(lambda: text_codec(__file__), "unknown tokenizer", id="suffix"),
        pytest.param(lambda: CharCodec("aa"), "different characters", id="twice"),
        pytest.param(lambda: CharCodec("ab").decode([3]), "0..2", id="outside"),
        pytest.param(lambda: CharCodec("ab").decode([[0]]), "one row", id="shape"),
        pytest.param(lambda: CharCodec("ab").decode([0.5]), "whole numbers", id="fraction"),
        pytest.param(lambda: ByteCodec().encode("\ud800"), "half a character", id="surrogate"),
        pytest.param(lambda: codec_from_dict({"kind": "char"}, {}), "not the settings", id="settings"),
        pytest.param(lambda: codec_from_dict({"kind": "tokenizer", "tokenizer": {}}, {}), "not the JSON", id="json"),
    ],
)
def test_a_mistake_is_one_sentence(wrong, about):
    with refused(about):
        wrong()


def test_a_file_that_is_no_tokenizer_is_named(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    with refused("x.json is missing, or not a tokenizer.json"):
        text_codec(tmp_path / "x.json")


def test_a_hub_tokenizer_that_cannot_be_had_is_one_sentence(monkeypatch):
    def unreachable(name, file):
        raise Exception(f"no network\nfor {name}")

    monkeypatch.setattr("glauber.codec.text.download", unreachable)
    with refused("the hub did not give a tokenizer.json for 'nobody/nothing'"):
        text_codec("hub:nobody/nothing")


def test_a_hub_tokenizer_is_taken_as_it_comes(monkeypatch, bpe, tmp_path):
    def download(name, file):
        assert (name, file) == ("somebody/something", "tokenizer.json")
        bpe.tokenizer.save(str(tmp_path / file))
        return tmp_path / file

    monkeypatch.setattr("glauber.codec.text.download", download)
    codec = text_codec("hub:somebody/something")
    assert (codec.vocab, codec.end) == (bpe.vocab, 0)
