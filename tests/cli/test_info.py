"""The command `info`: models, and the recipes of the paper."""

import json

import pytest
from program import assert_refused, run

import glauber


def test_info_describes_a_model(tokens):
    words = run("info", tokens).stdout
    assert "each site's survival" in words
    facts = json.loads(run("info", tokens, "--json").stdout)
    assert facts["parameters"] == sum(p.numel() for p in glauber.load(tokens).network.parameters())
    assert facts["schedule"]["steps"] == 32


def test_info_asks_for_one_thing(tokens):
    assert_refused(run("info"), "say what to describe")
    assert_refused(run("info", tokens, "--recipe", "digits"), "say what to describe")


PAPER = {
    "layers": "24",
    "heads": "16",
    "width": "1024",
    "length L": "1024",
    "chain steps T": "4096",
    "keep": "0.5",
    "optimizer": "AdamW 0.9/0.999, eps 1e-8",
    "weight decay": "none",
    "dropout": "none",
    "EMA": "0.9999",
    "precision": "fp32",
    "method": "ggm-binary",
    "conditioning": "the time t",
}
OWT = {
    "parameters": "387,272,292",
    "tokens": "32100",
    "noise law": "unigram",
    "learning rate": "warm-up 8000 steps, peak 1e-4, cosine to 1e-6 over 2000000 steps",
    "train steps": "2000000",
    "batch": "64×32",
    "sampling": "top-p 0.8, banned: the codec's end of text, on the mixture, in fp32",
}
FACES = {
    "about": "rotary positions in two dimensions are ours",
    "tokens": "8192",
    "noise law": "uniform",
    "batch": "2048",
    "length L": "1024 (32×32)",
}
CELEBA = FACES | {
    "learning rate": "cosine to 1e-6 over 1000000 steps, then constant to 1450000",
    "sampling": "top-p 0.9, temperature 1.05 for the first half, then 1.0",
}
FFHQ = FACES | {"learning rate": "cosine to 1e-6 over 3000000 steps", "train steps": "3000000", "sampling": "top-p 0.9"}
LARGE = OWT | {"parameters": "807,360,100", "width": "1536", "heads": "24"}


@pytest.mark.parametrize(
    ("name", "own"), [("paper-owt", OWT), ("paper-celebahq", CELEBA), ("paper-ffhq", FFHQ), ("paper-800m", LARGE)]
)
def test_the_papers_recipes_have_the_papers_settings(name, own):
    lines = dict(line.split("  ", 1) for line in run("info", "--recipe", name).stdout.splitlines())
    facts = {key.strip(): value.strip() for key, value in lines.items()}
    for key, value in (PAPER | own).items():
        assert value in facts[key], (key, facts[key])
    assert "warmed up" not in facts["EMA"]


def test_an_unknown_recipe_suggests_the_nearest():
    assert_refused(run("info", "--recipe", "paper-ow"), "did you mean 'paper-owt'?")
