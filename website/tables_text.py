"""Tables of text: the methods side by side, the model in the box, the chains for a budget of calls, the three losses."""

import sys
from functools import partial
from typing import Any

from figures import FORWARD, METHODS, ORDERS, PARTS, RANDOM, ROOT, Tables, markdown, number, raw, with_error

sys.path.insert(0, str(ROOT / "experiments"))

from losses import best_runs, sooner

Row = dict[str, Any]


def order_of(row: Row) -> str:
    """The order of writing of a row of the table of methods."""
    if row["method"] == "real":
        return ""
    return "all sites at once" if row["order"] is None else ORDERS.get(row["order"], str(row["order"]))


def methods() -> str:
    """Every row of the table of methods."""
    rows = raw("table1")["rows"]
    body = [
        (
            "real text" if row["method"] == "real" else f"`{METHODS.get(row['method'], row['method'])}`",
            row["calls"] or "",
            order_of(row),
            number(row["bits_per_char"], 3),
            number(row["judge_ppl"], 0),
            number(row["entropy"]),
            number(row["mauve"]),
            "" if row["seconds_per_sample"] is None else f"{1000 * row['seconds_per_sample']:.2g}",
        )
        for row in rows
    ]
    return markdown("method|calls:|order|bits per character:|perplexity:|entropy:|MAUVE:|ms per sample:", body)


def bits(method: str, order: str, calls: int) -> str:
    """Bits per character of a row of the table of methods."""
    found = [row for row in raw("table1")["rows"] if (row["method"], order_of(row), row["calls"]) == (method, order, calls)]
    return number(found[0]["bits_per_char"], 2) if found else ""


def methods_short() -> str:
    """What the README shows: three methods, by order and calls."""
    shown = ((FORWARD, 256), (PARTS, 16), (RANDOM, 256), (RANDOM, 16))
    names = {FORWARD: "left to right", PARTS: "16 parts at once, each left to right", RANDOM: "random order"}
    body = [(names[order], calls, *(bits(method, order, calls) for method in ("ggm", "mdlm", "ar"))) for order, calls in shown]
    return markdown("written|calls:|`ggm`:|`mdlm`:|`ar`, overfitted:", body)


def budgets_of(orders: dict[int, str]) -> str:
    """Likelihood and perplexity of three methods, at some numbers of calls, each in an order of writing."""
    rows = {(row["method"], row["calls"], order_of(row)): row for row in raw("table1")["rows"]}
    body = []
    for method in ("ggm", "mdlm", "sedd"):
        found = [rows[method, calls, order] for calls, order in orders.items()]
        pairs = [(number(row["bits_per_char"], 3), number(row["judge_ppl"], 0)) for row in found]
        body.append([f"`{method}`", *(cell for pair in pairs for cell in pair)])
    return markdown("method|" + "|".join(f"{calls} calls, bits:|perplexity:" for calls in orders), body)


def samples() -> str:
    """The model in the box beside its AR baseline: what a judge and the training text say of samples."""
    told = {
        "novels": ("`novels`", FORWARD),
        "novels top-p 0.9": ("`novels`, top-p 0.9", FORWARD),
        "ar": ("AR baseline, overfitted", FORWARD),
        "ar top-p 0.9": ("AR baseline, overfitted, top-p 0.9", FORWARD),
        "gibbs 1": ("Gibbs sampling, masked LM, one sweep", FORWARD),
        "paper's chain": ("`novels`, four sweeps, keep ½", "**right to left**"),
    }
    found = raw("language")["samples"]
    sides = [(*told[name], f"{found[name]['calls']:.0f}", found[name]["samples"]) for name in told]
    sides.append(("real text", "", "", found["novels"]["reference"]))
    body = [(name, order, calls, *sample_figures(side)) for name, order, calls, side in sides]
    columns = "perplexity:|the paper's:|entropy:|MAUVE:|known letters:|known triples:|shared run, mean:|longest:"
    return markdown(f"|written|calls:|{columns}", body)


