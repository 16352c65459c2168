"""Put a trained model that reads into the package: compact weights, reading order as its own schedule, and where it comes from.
The front matter of its card is made anew; what people read below it is written by hand.

python experiments/bundle.py RUN NAME
"""

import sys
from pathlib import Path

from glauber import Model, Process, Schedule, load
from glauber.card import front_matter
from glauber.codec.vq import VQCodec
from glauber.hub import CARD
from glauber.storage import BUNDLED


def main() -> None:
    """RUN is a training run or a model's folder."""
    run, name = sys.argv[1:]
    model = load(Path(run).resolve())
    L = model.process.length
    reading = Process(Schedule.round_robin(L, L, 0.0, "left-to-right"), model.process.noise)
    codec = model.codec
    if isinstance(codec, VQCodec):  # in half precision, which is enough for pixels of 256 levels
        codec = VQCodec(codec.network, {name: tensor.half() for name, tensor in codec.weights.items()}, codec.shape)
    about = {"license": "apache-2.0", **model.about}
    made = Model(model.network, reading, codec, model.objective, model.sampling, about)
    folder = made.save(BUNDLED / name, overwrite=True, compact=True)
    path = folder / CARD
    said = path.read_text(encoding="utf-8").split("\n---\n", 1)[-1] if path.exists() else f"\n# {name}\n"
    path.write_text(f"{front_matter(made, name)}\n{said}", encoding="utf-8")
    print(f"{sum(file.stat().st_size for file in folder.iterdir()):,} bytes in {folder.name}")


if __name__ == "__main__":
    main()
