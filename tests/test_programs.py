"""Ordinary PyTorch programs run once their imports and their device line are changed.

Each program of `tests/programs` trains for 20 steps with PyTorch, and again from the
same weights and data with this library; what it returns, losses first, must agree.
"""

import functools
import importlib
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from _pytest.mark.structures import ParameterSet

import vkbackend

FOLDER = Path(__file__).parent / "programs"
NAMES = sorted(
    path.stem
    for path in FOLDER.glob("*.py")
    if path.stem not in ("__init__", "seeding")
)
STEPS = 20
# Of a loss, by `assert_allclose`: what float32 may lose in 20 steps.
TOLERANCE = 1e-5
# The gate has these on the host; the others repeat what they use, in other fields.
IN_THE_GATE = {
    "diffusion", "encoder", "gan", "graph_network", "language_model", "lbfgs",
    "llama_decoding", "lora", "lstm_tagger", "metric_learning", "mixture_density",
    "nerf", "policy_gradient", "replay_memory", "resnet", "segmentation",
    "self_distillation", "speech", "vae", "vision_transformer",
}  # fmt: skip
# Those that run on a device in the gate: convolutions, a cache written in place, packed
# sequences, scatters. The others repeat their kernels.
ON_DEVICE = {"graph_network", "llama_decoding", "lstm_tagger", "segmentation"}
IMPORT = re.compile(r"^(import|from) torch\b", re.MULTILINE)
DEVICE_LINE = 'device = torch.device("cpu")'

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def converted(name: str, device: str) -> types.ModuleType:
    """Return a program whose imports and device line were changed, as a module."""
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert source.count(DEVICE_LINE) == 1
    source = source.replace(DEVICE_LINE, f"device = torch.device({device!r})")
    source = re.sub(
        r"^import torch$", "import vkbackend.framework as torch", source, flags=re.M
    )
    source = IMPORT.sub(r"\1 vkbackend.framework", source)
    assert not re.search(r"^\s*(import|from) torch\b", source, re.MULTILINE)
    module = types.ModuleType(f"converted_{name}")
    # Data classes look their module up.
    sys.modules[module.__name__] = module
    exec(compile(source, f"{name}.py", "exec"), vars(module))
    return module


@functools.cache
def expected(name: str) -> list[float]:
    """Return what a program returns with PyTorch."""
    # PyTorch's own tables of tests, where others have imported them, froze its flags.
    with getattr(torch.backends, "__allow_nonbracketed_mutation")():
        program = importlib.import_module(f"tests.programs.{name}")
        results: list[float] = program.train(STEPS)
    return results


def check(name: str, device: str) -> None:
    """Run a converted program and compare what it returns."""
    results = converted(name, device).train(STEPS)
    np.testing.assert_allclose(results, expected(name), TOLERANCE, TOLERANCE)


def _in_the_gate(names: set[str]) -> list[ParameterSet]:
    """Return all programs, marked wide but for `names`."""
    return [
        pytest.param(name, marks=() if name in names else pytest.mark.wide)
        for name in NAMES
    ]


@pytest.mark.parametrize("name", _in_the_gate(IN_THE_GATE))
def test_on_the_host(name: str) -> None:
    check(name, "cpu")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", _in_the_gate(ON_DEVICE))
def test_on_a_device(name: str, device: vkbackend.Device) -> None:
    check(name, device.name)


def test_there_are_twenty() -> None:
    assert len(IN_THE_GATE.intersection(NAMES)) == 20
