"""Models of transformers, with their tokenizers: from a folder, a .gguf file or the hub, without running foreign code."""

import importlib
import importlib.util
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch

from glauber.runtime.hub import hub_answers

GGUF = b"GGUF"


def find_model(name: str) -> tuple[str, dict[str, Any]]:
    """What transformers is to be asked for: a folder or hub id, and the .gguf in it. What can be no model is refused."""
    path = Path(name)
    if path.suffix == ".gguf" or path.is_file():
        if not path.is_file():
            raise ValueError(f"there is no file {name}; give the judge's folder, .gguf file or hub id")
        with path.open("rb") as file:
            if file.read(4) != GGUF:
                raise ValueError(f"{name} is not a GGUF file; give the judge's folder, .gguf file or hub id")
        if importlib.util.find_spec("gguf") is None or importlib.util.find_spec("accelerate") is None:
            raise ImportError("a judge in a .gguf file needs gguf and accelerate: pip install 'glauber[eval]'")
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir() and not (path / "config.json").is_file():
        raise ValueError(f"{name} is no model's folder: it has no config.json")
    if path.is_dir() and any(path.glob("*.bin")) and not any(path.glob("*.safetensors")):
        raise ValueError(f"{name} has its weights in a .bin, a pickle that could run any code; save them as safetensors")
    if not path.exists() and not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name):
        raise ValueError(f"there is no folder {name}; give the judge's folder, .gguf file or hub id")
    return name, {}


def load_pretrained(name: str, causal: bool = True) -> tuple[Any, Any]:
    """Model and tokenizer; whatever is wrong with them is one sentence."""
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise ImportError("a judge needs transformers: pip install 'glauber[eval]'") from error
    where, options = find_model(name)
    what = "a causal language model" if causal else "a model"
    options |= {} if Path(where).exists() or hub_answers() else {"local_files_only": True}
    with quiet(transformers):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
            kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
            options |= {"dtype": torch.float32, "output_loading_info": True}
            options |= {} if "gguf_file" in options else {"use_safetensors": True}  # a pickle could run any code
            model, said = kind.from_pretrained(where, **options)
        except Exception as error:  # transformers has many kinds of failure, all of them the same to the user
            first = re.split(r"(?<=[.!?])\s", " ".join(str(error).split()))[0].rstrip(".")[:200]
            raise ValueError(f"{name} cannot be read as {what} with its tokenizer and weights ({first})") from error
    lost = sorted(said["missing_keys"])
    if causal and lost:
        raise ValueError(f"{name} lacks {len(lost)} of the judge's tensors, such as {lost[0]}; get its weights again")
    made = getattr(model.config, "architectures", None) or []
    if causal and made and not any(re.search(r"CausalLM|LMHead|ForConditionalGeneration", one) for one in made):
        raise ValueError(f"{name} is a {made[0]}, which is no causal language model and cannot judge; name another judge")
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"{name} has no tokenizer.json, which a judge needs; save its tokenizer as a fast one")
    return model, tokenizer


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without what transformers would print while it loads."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL)
    log.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):  # the reader of .gguf has a bar of its own
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def identity(name: str) -> str:
    """The name, and what changes when the files do."""
    path = Path(name)
    files = sorted(path.glob("*")) if path.is_dir() else [path] if path.is_file() else []
    return json.dumps([name, [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]])
