"""Nothing in the package runs what it reads: no pickles, no `eval`, no shells, but for the few places named here."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import selfplay

PACKAGE = Path(selfplay.__file__).parent

# What stays, how often, and why.
ALLOWED = {
    ("sandbox/python/zygote.py", "exec"): (1, "a model's program, in the sandbox, which is what the process is for"),
    ("algos/anchorloop/micro.py", "eval"): (3, "terms that this file has put together from its own random numbers"),
    ("algos/anchorloop/micro.py", "exec"): (1, "the same"),
    ("algos/benchevolver/micro.py", "exec"): (1, "programs made of the lines in this file"),
    ("benchmarks/livecodebench.py", "pickle"): (1, "an Unpickler that refuses every name; its tests try it"),
}

MODULES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "jsonpickle"}
CALLS = {
    *("eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "pd.read_pickle", "pandas.read_pickle"),
    *("torch.jit.load", "torch.package.PackageImporter", "ray.cloudpickle.loads"),
}
REQUIRED = {  # a call that needs an argument to be harmless
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
}
FLAGS = {"shell": True, "trust_remote_code": True, "allow_pickle": True, "weights_only": False}


def forbidden(text: str) -> Iterator[str]:
    """What of the above a module's source does."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            yield from [str(node.module)] if str(node.module).partition(".")[0] in MODULES else []
        elif isinstance(node, ast.Call):
            yield from _call(node)
        elif isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "trust_remote_code":
            yield from [] if node.value is None or _is(node.value, False) else ["trust_remote_code"]


def _call(node: ast.Call) -> Iterator[str]:
    name = ast.unparse(node.func).removeprefix("builtins.")
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if name in CALLS:
        yield name
    if name in REQUIRED:
        argument, value = REQUIRED[name]
        if argument not in given or not _is(given[argument], value):
            yield name
    yield from (f"{flag}={value}" for flag, value in FLAGS.items() if flag in given and _is(given[flag], value))


def _is(node: ast.expr, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def test_the_package_runs_nothing_that_it_reads() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        found.update((name, what) for what in forbidden(path.read_text(encoding="utf-8")))
    assert found == {place: count for place, (count, _) in ALLOWED.items()}


@pytest.mark.parametrize(
    "text",
    [
        *("import pickle", "from dill import loads", "import joblib as j", "eval(x)", "exec(x)", "os.system(x)"),
        *("torch.load(p)", "torch.load(p, weights_only=False)", "torch.load(p, weights_only=flag)", "np.load(p)"),
        *("np.load(p, allow_pickle=True)", "yaml.load(f, Loader=yaml.Loader)", "subprocess.run(x, shell=True)"),
        *("AutoModel.from_pretrained(p, trust_remote_code=True)", "trust_remote_code: bool = True"),
    ],
)
def test_it_would_be_noticed(text: str) -> None:
    assert list(forbidden(text))


@pytest.mark.parametrize(
    "text",
    [
        *("torch.load(p, weights_only=True)", "np.load(p, allow_pickle=False)", "yaml.safe_load(f)"),
        *("AutoTokenizer.from_pretrained(p, trust_remote_code=flag)", "trust_remote_code: bool = False"),
    ],
)
def test_what_is_harmless_passes(text: str) -> None:
    assert not list(forbidden(text))
