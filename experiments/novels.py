"""100 English novels of the 19th and early 20th century (public domain), as texts to train, validate and test on.

    git clone https://github.com/computationalstylistics/100_english_novels
    git -C 100_english_novels checkout 143e601
    python experiments/novels.py 100_english_novels OUT
    glauber prepare OUT/train.txt --out data --tokenizer bpe:4096 --length 256

OUT gets train.txt (94 novels, 74.0 MB), valid.txt (3, 1.6 MB) and test.txt (3, 1.7 MB): UTF-8, a form feed between two novels,
the line ends of Unix, no blanks at the end of a line, at most one empty line on end. Each is checked against its sha256.
"""

import argparse
import json
import re
from pathlib import Path

from checked import keep

SHA256 = {
    "train": "ffd262672c4d52b3aebd341e52ad6dc5d6dea42a75096852225c9ddf976a4975",
    "valid": "cb4852d0f5c45c4d2c409f8da7b84d8426b94dae75df343678ca1c71d82c783a",
    "test": "f5fdb2c99e67f9f5951f829d146592c3321ccb9c80304667703190f2bb4afb52",
}
SPLIT = Path(__file__).with_name("novels.json")
"""The novels of each part, in their order."""


def novel(raw: bytes) -> str:
    """Its text; a form feed inside it ends a page, and is a line end here."""
    text = raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()


def main() -> None:
    """Read the checkout, write three texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    for part, names in json.loads(SPLIT.read_text()).items():
        missing = [name for name in names if not (args.checkout / "corpus" / f"{name}.txt").is_file()]
        if missing:
            raise SystemExit(f"{args.checkout} has no corpus/{missing[0]}.txt; name a checkout of 100_english_novels")
        texts = [novel((args.checkout / "corpus" / f"{name}.txt").read_bytes()) for name in names]
        keep(args.out / f"{part}.txt", "\f".join(texts).encode(), SHA256[part], "check out commit 143e601")


if __name__ == "__main__":
    main()
