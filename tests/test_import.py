"""What importing glauber brings in, and which of its folders may import which."""

import ast
import importlib
import resource
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import glauber

SOURCE, ROOT = Path(glauber.__file__).parent, Path(__file__).parents[1]

OTHERS = [
    *["tqdm", "typer", "safetensors", "huggingface_hub", "tokenizers", "sklearn", "PIL", "matplotlib", "scipy"],
    *["transformers", "datasets", "diffusers", "tensorboard", "click", "rich"],
    *["fastapi", "starlette", "uvicorn", "prometheus_client", "pydantic"],
]

BLOCKED = f"""
import sys

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OTHERS!r}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Wall())
for name in {OTHERS!r}:
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit("the wall has a hole: " + name)

import torch
import glauber

law = glauber.NoiseLaw.uniform(2)
process = glauber.Process(glauber.Schedule.round_robin(3, 6, "linear"), law)
both = torch.zeros(2, 2, 2, dtype=torch.float64)
both[0, 0, 0] = both[1, 1, 1] = 0.5
x = glauber.run_chain(glauber.Oracle(both, law), process, 50, generator=torch.Generator().manual_seed(0))
assert (x == x[:, :1]).all()
network = glauber.Transformer(glauber.TransformerConfig(2, 3, width=8, layers=1, heads=2))
print(len(glauber.Model(network, process).sample(4, seed=0)), "samples")
"""

OPEN = """
import sys
import numpy, torch

before = set(sys.modules)
import glauber

new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(new - set(sys.stdlib_module_names)))
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_glauber_imports_and_runs_a_chain_where_only_torch_and_numpy_can_be_imported():
    assert run(BLOCKED) == "4 samples"


def test_importing_glauber_after_torch_and_numpy_brings_in_nothing_but_the_standard_library():
    new = set(run(OPEN).split())
    assert not new & set(OTHERS)
    assert new == {"glauber"}


def test_importing_glauber_reads_neither_torch_nor_numpy_until_a_name_is_used():
    seen = "print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert run(f"import sys, glauber; {seen}; glauber.NoiseLaw; {seen}").splitlines() == ["False False", "True True"]


def test_each_public_name_has_one_home_and_is_what_a_type_checker_takes_it_for():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    told = [(alias.name, node.module) for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert told == [(name, f"glauber.{home}") for home, names in glauber._HOMES.items() for name in names]
    assert sorted(name for name, _ in told) == glauber.__all__
    for name, home in told:
        assert getattr(glauber, name) is getattr(importlib.import_module(home), name)
    assert set(glauber.__all__) < set(dir(glauber))
    with pytest.raises(AttributeError, match="module 'glauber' has no attribute 'nonsense'"):
        _ = glauber.nonsense


HELP = """
import sys
from glauber.cli import main

sys.argv = ["glauber", *sys.argv[1:]]
try:
    main()
finally:
    assert not {"torch", "numpy"} & set(sys.modules)
"""


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["sample", "--help"], ["bench", "table1", "--help"]], ids=" ".join
)
def test_help_comes_without_torch_and_in_less_than_a_second_of_computing(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", HELP, *words], capture_output=True, text=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith("Usage" if "--help" in words else f"glauber {glauber.__version__}")
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


ALLOWED: dict[str, set[str]] = {
    "process": set(),
    "conditional": {"process"},
    "chain": {"process", "conditional"},
    "objective": {"process", "conditional"},
    "codec": set(),
    "data": {"codec"},
    "recipe": {"process", "conditional"},
    "method": {"process", "conditional", "chain", "objective", "recipe"},
    "sampler": {"process", "conditional", "chain", "method"},
    "tasks": {"process", "conditional", "chain", "codec", "method", "sampler"},
    "runs": set(),
    "hub": set(),
    "foreign": {"runs"},
    "storage": {"conditional", "foreign", "hub", "runs"},
    "card": {"process", "conditional", "codec", "method"},
    "saving": {"process", "conditional", "codec", "method", "storage", "card", "hub"},
    "model": {"process", "conditional", "chain", "codec", "method", "sampler", "saving", "tasks"},
    "pictures": {"process", "codec"},
    "provenance": set(),
    "plots": set(),
    "evaluate": {"process", "conditional", "chain", "codec", "data", "provenance", "storage"},
}
"""Which room, a folder or a file at the top, may import which others, as CONTRIBUTING.md draws it."""
OPEN_TO: dict[str, set[str]] = defaultdict(set) | {"cli": {""}, "provenance": {""}, "bench": {""}, "serve": {""}}
"""Where the public names may be imported from `glauber` itself, or its version."""
ALLOWED["train"] = {room for room in ALLOWED if room not in ("evaluate", "provenance")}
ALLOWED["bench"] = {*ALLOWED, "train", "evaluate"}
ALLOWED["serve"] = {room for room in ALLOWED if room not in ("train", "bench")}
ALLOWED["cli"] = {*ALLOWED}
ALLOWED["runtime"] = {"process", "conditional"}
for room in ALLOWED.keys() - {"runtime", "process", "conditional"}:  # what any of the others may import
    ALLOWED[room] = ALLOWED[room] | {"runtime"}


def imports(code: str, package: str) -> set[str]:
    """The parts of glauber that a module of `package` (such as "glauber.chain") imports: "chain", or "" for the top."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "glauber" else [module]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "glauber":
                part = rest.partition(".")[0]
                found.add(part if part in ALLOWED else "")
    return found


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import torch", set()),
        ("import glauber", {""}),
        ("from glauber import Model", {""}),
        ("import glauber.model", {"model"}),
        ("from glauber.model import load", {"model"}),
        ("from glauber import train", {"train"}),
        ("from glauber.process import Process", {"process"}),
        ("import glauber.process.draws as d", {"process"}),
        ("from ..process.draws import uniform", {"process"}),
        ("from .. import codec", {"codec"}),
        ("from . import kernels", {"chain"}),
        ("from .kernels import step", {"chain"}),
        ("def f():\n    from glauber.train import loop", {"train"}),
        ("if TYPE_CHECKING:\n    from glauber.objective import dense", {"objective"}),
    ],
)
def test_the_reader_of_imports_sees_all_of_them(code, wanted):
    assert imports(code, "glauber.chain") == wanted


