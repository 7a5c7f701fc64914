"""Files of objects: modules, optimizers, arrays; read where the caller trusts them."""

import argparse
import io
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn, optim, serialization
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import UnsafeFileError


def step(model: Any, optimizer: Any, device: Any) -> list[Any]:
    for _ in range(2):
        optimizer.zero_grad()
        model(fw.ones(3, 2, device=device)).square().mean().backward()
        optimizer.step()
    return [each.tolist() for each in model.parameters()]


@pytest.mark.device
def test_a_whole_program_goes_on(gpu: GpuDevice) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).to(gpu)
    model[2].weight = model[2].weight
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
    step(model, optimizer, gpu)
    content = io.BytesIO()
    fw.save((model, optimizer, scheduler), content)
    content.seek(0)
    with pytest.raises(UnsafeFileError, match=r"unless weights_only=False"):
        fw.load(content)
    content.seek(0)
    again = fw.load(content, map_location=gpu, weights_only=False)
    assert again[2].optimizer is again[1]
    assert again[0][1].running_mean.device is gpu
    assert step(*again[:2], gpu) == step(model, optimizer, gpu)


@pytest.mark.parametrize("name", ["state.pt", "state.ckpt"])
def test_parts_of_checkpoints(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    weight = nn.Parameter(fw.ones(2), requires_grad=False)
    value: dict[str, Any] = {
        "args": argparse.Namespace(lr=0.1, device=fw.device("cpu"), dtype=fw.float16),
        "best": np.float64(2.5),
        "rng": np.random.RandomState(0).get_state(),
        "paths": [Path("a/b")],
        "counts": defaultdict(int, a=1),
        "views": [weight, weight[1:]],
        "size": weight.shape,
    }
    value["args"].parent = value["args"]
    fw.save(value, path)
    for library in (fw, torch):
        found: Any = library.load(path, weights_only=False)
        assert found["args"].dtype is library.float16
        assert found["args"].parent is found["args"]
        assert (found["best"], found["paths"]) == (2.5, [Path("a/b")])
        assert found["counts"]["b"] == 0
        np.testing.assert_array_equal(found["rng"][1], value["rng"][1])
        first, second = found["views"]
        assert isinstance(first, library.nn.Parameter)
        assert not first.requires_grad
        second.fill_(3)
        assert first.tolist() == [1.0, 3.0]
        assert found["size"] == library.Size([2])


def test_named_globals_are_read_without_trust(tmp_path: Path) -> None:
    path = tmp_path / "args.pt"
    torch.save({"args": argparse.Namespace(x=torch.ones(2))}, path)
    with pytest.raises(UnsafeFileError, match=r"asks for 'argparse\.Namespace'"):
        fw.load(path)
    for name in (argparse.Namespace, (argparse.Namespace, "argparse.Namespace")):
        with serialization.safe_globals([name]):
            assert fw.load(path)["args"].x.tolist() == [1.0, 1.0]
    assert fw.load(path, weights_only=False)["args"].x.tolist() == [1.0, 1.0]
    torch.save(torch.nn.Linear(1, 1), path)
    with pytest.raises(UnsafeFileError, match=r"torch\.nn\.modules\.linear\.Linear"):
        fw.load(path, weights_only=False)


def test_tensors_files_do_not_hold_objects(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"obj is a .*Linear; .*state_dict\(\)"):
        fw.save(nn.Linear(1, 1), tmp_path / "x.safetensors")
