"""A run's folder: its config.json, which is the truth about the run, and the lock of who trains there."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from glauber.recipe import Recipe
from glauber.runs import CONFIG, is_run
from glauber.runtime.files import disk_full_said, read_object, write
from glauber.runtime.locks import lock
from glauber.storage import is_bundled
from glauber.train.overrides import flat, recipe_of
from glauber.train.parallel import World

LOCK, CHOSEN = "lock", "chosen.toml"
LEFT_BEHIND = {LOCK, CHOSEN, f"{CONFIG}.tmp"}
"""What a run that was killed before it had a config leaves."""
MAY_CHANGE = {
    f"train.{name}"
    for name in (
        *("steps", "seconds", "checkpoint_every", "keep_checkpoints", "evaluate_every", "valid_rows", "patience"),
        *("samples", "tensorboard", "parallel"),
        *("lr", "min_lr", "warmup", "decay", "grad_clip"),  # who trained into a NaN must be able to lower the rate
    )
}
"""Settings that --resume takes."""
PROSE = ("about", "tokens")


class RunConfig(NamedTuple):
    """What a run is, as its config.json says."""

    recipe: Recipe
    hash: str  # of the data
    data: Path | None  # its folder; None for data that comes with the recipe
    init: str | None  # the model whose weights it started from

    def to_dict(self) -> dict[str, Any]:
        where = None if self.data is None else str(self.data)
        return {"recipe": self.recipe.to_dict(), "data": self.hash, "data_folder": where, "init": self.init}


def read_config(out: Path) -> RunConfig:
    """What the run in a folder is."""
    said = read_object(out / CONFIG) if (out / CONFIG).is_file() else {}
    if "recipe" not in said:
        raise ValueError(f"{out} holds no run to go on with; leave --resume out to start one there")
    try:
        where, init = said.get("data_folder"), said.get("init")
        if not isinstance(said["data"], str) or not isinstance(init, str | None):
            raise TypeError("its data or its init is no name")
        return RunConfig(recipe_of(said["recipe"]), said["data"], None if where is None else Path(where), init)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{out / CONFIG} is damaged, or of another version of glauber ({error})") from error


def require_same(out: Path, old: Recipe, new: Recipe) -> None:
    """Refuse the first setting of a run that differs and must not."""
    before, after = flat(old.to_dict()), flat(new.to_dict())
    for name in before | after:
        was, asked = before.get(name), after.get(name)
        if was != asked and name not in MAY_CHANGE and name not in PROSE:
            raise ValueError(
                f"the run in {out} has {name}={json.dumps(was)}, and --resume cannot make it {json.dumps(asked)}; "
                "leave it as it is, or start another run with another --out"
            )


def name_of(init: str) -> str:
    """Of a model, so that it is found from elsewhere, too."""
    return str(Path(init).resolve()) if not is_bundled(init) and Path(init).exists() else init


@contextmanager
def claimed(out: Path, run: RunConfig, resume: bool, world: World) -> Iterator[None]:
    """The folder is this run's, and no other process trains in it."""
    held = world.together(lambda: _claim(out, run, resume) if world.first else None)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _claim(out: Path, run: RunConfig, resume: bool) -> int:
    """Make the folder ours, or check that it is the same run. Returns what holds the lock until it is closed."""
    require_place(out, resume)
    with disk_full_said(out, "go on with --resume" if resume else "repeat the command"):
        out.mkdir(parents=True, exist_ok=True)
        busy = f"another process trains in {out} at this moment; wait until it ends, stop it, or name another folder with --out"
        held = lock(out / LOCK, busy)
        try:
            require_place(out, resume)  # another one may have been here just before
            said = run.to_dict()
            if resume:
                _require_same_run(out, run)
                said = read_object(out / CONFIG) | said
            write(out / CONFIG, (json.dumps(said, indent=2) + "\n").encode())
        except BaseException:
            os.close(held)
            raise
    return held


def require_place(out: Path, resume: bool) -> None:
    """Refuse a folder that holds something else, or a run that nobody asked to go on with."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; name a folder with --out")
    if resume:
        read_config(out)
    elif is_run(out):
        raise ValueError(f"{out} holds a run already; go on with it by --resume, or name another folder with --out")
    elif out.is_dir() and {path.name for path in out.iterdir()} - LEFT_BEHIND:
        raise ValueError(f"{out} is not empty and holds no run; name another folder with --out")


def _require_same_run(out: Path, run: RunConfig) -> None:
    was = read_config(out)
    if was.hash != run.hash:
        raise ValueError(
            f"the run in {out} was trained on other data; give that with --data, or name another folder with --out"
        )
    if was.init != run.init:
        started = "random weights" if was.init is None else was.init
        raise ValueError(f"the run in {out} started from {started}, not from {run.init}; leave --init out")
    require_same(out, was.recipe, run.recipe)