def modules() -> list[str]:
    """All but the package's own two files: `__init__`, which has the public names, and `__main__`."""
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
    return sorted(found - {"__init__.py", "__main__.py"})


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_what_the_design_allows(module):
    room = module.partition("/")[0].removesuffix(".py")
    assert room in ALLOWED, f"the room {room} has no place in the design"
    package = ".".join(["glauber", *module.split("/")[:-1]])
    extra = imports((SOURCE / module).read_text(encoding="utf-8"), package) - ALLOWED[room] - {room, *OPEN_TO[room]}
    assert not extra, f"{module} may not import {sorted(part or 'the top of glauber' for part in extra)}"


def dotted(module: str) -> str:
    """Its name for an import."""
    return ".".join(["glauber", *module.removesuffix(".py").removesuffix("/__init__").split("/")])


def imported_modules(module: str, known: set[str]) -> set[str]:
    """Those of ours that a module imports, wherever it does: in a function and for a type checker, too.

    A package that is imported for one of its modules does not count: only what the importer asks for.
    """
    found = set()
    for node in ast.walk(ast.parse((SOURCE / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else name.rpartition(".")[0] for name in names]
        else:
            continue
        found |= {name for name in names if name in known}
    return found - {dotted(module)}


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle; none if there is none."""
    left = {name: set(others) for name, others in edges.items()}
    while free := [name for name, others in left.items() if not others]:
        for name in free:
            del left[name]
        for others in left.values():
            others.difference_update(free)
    return sorted(left)


def test_no_module_imports_itself_through_others_not_even_for_a_type_checker():
    known = {dotted(module) for module in modules()}
    assert not cycle({dotted(module): imported_modules(module, known) for module in modules()})


def test_the_search_for_cycles_finds_one():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "d"]
    assert cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def compared_names(code: str, names: set[str]) -> list[int]:
    """The lines in which one of the names, as a string, is compared with something, or looked for in something."""
    found = []
    for node in ast.walk(ast.parse(code)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("startswith", "endswith", "removeprefix"):
            sides = node.args
        if isinstance(node, ast.MatchValue):
            sides = [node.value]
        values = [
            each for side in sides for each in (side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side])
        ]
        if any(isinstance(value, ast.Constant) and value.value in names for value in values):
            found.append(node.lineno if hasattr(node, "lineno") else 0)
    return found


def test_the_search_for_comparisons_finds_each_kind():
    assert compared_names("if method == 'ggm': pass", {"ggm"}) == [1]
    assert compared_names("x = [m for m in ms if m not in ('ar', 'ggm')]", {"ggm"}) == [1]
    assert compared_names("if 'ggm' in known or f('ggm'): pass", {"ggm"}) == [1]
    assert compared_names("match m:\n    case 'ggm' | 'ar': pass", {"ggm"}) == [2]
    assert compared_names("if m.startswith(('ggm', 'ar')): pass", {"ggm"}) == [1]
    assert compared_names("x = find_method('ggm')", {"ggm"}) == []


OUTSIDE = sorted([path for path in SOURCE.rglob("*.py") if SOURCE / "method" not in path.parents])
OUTSIDE += sorted(path for room in ("experiments", "website") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_outside_method_no_code_compares_with_a_method_s_name(path):
    from glauber.method import METHODS

    assert not compared_names(path.read_text(encoding="utf-8"), set(METHODS))


def test_the_network_file_knows_nothing_of_ours():
    code = (SOURCE / "conditional" / "transformer.py").read_text(encoding="utf-8")
    assert imports(code, "glauber.conditional") == set()


@pytest.mark.parametrize("path", sorted((SOURCE / "chain").glob("*.py")), ids=lambda path: path.name)
def test_the_chain_knows_no_compiler_no_cuda_graph_and_no_network(path):
    code = path.read_text(encoding="utf-8")
    named = {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.alias)}
    modules = {node.module for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)}
    assert "Transformer" not in named
    assert not any(word in code for word in ("triton", "torch.compile", "torch.cuda"))
    runtime = {module for module in modules if module and module.startswith("glauber.runtime")}
    assert runtime <= {"glauber.runtime.memory", "glauber.runtime.progress"}
