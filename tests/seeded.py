"""What others' programs and ours are given to be compared, from seeds alone: `experiments/parity/` gives it to theirs."""

import numpy as np

FEATURES = {"even": (0, 200, 200, 32), "uneven": (1, 300, 240, 64), "wide": (2, 120, 120, 400)}
"""Seed, number of each kind and width."""


def features(seed: int, first: int, second: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sets, float32: clouds of several sizes which the sets share unevenly, far from the middle, of many lengths."""
    random = np.random.RandomState(seed)  # whose numbers never change
    centres, spread = random.standard_normal((12, width)), np.linspace(2, 0.3, width)
    sets = []
    for number, shares in ((first, random.dirichlet(np.full(12, 2.0))), (second, random.dirichlet(np.full(12, 2.0)))):
        cloud = centres[random.choice(12, size=number, p=shares)]
        points = cloud + random.standard_normal((number, width)) * spread + 1
        sets.append((points * np.exp(0.7 * random.standard_normal((number, 1)))).astype(np.float32))
    return sets[0], sets[1]


IMAGES, EVERY = 2, 16
"""How many images InceptionV3 is shown, and which of its features are kept: one in so many."""


def images() -> np.ndarray:
    """uint8 (IMAGES, 299, 299, 3): squares of random colours with a little noise."""
    random = np.random.RandomState(0)
    squares = random.randint(0, 256, (IMAGES, 10, 10, 3)).repeat(30, 1).repeat(30, 2)[:, :299, :299]
    return (squares + random.randint(-20, 21, squares.shape)).clip(0, 255).astype(np.uint8)


def inception_weights(layers: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """What a published archive has of each convolution, by its names: weight, beta, mean and var, in float32.

    Args:
        layers: the shape of each one's weight.
    """
    random, made = np.random.RandomState(1), {}
    for name, shape in layers.items():
        parts = {
            "weight": random.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5,
            "beta": random.standard_normal(shape[0]) / 10,
            "mean": random.standard_normal(shape[0]) / 10,
            "var": random.random_sample(shape[0]) + 0.5,
        }
        made |= {f"{name}.{part}": values.astype(np.float32) for part, values in parts.items()}
    return made
