"""The Hugging Face hub. It is tried once before its client is, which tries for half a minute to reach what is not there."""

from functools import cache
from pathlib import Path
from typing import Any

PATIENCE = 5.0  # seconds


def hub_answers() -> bool:
    """Whether anything answers at the hub's address."""
    from huggingface_hub import constants

    return _answers(constants.ENDPOINT)


def download(repo_id: str, file: str, **options: Any) -> Path:
    """A file of the hub, or from the cache where nobody answers; `options` are those of `huggingface_hub.hf_hub_download`."""
    from huggingface_hub import hf_hub_download

    local = options.pop("local_files_only", False) or not hub_answers()
    return Path(hf_hub_download(repo_id, file, local_files_only=local, **options))


@cache
def _answers(address: str) -> bool:
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    try:
        get_session().head(address, timeout=PATIENCE)
    except Exception:  # the hub's client has many kinds of failure, and another set of them in every version
        return False
    return True