def sample_figures(side: Row) -> list[str]:
    """Of one set of samples."""
    judge, runs = side["judges"][0], side.get("overlap", {}).get("characters", {})
    small = [number(judge["perplexity"], 1), number(judge["perplexity_paper"], 1), number(side["entropy"])]
    shares = [number(side["mauve"]["mean"], 3), number(side.get("known_letters"), 3), number(side.get("known_triples"), 3)]
    return [*small, *shares, number(runs.get("mean"), 1), str(runs.get("max", ""))]


def visits() -> str:
    """Perplexity and entropy by visits of each site: the chain, and Gibbs sampling."""
    found = raw("language")["samples"]
    body = []
    for k in (1, 2, 4, 8, 16, 32, 64, 128):
        sides = [found[name]["samples"] if name in found else None for name in (f"chain {k}", f"gibbs {k}")]
        cells = [("", "") if s is None else (number(s["judges"][0]["perplexity"], 0), number(s["entropy"], 1)) for s in sides]
        body.append((k, next(s["number"] for s in sides if s), *cells[0], *cells[1]))
    return markdown("visits:|samples:|chain, perplexity:|entropy:|Gibbs sampling, perplexity:|entropy:", body)


def bounds() -> str:
    """Bits per character of held-out rows: the model in the box, and its AR baseline."""
    told = {
        "novels, one sweep in reading order": "`novels`, left to right (exact)",
        "ar": "AR baseline after the same 180 s, overfitted (exact)",
        "novels, one sweep in random order": "`novels`, one sweep in random order (bound)",
        "novels, four sweeps in reading order": "`novels`, four sweeps from left to right (bound)",
        "novels, four sweeps in random order": "`novels`, four sweeps in random order (bound)",
    }
    found = raw("bounds")
    sides = {label: found[name]["reversal"] for name, label in told.items()}
    body = [(label, with_error(s["bits_per_character"], s["standard_error_per_character"])) for label, s in sides.items()]
    return markdown("|bits per character:", body)


def fills() -> str:
    """Filling 64 tokens in the middle of 256."""
    found = raw("language")["infill"]
    told = {"reading": "one sweep, keep 0", "four_sweeps": "four sweeps, keep ½, ½, ½, 0"}
    body = []
    for sweeps, label in told.items():
        for rule, clamping in (("exact", "exact"), ("paper", "the paper's rule")):
            report = found[f"{sweeps}_{rule}"]
            judge = report["judges"][0]
            apart = f"{judge['difference']:.1f}", f"{judge['difference_error']:.1f}"
            body.append((label, clamping, *apart, number(report["recovery"], 3)))
    return markdown("schedule|clamping|nats above the truth:|standard error:|tokens recovered:", body)


def kinds() -> tuple[dict[str, dict[int, float]], list[int]]:
    """Perplexity by kind of chain and budget of calls, and the budgets."""
    found: dict[str, dict[int, float]] = {}
    for row in raw("calls")["rows"]:
        budget, sweeps, order, block = row["name"].removeprefix("calls ").split(", ")
        order = PARTS if order in ORDERS else order  # blocks of one site from left to right are parts of one site
        how = " ".join(block.split()[2:]).replace("labelled", "marked")
        kind = ", ".join(part for part in (sweeps.replace("1 sweeps", "1 sweep"), order, how) if part)
        found.setdefault(kind, {})[int(budget)] = row["perplexity"]
    return found, sorted({budget for cells in found.values() for budget in cells})


def calls() -> str:
    """Every kind of chain, by budget."""
    found, budgets = kinds()
    rows = sorted(found, key=lambda kind: (kind.split(", ")[1] != PARTS, kind.split(", ")[1], kind))
    body = [(kind, *(number(found[kind].get(budget), 0) for budget in budgets)) for kind in rows]
    return markdown("chain|" + "|".join(f"{budget}:" for budget in budgets), body)


