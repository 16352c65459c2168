"""The Hugging Face hub: files by a model's id, and a folder to it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from glauber.runtime.hub import download

CARD = "README.md"


class Download(NamedTuple):
    """How to fetch, in the words of `huggingface_hub.hf_hub_download`."""

    revision: str | None = None  # a branch, a tag or a commit
    token: str | bool | None = None  # who asks; the one that is logged in if None
    cache_dir: str | Path | None = None
    force_download: bool = False
    local_files_only: bool = False


def fetch(repo_id: str, file: str, how: Download) -> Path:
    """One file of a model on the hub, from the cache if it is there already."""
    try:
        return download(repo_id, file, **how._asdict())
    except Exception as error:  # the hub client has many kinds of failure
        raise ValueError(_why(repo_id, file, how, error)) from error


def _why(repo_id: str, file: str, how: Download, error: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return f"{repo_id} is given to those who asked for it: ask on its page, and log in by hf auth login or pass a token"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo_id} has no revision {how.revision!r} on the hub; name a branch, a tag or a commit of it"
    if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
        return f"{repo_id} has no {file} on the hub, so it is not a model of glauber"
    return f"no folder {repo_id!r} here, and the hub did not give a model of that id; check the name, the network and the login"


def upload(
    folder: Path,
    card: Callable[[str], str],
    repo_id: str,
    private: bool | None,
    message: str,
    token: str | bool | None,
    revision: str | None,
) -> str:
    """A commit of these files, in a repository that is made if there is none, and its URL.

    Args:
        card: makes the card for the id, with its owner; one that is on the hub already stays.
    """
    from huggingface_hub import HfApi

    try:
        api = HfApi(token=token)
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id  # with the owner, if none was named
        if revision is not None:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        if not api.file_exists(repo_id, CARD, revision=revision):
            (folder / CARD).write_text(card(repo_id), encoding="utf-8")
        made = api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=message, revision=revision)
    except Exception as error:  # the hub client has many kinds of failure
        raise ValueError(_why_not(repo_id, error)) from error
    return str(made.commit_url)


def _why_not(repo_id: str, error: Exception) -> str:
    from huggingface_hub import errors

    code = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.LocalTokenNotFoundError) or code in (401, 403):
        return f"the hub lets no stranger write to {repo_id}: log in by hf auth login, or pass a token that may write there"
    said = re.split(r"[.!?](?:\s|$)|\n", str(error).strip())[0]
    return f"the hub did not take {repo_id}; check the name and the network ({said})"
