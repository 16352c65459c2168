"""Tables of comparisons with the methods' official code, and of the demo."""

from functools import partial
from typing import Any

from figures import Tables, markdown, number, raw

OFFICIAL = ("MDLM", "SEDD", "UDLM", "DUO", "Plaid")


def rows_of(method: str) -> list[dict[str, Any]]:
    """All comparisons of a method."""
    return [row for row in raw("parity")["rows"] if row["method"] == method]


def parity() -> str:
    """The largest difference of each method."""
    body = []
    for method in OFFICIAL:
        rows = rows_of(method)
        worst = max(rows, key=lambda row: float(row["difference"]))
        body.append((method, len(rows), f"{worst['difference']:.1e}", f"{worst['within']:.0e}"))
    return markdown("method|comparisons:|largest difference:|allowed:", body)


def parity_of(method: str) -> str:
    """Each comparison of one method."""
    body = [
        (row["what"], row["numbers"], "0" if row["difference"] == 0 else f"{row['difference']:.1e}", f"{row['within']:.0e}")
        for row in rows_of(method)
    ]
    return markdown("compared|numbers:|largest difference:|allowed:", body)


def demo() -> str:
    """What the demo measures of its samples."""
    found = raw("demo")
    body = [
        ("confidence of a classifier of digits, real", number(found["confidence_real"])),
        ("the same, samples", number(found["confidence_samples"])),
        ("the same, noise", number(found["confidence_noise"])),
        ("network calls of a sample of 64 steps, mean", number(found["calls"], 1)),
    ]
    return markdown("|value:", body)


METHODS: Tables = {"parity": parity, "demo": demo} | {f"parity-{name.lower()}": partial(parity_of, name) for name in OFFICIAL}
