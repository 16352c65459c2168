"""Tables of images: FID and its like, fills by rule, and how features were checked."""

from typing import Any

from figures import Tables, markdown, number, raw

SCORES = "FID:|precision:|recall:|KID, thousandths:|nearest:"


def scores(side: dict[str, Any]) -> list[str]:
    """The figures of a set of images."""
    first = [number(side["fid"]), number(side["precision"], 3), number(side["recall"], 3)]
    return [*first, number(1000 * side["kid"]["mean"]), number(side["nearest"]["median"])]


def seconds(side: dict[str, Any]) -> str:
    """Of drawing all samples."""
    return number(side["sampled"]["seconds"], 1) if "sampled" in side else ""


def fashion() -> str:
    """Every set of samples of Fashion-MNIST."""
    told = {
        "ggm": ("`ggm`", "line by line", "196"),
        "ar": ("`ar`", "line by line", "196"),
        "mdlm": ("`mdlm`", "random order", "196"),
        "ggm-quarter": ("`ggm`, int8", "four bands at once, each line by line", "49"),
        "ggm-strided": ("`ggm`", "four bands at once, each from its end", "49"),
        "mdlm-quarter": ("`mdlm`", "random order, four at once", "49"),
        "reconstructed": ("test images through the codec", "", ""),
        "test": ("test images", "", ""),
    }
    found = raw("fashion")["samples"]
    body = [(*told[name], *scores(found[name]), seconds(found[name])) for name in told]
    return markdown(f"|written|calls:|{SCORES}|seconds:", body)


def fashion_short() -> str:
    """Three methods: FID, and likelihood where it is known."""
    found, likelihood = raw("fashion")["samples"], raw("fashion-bits")["bits_per_token"]
    told = (
        ("ar", "ar", "line by line", 196),
        ("ggm", "ggm", "line by line", 196),
        ("mdlm", "mdlm", "random order", 196),
        ("ggm-quarter", "ggm", "four bands at once, each line by line", 49),
        ("mdlm-quarter", "mdlm", "random order", 49),
    )
    body: list[tuple[object, ...]] = [
        (f"`{method}`", order, calls, number(found[name]["fid"]), number(likelihood.get(name), 3))
        for name, method, order, calls in told
    ]
    body.append(("test images through the codec", "", "", number(found["reconstructed"]["fid"]), ""))
    return markdown("method|written|calls:|FID:|bits per token:", body)


def faces() -> str:
    """Faces at 64 pixels."""
    found = raw("faces")["samples"]
    told = {
        "ggm": "`ggm`, line by line, 5,000 samples",
        "reconstructed": "5,000 held-out images through the codec",
        "test": "5,000 held-out images",
    }
    return markdown(f"|{SCORES}|seconds:", [(told[name], *scores(found[name]), seconds(found[name])) for name in told])


def inpainting() -> str:
    """Fills of three kinds of holes, by the rule that says which tokens are given."""
    rules = {
        "the codec's own": "the truth through the codec",
        "smooth": "closed smoothly",
        "cover": "`cover`",
        "paper": "`paper`",
    }
    body = []
    for row in raw("inpainting")["rows"]:
        if row["rule"] == "truth":
            continue
        rule = rules[row["rule"]] + (", not conditioned on what is clean" if row.get("clamp") == "paper" else "")
        first = (row["hole"], row["images"], rule, number(row.get("given")), number(row["lpips"], 3))
        body.append((*first, number(row["agreement"]), number(row["rms error in the hole"], 0), number(row["seam"], 0)))
    return markdown("hole|images:|rule|given tokens:|LPIPS:|agreement:|error in the hole:|seam:", body)


def rules() -> str:
    """The rules `cover` and `iterative`, by hole."""
    rows = {(row["hole"], row["rule"]): row for row in raw("inpainting-turns")["rows"]}
    body = []
    for hole in ("top", "centre", "blobs"):
        for name, rule in (("cover", "cover"), ("turns", "iterative")):
            row = rows[hole, name]
            figures = (number(row["lpips"], 3), number(row["agreement"]), number(row["rms error in the hole"], 0))
            body.append((hole, f"`{rule}`", *figures))
    return markdown("hole|rule|LPIPS:|agreement:|error in the hole:", body)


def inception() -> str:
    """What half precision changes."""
    found = raw("inception")
    told = {
        "published program": "the archive's own program",
        "ours": "ours, float32",
        "half weights": "half-precision weights, float32 computation: **what is used**",
        "half weights and activations": "activations rounded to half precision, too",
        "half weights, bfloat16 activations": "activations rounded to bfloat16",
    }
    large = found["five_hundred"]
    body = [
        (
            label,
            number(found[name]["fid"], 4),
            number(large.get(name, {}).get("fid"), 4),
            f"{found[name]['largest_difference']:.1g}",
        )
        for name, label in told.items()
    ]
    return markdown("network|FID, 128 and 128:|FID, 500 and 500:|largest difference of a feature:", body)


IMAGES: Tables = {
    "fashion": fashion,
    "fashion-short": fashion_short,
    "faces": faces,
    "inpainting": inpainting,
    "inpainting-rules": rules,
    "inception": inception,
}
