"""What `evaluate` does with images."""

import io
import json
from pathlib import Path
from typing import Any

from glauber.cli.files import require_new
from glauber.evaluate.features import FeatureNetwork, Images, in_colour, read_images, reconstructed
from glauber.evaluate.fid import Statistics, unpacked

STATISTICS = ".safetensors"


def holds_images(samples: Path, features: str | None) -> bool:
    """By what is there; features from a file are those of images."""
    if features is not None and Path(features).suffix in (".pt", STATISTICS):
        return True
    from glauber.data.images import find_images, is_image

    if samples.is_dir():
        texts = any((samples / name).is_file() for name in ("samples.json", "header.json"))
        return not texts and next(find_images(samples), None) is not None
    if samples.suffix == ".npy" and samples.is_file():
        from glauber.runtime.files import read_array

        try:
            return read_array(samples).ndim > 2
        except ValueError:
            return False
    return samples.suffix == ".npz" or is_image(samples)


def evaluate_images(
    samples: Path,
    reference: Path | None,
    features: str | None,
    train: Path | None,
    reconstruct: str | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Print the figures and write them; or keep the statistics of the samples, if `out` is a file for tensors."""
    from glauber.evaluate import images
    from glauber.provenance import write_figures
    from glauber.runtime.files import write

    partial = None if out is None else out.with_name(f"{out.name}.partial")
    if out is not None and out.suffix == STATISTICS:
        if reference is not None or reconstruct is not None or train is not None:
            raise ValueError("--out NAME.safetensors keeps statistics of SAMPLES alone; give a .json for the figures")
        _keep_statistics(read_images(samples), _features(features), out, as_json)
        return
    if reference is None and reconstruct is None:
        raise ValueError("samples are compared with real images; name some with --reference, or their statistics")
    if out is not None:
        require_new(_picture_file(out), force)
    ours = shown = read_images(samples)
    if reconstruct is not None:
        ours, shown = _reconstructed(samples, reconstruct)
    real = ours if reference is None else _reference(reference)
    known = None if train is None else read_images(train)
    report = images.evaluate_images(shown, real, _features(features), known, partial, progress=not as_json)
    report["reference"]["source"] = report["reference"]["source"] or str(reference)
    if out is not None:
        if isinstance(where := known or real, Images):
            write(_picture_file(out), _picture(report["nearest"], shown, where))
        write_figures(out, report)
    if partial is not None:
        partial.unlink(missing_ok=True)
    print(json.dumps(report)) if as_json else _print_images(report)


def _reference(path: Path) -> Images | Statistics:
    return unpacked(path) if path.suffix == STATISTICS else read_images(path)


def _features(features: str | None) -> FeatureNetwork:
    if features is None:
        raise ValueError("images are compared by features of InceptionV3; name its file with --features (docs/evaluating.md)")
    return FeatureNetwork.read(Path(features))


def _keep_statistics(images: Images, network: FeatureNetwork, out: Path, as_json: bool) -> None:
    from glauber.evaluate.fid import packed
    from glauber.evaluate.images import statistics
    from glauber.runtime.files import write

    partial = out.with_name(f"{out.name}.partial")
    made = statistics(images, network, partial, progress=not as_json)
    write(out, packed(made))
    partial.unlink(missing_ok=True)
    kept = {"number": made.number, "hash": made.hash, "file": str(out)}
    print(json.dumps(kept) if as_json else f"{out}: statistics of {made.number:,} images, {made.hash[:12]}")


def _reconstructed(samples: Path, name: str) -> tuple[Images, Images]:
    """The images, and as they come back from a codec: that of a model or of shards, or one that `prepare` would name."""
    from glauber.codec import ImageSpec, is_image_codec
    from glauber.data import open_shards
    from glauber.model import load

    spec = ImageSpec.read(name)
    if spec is not None:
        images = read_images(samples, spec.grey)
        shape = images.shape if spec.grey else (*images.shape[:2], 3)
        spec.length(shape)
        return images, reconstructed(images, spec.make(shape, lambda: in_colour(images.read(range(images.number)))))
    codec = open_shards(name).codec if (Path(name) / "header.json").is_file() else load(name).codec
    if not is_image_codec(codec):
        raise ValueError(f"{name} has no codec of images; name a model of images, or shards")
    images = read_images(samples, grey=len(codec.shape) == 2)
    return images, reconstructed(images, codec)


def _picture(nearest: dict[str, Any], samples: Images, known: Images) -> bytes:
    """A .png: each sample, a gap, and its neighbours."""
    import numpy as np

    from glauber.pictures import grid

    rows = []
    for k, others in zip(nearest["shown"], nearest["neighbours"], strict=True):
        sample, near = in_colour(samples.read([k])), in_colour(known.read(others))
        rows += [sample, np.full_like(sample, 255), near]
    content = io.BytesIO()
    grid(np.concatenate(rows), 2 + len(nearest["neighbours"][0]), max(1, 64 // samples.shape[0])).save(content, "png")
    return content.getvalue()


def _picture_file(out: Path) -> Path:
    return out.with_name(f"{out.stem}-nearest.png")


def _print_images(report: dict[str, Any]) -> None:
    """Each figure with the numbers that it is of."""
    ours, real, features = report["samples"], report["reference"], report["features"]
    count = f"{ours['number']:,} against {real['number']:,}"
    rows = [("FID", f"{report['fid']:.3f}", count)]
    if "kid" in report:
        kid = report["kid"]
        both = f"{kid['subsets']} subsets of {kid['size']:,}"
        spread = f" ± {1000 * kid['std']:.3f}" if kid["size"] < max(ours["number"], real["number"]) else ""
        rows.append(("KID × 1000", f"{1000 * kid['mean']:.3f}{spread}", both if spread else f"{kid['size']:,} of each"))
    if "precision" in report:
        both = f"{report['precision_recall_number']:,} of each"
        rows += [(name, f"{report[name]:.3f}", both) for name in ("precision", "recall")]
    if "nearest" in report:
        near = report["nearest"]
        rows.append(("distance to the nearest", f"{near['median']:.3f}", f"median, among {near['number']:,}"))
        if "median_of_reference" in near:
            rows.append(("  of the reference images", f"{near['median_of_reference']:.3f}", "for comparison"))
    for name, value, note in rows:
        print(f"{name:<26}{value:>18}   {note}")
    print(f"samples    {ours['source']}, {ours['number']:,} images, {ours['hash'][:12]}")
    print(f"reference  {real['source']}, {real['number']:,} images, {real['hash'][:12]}")
    if "nearest" in report and report["nearest"]["source"] != real["source"]:
        print(f"nearest    {report['nearest']['source']}, {report['nearest']['number']:,} images")
    print(f"features   {features['name']}, {features['sha256'][:12]}")
    if min(ours["number"], real["number"]) <= features["width"]:
        print(f"FID of no more images than there are features ({features['width']:,}) is far too high; KID is not")
