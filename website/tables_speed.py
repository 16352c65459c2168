"""Tables of speed: training, a call of the chain, what Muon costs."""

from figures import Tables, markdown, number, raw

NETWORKS = {"large": "387 M", "small": "28.6 M"}


def train() -> str:
    """Tokens a second, and the share of the card's matrix products."""
    told = {"glauber": "glauber", "fixed batch": "glauber, a fixed batch", "plain loop": "plain loop"}
    body = [
        (
            f"{NETWORKS[row['network']]}, L = {row['length']}",
            f"{row['objective']}",
            told[row["how"]],
            row["batch"],
            f"{row['tokens_per_second']:,.0f}",
            number(row["flops_per_second"] / 1e12, 0),
            f"{100 * row['share_of_matmul']:.0f} %",
            f"{row['memory_gb']:.1f} ({row['reserved_gb']:.1f})",
        )
        for row in raw("train")["rows"]
    ]
    return markdown("network|loss|how|batch:|tokens/s:|TFLOP/s:|of matmul:|GB used (reserved):", body)


def sample() -> str:
    """Milliseconds of a call: the bare network, as a CUDA graph, in the chain."""
    rows = sorted(raw("sample")["rows"], key=lambda row: (row["network"], row["length"] != 1024, row["length"], row["batch"]))
    body = [
        (
            "387 M" if row["network"] == "large" else "18.6 M (`novels`)",
            row["length"],
            row["batch"],
            *(number(1000 * row[key], 1) for key in ("forward_seconds", "replayed_seconds", "call_seconds")),
            number(row["ratio"]),
            number(row["ratio_to_replayed"]),
            f"{100 * row['share_of_matmul']:.2g} %",
            f"{row['memory_gb']:.1f} ({row['reserved_gb']:.1f})",
        )
        for row in rows
    ]
    head = "network|L:|rows:|bare:|CUDA graph:|in the chain:|of bare:|of CUDA graph:|of matmul:|GB used (reserved):"
    return markdown(head, body)


def muon() -> str:
    """Milliseconds of a step with AdamW and with Muon."""
    rows = {(row["network"], row["batch"], row["optimizer"]): row for row in raw("muon-cost")["rows"]}
    body = []
    for network, batch, _ in (key for key in rows if key[2] == "adamw"):
        adamw, other = (1000 * rows[network, batch, name]["seconds_per_step"] for name in ("adamw", "muon"))
        length = rows[network, batch, "adamw"]["length"]
        body.append(
            (f"{NETWORKS[network]}, L = {length}", batch, f"{adamw:.1f}", f"{other:.1f}", f"{100 * (other / adamw - 1):.1f} %")
        )
    return markdown("network|batch:|AdamW:|Muon:|more:", body)


SPEED: Tables = {"train": train, "sample": sample, "muon": muon}
