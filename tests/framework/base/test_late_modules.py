"""Modules that are loaded when they are asked for."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

import vkbackend.framework as fw
from vkbackend.framework.addresses.table import LAZY, LAZY_NAMES
from vkbackend.framework.base import late_modules

LATE = sorted(name for name in LAZY if "." not in name)


def run(program: str, cwd: Path) -> str:
    """Return what a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
    )
    return done.stdout.strip()


def test_what_few_programs_use_is_not_imported(tmp_path: Path) -> None:
    """Not by looking at tensors, listing names or pickling either."""
    program = f"""
import pickle, sys
import vkbackend.framework as fw
x = fw.ones(3)
assert not x.is_sparse and not x.is_nested and isinstance(x, fw.Tensor)
pickle.loads(pickle.dumps(x)), repr(x), str(x), dir(fw), x + 1
fw.nn.functional.embedding(fw.zeros(2, dtype=fw.int64), fw.ones(3, 4))
print([name for name in {LATE!r} if "vkbackend.framework." + name in sys.modules])
"""
    assert run(program, tmp_path) == "[]"


ATTRIBUTES = """
import vkbackend.framework as fw
fw.ones(2).to_sparse().values()
fw.utils.data.dataloader.DataLoader, fw.utils.flop_counter
fw.autograd.forward_ad.dual_level
fw.cuda.amp.grad_scaler.GradScaler, fw.optim.adamw.AdamW
"""
IMPORTS = """
import vkbackend.framework.utils, vkbackend.framework as fw
fw.utils.flop_counter
import vkbackend.framework.optim.lr_scheduler as schedulers
from vkbackend.framework import GradScaler, load, nested, save, sparse, vmap
schedulers.StepLR, nested.nested_tensor, sparse.SparseTensor
"""
STAR = "from vkbackend.framework import *; optim.SGD, GradScaler, vmap, sparse.mm"


@pytest.mark.parametrize("program", [ATTRIBUTES, IMPORTS, STAR])
def test_every_way_to_ask_finds_them(program: str, tmp_path: Path) -> None:
    run(program, tmp_path)


@pytest.mark.parametrize("name", [*LATE, *sorted(LAZY_NAMES)])
def test_each_is_there_and_stays(name: str) -> None:
    first = getattr(fw, name)
    assert getattr(fw, name) is first
    assert name in vars(fw)


def test_they_are_listed() -> None:
    internal = {"debug", "graph", "data", "io"}
    assert {*LATE, *LAZY_NAMES} - internal <= set(dir(fw))
    assert {"optim", "vmap", "Tensor"} <= set(fw.__all__)


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"framework' has no attribute 'nothing'"):
        fw.nothing  # noqa: B018


def test_a_module_may_come_before_what_is_below_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = types.ModuleType("parent_of_late")
    monkeypatch.setitem(sys.modules, "parent_of_late", module)
    late_modules.give_attributes("parent_of_late")
    with pytest.raises(AttributeError, match="no attribute 'floor'"):
        module.floor  # noqa: B018
    late_modules.register("parent_of_late", [], {"floor": "python.math:floor"})
    assert module.floor(1.5) == 1
    assert late_modules.late_function("python.math:ceil")(1.5) == 2
