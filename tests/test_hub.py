"""The hub: what goes up, with which card, and what comes down, told by a stand-in on this machine to the real client."""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import commands
import pytest
from hub import Hub, Repo, hub
from huggingface_hub import ModelCard
from refusals import refused
from safetensors.torch import save
from test_model import assert_same, classifier, files, model, without_codec
from torch import zeros

import glauber

Away = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    with hub() as made:
        yield made


@pytest.fixture(scope="module")
def environment(server: Hub, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What makes the client ask the stand-in, as someone who may write there."""
    home = tmp_path_factory.mktemp("home")
    there = {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(home), "HF_HUB_CACHE": str(home / "hub"), "NO_PROXY": "127.0.0.1"}
    return there | {"HF_TOKEN": Hub.TOKEN, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


@pytest.fixture(scope="module")
def away(environment: dict[str, str]) -> Iterator[Away]:
    """Calls a function in a process of its own, whose hub is the stand-in: the client reads its address when it is imported."""
    with pytest.MonkeyPatch.context() as patch, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        for name, value in environment.items():
            patch.setenv(name, value)
        pool.submit(os.getpid).result()
        yield lambda function, *given, **options: pool.submit(function, *given, **options).result()


def push(repo_id: str, seed: int = 0, about: dict[str, Any] | None = None, **options: Any) -> str:
    """A model of that seed; the URL."""
    return model(seed, **({} if about is None else {"about": about})).push_to_hub(repo_id, **options)


def pull(repo_id: str, into: Path, **options: Any) -> None:
    glauber.load(repo_id, **options).save(into)


def pull_pretrained(repo_id: str, into: Path, **options: Any) -> None:
    glauber.Model.from_pretrained(repo_id, **options).save(into)


def push_by_saving(repo_id: str, folder: Path, **options: Any) -> str | None:
    return model().save_pretrained(folder, repo_id=repo_id, push_to_hub=True, **options)


def head(repo: Repo, branch: str = "main") -> dict[str, bytes]:
    return repo.commits[repo.branches[branch]]


def test_a_model_goes_to_the_hub_and_comes_back_by_its_id(away, server, tmp_path):
    url = away(push, "someone/digits")
    assert url == f"{server.endpoint}/someone/digits/commit/{server.repos['someone/digits'].branches['main']}"
    away(pull, "someone/digits", tmp_path / "back")
    assert_same(model(), glauber.load(tmp_path / "back"))
    assert set(head(server.repos["someone/digits"])) == {"config.json", "model.safetensors", "README.md"}
    done = away(push, "nameless")  # the client says whose it is
    assert done.startswith(f"{server.endpoint}/someone/nameless/commit/")
    assert b'glauber.load("someone/nameless")' in head(server.repos["someone/nameless"])["README.md"]


def test_it_comes_from_the_command_line_too(away, server, environment, tmp_path):
    away(push, "someone/commanded")
    done = commands.glauber("info", "someone/commanded", "--json", env=os.environ | environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["about"] == model().about


def test_whether_it_is_private_is_said_only_if_asked(away, server):
    for repo_id, options in (("someone/own-default", {}), ("someone/secret", {"private": True})):
        away(push, repo_id, **options)
        (said,) = [body for body in server.sent("/api/repos/create") if body["name"] == repo_id.partition("/")[2]]
        assert ("private" in said, "visibility" in said) in ((bool(options), False), (False, bool(options)))


def test_a_message_a_branch_and_a_token_are_passed_on(away, server, tmp_path):
    away(push, "someone/branched")
    away(push, "someone/branched", seed=1, revision="v2", commit_message="a better one", token=Hub.TOKEN)
    messages = [lines[0]["value"]["summary"] for lines in server.sent("/someone/branched/commit/")]
    assert messages == ["Push model by glauber", "a better one"]
    away(pull, "someone/branched", tmp_path / "one")
    away(pull, "someone/branched", tmp_path / "two", revision="v2")
    assert_same(model(0), glauber.load(tmp_path / "one"))
    assert_same(model(1), glauber.load(tmp_path / "two"))
    commit = server.repos["someone/branched"].branches["main"]
    away(pull_pretrained, "someone/branched", tmp_path / "three", revision=commit, token=Hub.TOKEN)
    assert_same(model(0), glauber.load(tmp_path / "three"))


def test_what_is_known_is_not_asked_for_again_where_it_must_not(away, server, tmp_path):
    away(push, "someone/cached")
    away(pull, "someone/cached", tmp_path / "one")
    asked = len(server.asked)
    away(pull_pretrained, "someone/cached", tmp_path / "two", local_files_only=True)
    assert len(server.asked) == asked
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_config_and_weights_are_of_one_commit_though_something_is_pushed_in_between(away, server, tmp_path, monkeypatch):
    away(push, "someone/moving")
    away(push, "someone/moving", seed=1, revision="next")
    repo, questions = server.repos["someone/moving"], []

    def at(revision: str) -> str | None:
        found = Repo.at(repo, revision)
        questions.append(revision)
        if len(questions) == 2:  # the client has asked for the config's commit, and for the config
            repo.branches["main"] = repo.branches["next"]
        return found

    monkeypatch.setattr(repo, "at", at)
    away(pull, "someone/moving", tmp_path / "back")
    assert_same(model(0), glauber.load(tmp_path / "back"))


def test_the_card_has_the_hubs_front_matter(away, server):
    about = {"license": "mit", "language": "en", "metrics": {"valid_bits_per_token": 1.25}, "recipe": "tiny"}
    away(push, "someone/carded", about=about)
    card = ModelCard(head(server.repos["someone/carded"])["README.md"].decode())
    said = card.data.to_dict()
    assert (said["library_name"], said["license"], said["language"]) == ("glauber", "mit", "en")
    assert said["pipeline_tag"] == "unconditional-image-generation"
    assert said["tags"] == ["glauber", "glauber-generative-model"]
    (result,) = said["model-index"]
    assert result["name"] == "someone/carded"
    assert result["results"][0]["metrics"] == [{"type": "valid_bits_per_token", "value": 1.25}]
    assert 'glauber.load("someone/carded")' in card.text
    assert "| recipe | tiny |" in card.text
    assert "By default it samples by its chain: 2 sweeps over 16 sites, 1 at a time." in card.text


def test_a_card_that_was_edited_on_the_hub_stays(away, server):
    away(push, "someone/edited")
    repo = server.repos["someone/edited"]
    head(repo)["README.md"] = b"by hand"
    away(push, "someone/edited", seed=1)
    assert head(repo)["README.md"] == b"by hand"
    assert head(repo)["model.safetensors"] != repo.commits[list(repo.commits)[1]]["model.safetensors"]


def test_save_pretrained_pushes_if_asked(away, server, tmp_path):
    url = away(push_by_saving, "someone/saved", tmp_path / "folder", private=True)
    assert url.startswith(f"{server.endpoint}/someone/saved/commit/")
    assert head(server.repos["someone/saved"]) == files(tmp_path / "folder")  # the card, too


def test_another_librarys_model_is_refused_before_its_weights_are_fetched(away, server, tmp_path):
    config = json.dumps({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}).encode()
    server.repos["someone/gpt2"] = Repo()
    head(server.repos["someone/gpt2"]).update({"config.json": config, "model.safetensors": save({"a": zeros(9)})})
    with refused("someone/gpt2 holds GPT2LMHeadModel of transformers, .* glauber evaluate --judge someone/gpt2"):
        away(pull, "someone/gpt2", tmp_path)
    assert [path for _, path, _, _ in server.asked if "gpt2/resolve/main/config.json" in path]
    assert not [path for _, path, _, _ in server.asked if "someone/gpt2" in path and "safetensors" in path]


def test_what_the_hub_does_not_give_or_take_is_one_sentence(away, server, tmp_path):
    away(push, "someone/there")
    with refused("the hub did not give a model"):
        away(pull, "someone/else", tmp_path)
    with refused("someone/there has no revision 'v9' on the hub"):
        away(pull, "someone/there", tmp_path, revision="v9")
    server.repos["someone/empty"] = Repo()
    with refused("someone/empty has no config.json on the hub"):
        away(pull, "someone/empty", tmp_path)
    for token in (False, "hf_of_a_stranger"):
        with refused("log in by hf auth login, or pass a token"):
            away(push, "someone/there", token=token)
    with refused("did not take not/a/name; check the name"):
        away(push, "not/a/name")
    with refused("leave the revision out"):
        glauber.load("novels", revision="main")


# Here


def test_save_pretrained_and_from_pretrained_are_inverse(tmp_path):
    assert model().save_pretrained(tmp_path / "model") is None
    assert sorted(files(tmp_path / "model")) == ["README.md", "config.json", "model.safetensors"]
    after = glauber.Model.from_pretrained(tmp_path / "model")
    assert_same(model(), after)
    assert not after.training


def test_save_pretrained_replaces_a_model_and_keeps_a_card(tmp_path):
    model(0).save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("by hand")
    model(1).save_pretrained(tmp_path)
    assert_same(model(1), glauber.load(tmp_path))
    assert (tmp_path / "README.md").read_text() == "by hand"


@pytest.mark.parametrize("make", [model, without_codec, classifier])
def test_every_model_has_a_card_that_says_what_default_sampling_does(make, tmp_path):
    make().save_pretrained(tmp_path / "some")
    card = ModelCard.load(tmp_path / "some" / "README.md")
    assert card.data.library_name == "glauber"
    assert card.data.license == "unknown"
    assert card.data.pipeline_tag == (None if make is without_codec else "unconditional-image-generation")
    assert "By default it samples by its chain" in card.text
