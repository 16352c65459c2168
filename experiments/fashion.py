"""Fashion-MNIST: its files as arrays, and a small classifier that says what is in an image.

    python experiments/fashion.py arrays DATA OUT                      # train.npy, test.npy and their labels
    python experiments/fashion.py folders DATA OUT                     # OUT/train/CLASS/00000.png and so on
    python experiments/fashion.py classifier DATA classifier.safetensors

    apt-get download dataset-fashion-mnist && dpkg -x dataset-fashion-mnist_*.deb deb
    python experiments/fashion.py arrays deb/usr/share/datasets/fashion-mnist OUT

DATA holds the four *-ubyte.gz files, as Debian's dataset-fashion-mnist and the authors give them; what is in them is checked
against its sha256. `glauber prepare OUT/train --grey --tokenizer vq:CODEC` takes the folders.
"""

import gzip
from pathlib import Path

import numpy as np
import torch
from checked import require
from safetensors.torch import load_file, save
from shared import PATH, device, run_command
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from glauber.runtime.files import write

PARTS = {"train": "train", "test": "t10k"}
SHA256 = {
    "train-images-idx3": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
"""Of what the files hold, unpacked."""
NAMES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
EPOCHS, BATCH, RATE = 8, 256, 5e-3


def read_part(data: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 28, 28) and labels (N,) of train or test."""
    found = []
    for name in (f"{PARTS[part]}-{kind}" for kind in ("images-idx3", "labels-idx1")):
        file = data / f"{name}-ubyte.gz"
        if not file.is_file():
            raise SystemExit(f"{file} is missing; name the folder of the four *-ubyte.gz files")
        content = require(gzip.decompress(file.read_bytes()), SHA256[name], str(file), "take Debian's dataset-fashion-mnist")
        found.append(np.frombuffer(content, np.uint8))
    images, labels = found
    return images[16:].reshape(-1, 28, 28), labels[8:]


class Classifier(nn.Sequential):
    """Grey images (n, 1, 28, 28) → logits of the ten classes."""

    def __init__(self) -> None:
        super().__init__(
            *self.stage(1, 16),
            *self.stage(16, 32),
            *self.stage(32, 64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        )

    @staticmethod
    def stage(channels: int, out: int) -> list[nn.Module]:
        """Two convolutions, and half the side."""
        first, second = (nn.Conv2d(given, out, 3, padding=1, bias=False) for given in (channels, out))
        return [first, nn.BatchNorm2d(out), nn.ReLU(), second, nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]


def as_input(images: np.ndarray, device: torch.device) -> Tensor:
    """In [-1, 1]."""
    return torch.from_numpy(np.array(images)).to(device)[:, None].float() / 127.5 - 1


def train_classifier(images: np.ndarray, labels: np.ndarray, epochs: int = EPOCHS, seed: int = 0) -> Classifier:
    """By Adam on mirrored and shifted images, the rate falling to 0."""
    torch.manual_seed(seed)
    network = Classifier().to(device()).train()
    x, y = as_input(images, device()), torch.from_numpy(labels.astype(np.int64)).to(device())
    steps = epochs * (len(x) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    bar = tqdm(total=steps, desc="classifier", disable=None)
    for _ in range(epochs):
        for rows in torch.randperm(len(x))[: len(x) // BATCH * BATCH].view(-1, BATCH):
            batch = F.pad(x[rows.to(x.device)], (2, 2, 2, 2), value=-1)
            down, across = torch.randint(5, (2,)).tolist()
            batch = batch[:, :, down : down + 28, across : across + 28]
            if torch.rand(()) < 0.5:
                batch = batch.flip(3)
            loss = F.cross_entropy(network(batch), y[rows.to(y.device)])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            bar.update()
            bar.set_postfix_str(f"loss {loss.item():.3f}")
    return network.eval()


@torch.no_grad()
def classes(network: Classifier, images: np.ndarray) -> np.ndarray:
    """The likeliest class of each image (N, 28, 28)."""
    where = next(network.parameters()).device
    parts = [network(as_input(images[at : at + 1000], where)).argmax(1).cpu() for at in range(0, len(images), 1000)]
    found: np.ndarray = torch.cat(parts).numpy()
    return found


def agreement(network: Classifier, a: np.ndarray, b: np.ndarray) -> float:
    """The share of images of a whose class is that of the same image of b."""
    return float((classes(network, a) == classes(network, b)).mean())


def read_classifier(path: Path) -> Classifier:
    """What `classifier` wrote."""
    network = Classifier()
    network.load_state_dict(load_file(path))
    return network.to(device()).eval()


def arrays(data: Path, out: Path) -> None:
    """Images and labels as .npy."""
    out.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        images, labels = read_part(data, part)
        np.save(out / f"{part}.npy", images)
        np.save(out / f"{part}-labels.npy", labels)


def folders(data: Path, out: Path) -> None:
    """A folder of images for each class of each part, as `glauber prepare --classes` takes it."""
    from PIL import Image

    for part in PARTS:
        for name in NAMES:
            (out / part / name).mkdir(parents=True, exist_ok=True)
        for number, (image, label) in enumerate(zip(*read_part(data, part), strict=True)):
            Image.fromarray(image).save(out / part / NAMES[label] / f"{number:05d}.png", compress_level=1)


def classifier(data: Path, out: Path, epochs: int) -> None:
    """Train it, and say how often it is right on the test images."""
    network = train_classifier(*read_part(data, "train"), epochs)
    images, labels = read_part(data, "test")
    write(out, save(network.cpu().state_dict()))
    print(f"{out}: {(classes(network, images) == labels).mean():.4f} of {len(labels):,} test images right")


def main() -> None:
    """See above."""
    places = {"data": PATH, "out": PATH}
    epochs = {"type": int, "default": EPOCHS}
    run_command(__doc__, {arrays: places, folders: places, classifier: places | {"--epochs": epochs}})


if __name__ == "__main__":
    main()
