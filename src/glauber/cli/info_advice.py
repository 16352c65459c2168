"""What `glauber train` would choose for prepared data on this machine, and for how long it is worth training."""

from pathlib import Path
from typing import Any

from glauber.cli.info_facts import count_parameters
from glauber.cli.options import MINUTES
from glauber.train.caution import TIMES
from glauber.train.choose import choose
from glauber.train.data import shards_data


def advice(name: str) -> dict[str, Any]:
    """As facts for programs. It takes some seconds, since steps are timed."""
    data = shards_data(Path(name))
    try:
        choice = choose(data, MINUTES)
    except ValueError as error:
        return {"advice": {"refused": str(error)}}
    plan, forecast = choice.plan, choice.forecast
    return {
        "advice": {
            "minutes": MINUTES,
            "layers": plan.network.layers,
            "width": plan.network.width,
            "parameters": count_parameters(plan.network),
            "why": choice.size,
            "batch": plan.train.batch,
            "steps": forecast.steps,
            "each_row_seen": forecast.times,
            "most_minutes": TIMES * len(data.train) / plan.train.batch * choice.taken.step / 60,
        }
    }


def advice_words(facts: dict[str, Any]) -> dict[str, str]:
    """The same for people; nothing where there is none."""
    if "advice" not in facts:
        return {}
    found = facts["advice"]
    if "refused" in found:
        return {"training": f"not here: {found['refused']}"}
    size = f"{found['layers']} layers of width {found['width']}, {found['parameters']:,} parameters"
    seen = f"{found['steps']:,} steps of {found['batch']:,} rows, each row seen {found['each_row_seen']:.1f} times"
    return {
        f"in {found['minutes']:g} minutes": f"{size}; {seen}",
        "that size": found["why"],
        "for how long": f"at that size each row is seen {TIMES} times after {found['most_minutes']:,.1f} minutes: no longer",
    }
