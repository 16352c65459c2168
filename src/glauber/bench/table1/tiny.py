"""What the table needs to be made in a minute on a CPU, without any file: a text, and a judge that has read it."""

import ast
import importlib
import re
import shutil
from pathlib import Path

import torch

import glauber
from glauber.data import prepare
from glauber.runtime.files import write

LENGTH, HELD_OUT = 32, 4  # tokens of a row; every so-many-th part of the text is held out
STEPS, BATCH, CONTEXT = 150, 16, 64  # of the judge's training


def tiny_data(folder: Path) -> tuple[Path, Path]:
    """Shards and a held-out text, of what this package says of itself in its docstrings; made unless they are there."""
    if not folder.exists():
        part, said = folder.with_name(f"{folder.name}.part"), docstrings()
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        write(part / "test.txt", "\f".join(said[::HELD_OUT]).encode())
        write(part / "train.txt", "\f".join(text for k, text in enumerate(said) if k % HELD_OUT).encode())
        prepare([part / "train.txt"], part / "shards", "char", LENGTH, valid=0.1, progress=False)
        part.rename(folder)
    return folder / "shards", folder / "test.txt"


def docstrings() -> list[str]:
    """A text for each module, in small letters and spaces."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = []
    for path in sorted(Path(glauber.__file__).parent.rglob("*.py")):
        nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
        said = " ".join(ast.get_docstring(node) or "" for node in nodes)
        found.append(" ".join(re.findall("[a-z]+", said.lower())))
    return [text for text in found if len(text) > LENGTH]


def tiny_judge(folder: Path, text: str) -> Path:
    """A small causal language model over bytes, trained for some seconds on this text; made unless it is there."""
    if folder.is_dir():
        return folder
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise ImportError("a judge needs transformers: pip install 'glauber[eval]'") from error
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: k for k, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    ids = torch.tensor(tokenizer.encode(text).ids)
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(vocab_size=len(letters), max_position_embeddings=2 * CONTEXT, **shape)
        )
        optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
        for _ in range(STEPS):
            begins = torch.randint(len(ids) - CONTEXT, (BATCH, 1))
            rows = ids[begins + torch.arange(CONTEXT)]
            optimizer.zero_grad()
            model(input_ids=rows, labels=rows).loss.backward()
            optimizer.step()
    part = folder.with_name(f"{folder.name}.part")
    model.save_pretrained(part)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(part)
    return part.rename(folder)