def calls_short() -> str:
    """What the guide shows: one sweep, and the best of the others."""
    found, budgets = kinds()
    rows = ("1 sweep, in parts", "2 sweeps, in parts", "4 sweeps, in parts", "1 sweep, random", "1 sweep, strided")
    body = [(kind, *(number(found[kind].get(budget), 0) for budget in budgets[:-1])) for kind in rows]
    return markdown("chain|" + "|".join(f"{budget} calls:" for budget in budgets[:-1]), body)


def losses() -> str:
    """The three losses at their best rates, and how much sooner the dense one was there."""
    best, body = best_runs(raw("losses-letters")["runs"]), []
    for conditioning in ("time", "survival"):
        for loss in ("binary", "marginal", "dense"):
            run = best[loss, conditioning]
            end = run["curve"][-1]
            clocks = () if loss == "dense" else ("seconds", "step")
            factors = [f"{sooner(best['dense', conditioning], run, clock):.1f} ×" for clock in clocks]
            figures = (f"{run['rate']:.0e}".replace("e-0", "e-"), number(end["bits_per_token"], 3), f"{end['step']:,}")
            body.append((loss, f"the {conditioning}", *figures, *(factors or ["", ""])))
    head = "loss|conditioned on|best rate:|bits per letter:|steps:|dense sooner, by time:|by steps:"
    return markdown(head, body)


def text8() -> str:
    """One minute of text8: how rows are noised."""
    told = {
        "ggm, seed 0": "`ggm`, batch 256, every 4th row causal, 30 % marked",
        "ggm marked 0.6, seed 0": "the same, 60 % marked",
        "ggm marked 0.9, seed 0": "the same, 90 % marked",
        "ggm 2nd then 8th, seed 0": "30 % marked; every 2nd row causal in the first half of the run, then every 8th",
        "ggm batch 128 marked 0.6, seed 0": "batch 128, every 4th row causal, 60 % marked",
        "ggm batch 128 marked 0.9, seed 0": "batch 128, every 4th row causal, 90 % marked; Q, K, V apart",
        "ggm every 2nd batch 128 marked 0.9, seed 0": "batch 128, every 2nd row causal, 90 % marked",
        "mdlm, seed 0": "`mdlm`, batch 256",
        "mdlm batch 128, seed 0": "`mdlm`, batch 128; Q, K, V apart",
    }
    columns = ("causal", "random 256", "random 16", "parts 16", "four sweeps")
    runs = raw("text8-minute")["runs"]
    body = [(label, *(number(runs[name]["bits"].get(column), 3) for column in columns)) for name, label in told.items()]
    return markdown("run, Muon 4e-3|left to right:|random, 256 calls:|random, 16:|in parts, 16:|four sweeps:", body)


def small() -> str:
    """A small run on a CPU."""
    found = raw("small")
    chance = found["log"][0]["unigram_bits_per_token"]
    exact, random = found["causal"]["bounds"]["reversal"], found["random_order"]["bounds"]
    words = found["words_in_training_text"]
    body = [
        ("bits per character, by letter frequencies alone, validation rows", f"{chance:.2f}"),
        ("bits per character, left to right, all held-out text, exact", f"{exact['bits_per_character']:.2f}"),
        (
            "bits per character, random order, four sweeps, 100 rows, bound of the reversal",
            f"{random['reversal']['bits_per_character']:.2f}",
        ),
        ("bits per character, the same, bound of the heat bath", f"{random['heat-bath']['bits_per_character']:.2f}"),
        ("words that the training text has, of those in 16 samples, left to right", f"{100 * words['samples']:.0f} %"),
        ("words that the training text has, of those in the held-out text", f"{100 * words['held_out']:.0f} %"),
    ]
    return markdown("|value:", body)


TEXT: Tables = {
    "small": small,
    "methods": methods,
    "methods-short": methods_short,
    "methods-forward": partial(budgets_of, {16: PARTS, 64: PARTS, 256: FORWARD}),
    "methods-random": partial(budgets_of, dict.fromkeys((16, 64, 256), RANDOM)),
    "novels-samples": samples,
    "novels-visits": visits,
    "novels-bounds": bounds,
    "novels-fills": fills,
    "calls": calls,
    "calls-short": calls_short,
    "losses": losses,
    "text8": text8,
}
