"""Put a trained causal model into the package: compact weights, one sweep from left to right as its schedule, its provenance.

    python experiments/bundle.py RUN NAME

RUN is a training run or a model's folder. The front matter of the card is made anew; the text below it is written by hand.
"""

import argparse
from pathlib import Path

from glauber import Model, load
from glauber.card import front_matter
from glauber.codec.vq import VQCodec
from glauber.hub import CARD
from glauber.method.ggm import causal_process
from glauber.storage import BUNDLED


def main() -> None:
    """Read the arguments; save the model anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    args = parser.parse_args()
    model, name = load(args.run.resolve()), args.name
    causal = causal_process(model.process)
    codec = model.codec
    if isinstance(codec, VQCodec):  # in half precision, which is enough for pixels of 256 levels
        codec = VQCodec(codec.network, {name: tensor.half() for name, tensor in codec.weights.items()}, codec.shape)
    about = {"license": "apache-2.0", **model.about}
    made = Model(
        model.network, causal, codec, model.method.name, model.sampling, about, model.trained or model.process.schedule
    )
    folder = made.save(BUNDLED / name, overwrite=True, compact=True)
    path = folder / CARD
    text = path.read_text(encoding="utf-8").split("\n---\n", 1)[-1] if path.exists() else f"\n# {name}\n"
    path.write_text(f"{front_matter(made, name)}\n{text}", encoding="utf-8")
    print(f"{sum(file.stat().st_size for file in folder.iterdir()):,} bytes in {folder.name}")


if __name__ == "__main__":
    main()
