"""A grid as a picture: givens black, right cells blue, wrong ones orange, noise grey."""

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

CELL = 32
GIVEN, RIGHT, WRONG, NOISE = (30, 30, 30), (0, 114, 178), (213, 94, 0), (190, 190, 190)


def draw(state: Tensor, given: Tensor, tokens: Tensor, side: int) -> Image.Image:
    """Of one state (L,) of tokens from 0; the mask is the token `side`."""
    picture = Image.new("RGB", (side * CELL + 3, side * CELL + 3), (252, 252, 250))
    pen, font, box = ImageDraw.Draw(picture), ImageFont.load_default(CELL * 0.6), round(side**0.5)
    for k, (token, fixed, right) in enumerate(zip(state.tolist(), given.tolist(), tokens.tolist(), strict=True)):
        middle = (k % side + 0.5) * CELL + 1, (k // side + 0.5) * CELL + 1
        colour = GIVEN if fixed else NOISE if token == side else RIGHT if token == right else WRONG
        pen.text(middle, "·" if token == side else str(token + 1), colour, font, anchor="mm")
    for k in range(side + 1):
        thick, at = (3 if k % box == 0 else 1), k * CELL + 1
        for ends in ((at, 0, at, side * CELL + 2), (0, at, side * CELL + 2, at)):
            pen.line(ends, (90, 90, 90), thick)
    return picture
