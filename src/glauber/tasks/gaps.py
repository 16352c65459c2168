r"""Where a text has gaps, and how long each may be.

[[12]] is a gap of 12 tokens, [[3-20]] one of 3 to 20, [[ ]] one of any number; a plain [[ is written \[[.
"""

import re
from typing import NamedTuple

GAP = re.compile(r"\\\[\[|\[\[(?: *([0-9]+) *(?:- *([0-9]+) *)?| +)\]\]|\[\[(?!\[)")
"""An escaped [[, a gap, or a [[ that is neither. In that order of the alternatives."""
DIGITS = 18
EXAMPLE = "write [[12]] where 12 tokens are missing"


class Size(NamedTuple):
    """How many tokens a gap may have."""

    least: int
    most: int | None
    """None for what the window leaves."""

    def __add__(self, other: "Size") -> "Size":  # type: ignore[override]
        """Of two gaps with nothing between them."""
        return Size(self.least + other.least, None if self.most is None or other.most is None else self.most + other.most)

    def __str__(self) -> str:
        if self.most is None:
            return "[[ ]]"
        return f"[[{self.least}]]" if self.least == self.most else f"[[{self.least}-{self.most}]]"


def split_gaps(text: str) -> tuple[list[str], list[Size]]:
    r"""The given pieces, one more than there are gaps, and the sizes of the gaps. A plain [[ is written \[[.

    Gaps with nothing between them are one gap.
    """
    if not text:
        raise ValueError("the text is empty; write some, with [[12]] where 12 tokens are missing")
    pieces, last = [""], 0
    sizes: list[Size] = []
    for found in GAP.finditer(text):
        pieces[-1] += text[last : found.start()]
        last = found.end()
        if found[0] == "\\[[":
            pieces[-1] += "[["
            continue
        size = size_of(found, text)
        if sizes and not pieces[-1]:
            sizes[-1] += size
        else:
            sizes.append(size)
            pieces.append("")
    pieces[-1] += text[last:]
    if not sizes:
        raise ValueError(f"the text has no gap; {EXAMPLE}")
    return pieces, sizes


def size_of(found: "re.Match[str]", text: str) -> Size:
    """What a match of GAP says."""
    if not found[0].endswith("]]"):
        around = text[found.start() : found.start() + 12]
        raise ValueError(rf"{around!r} is no gap; {EXAMPLE}, [[3-20]] or [[ ]] where you do not know, and \[[ for a plain [[")
    if found[1] is None:
        return Size(1, None)
    if max(len(found[1]), len(found[2] or "")) > DIGITS:
        raise ValueError(f"a gap of so many tokens is longer than any text; {EXAMPLE}")
    size = Size(int(found[1]), int(found[2] or found[1]))
    if size.least == 0:
        raise ValueError(f"a gap has at least one token; write {Size(1, max(1, int(found[2] or 1)))}, not {found[0]}")
    if size.most is not None and size.least > size.most:
        raise ValueError(f"the gap {found[0]} is upside down; write {Size(size.most, size.least)}")
    return size
