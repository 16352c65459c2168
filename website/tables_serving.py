"""Tables of what `glauber serve` bears."""

from figures import Tables, markdown, number, raw


def sharing() -> str:
    """Seconds of equal requests, one after the other and at once."""
    body = [
        (
            name,
            number(row["one_after_the_other_s"], 1),
            number(row["at_once_s"], 1),
            number(row["times_the_throughput"]),
            f"{row['same_answers']} of {row['requests']}",
        )
        for name, row in raw("serving")["sharing"].items()
    ]
    return markdown("16 requests|one after the other, s:|at once, s:|times the throughput:|same answers:", body)


def load() -> str:
    """What many clients were answered, how soon, and in how much memory."""
    found = raw("serving")["load"]
    answers, took, health, memory = (found[name] for name in ("answers", "answer_s", "health_s", "memory_mb"))
    body = [
        ("answered", answers["200"]),
        ("hung up", answers["hung up"]),
        ("told to come again (429)", answers["429"]),
        ("server errors; lost", f"{found['server_errors']}; {len(found['lost'])}"),
        ("seconds to an answer, median; p95", f"{number(took['all']['median'], 1)}; {number(took['all']['p95'], 1)}"),
        (
            "milliseconds to an answer of `/health`, median; p99; most",
            "; ".join(number(1000 * health[name], 0) for name in ("median", "p99", "most")),
        ),
        (
            "memory after a quarter of the time; at the end; at most, MB",
            "; ".join(number(memory[name], 0) for name in ("after_warm_up", "at_the_end", "most")),
        ),
    ]
    return markdown("64 clients, two minutes|figure:", body)


SERVING: Tables = {"serving-sharing": sharing, "serving-load": load}
