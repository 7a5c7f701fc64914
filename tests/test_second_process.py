"""A second process compiles nothing: SPIR-V and pipelines are kept on disk."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vkbackend
from vkbackend import config

PROGRAM = """
import dataclasses, json, warnings
import numpy as np
warnings.simplefilter("ignore")
import vkbackend.framework as fw
from vkbackend.framework import nn, optim
place = fw.device()
fw.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.Linear(30, 5)).to(place)
optimizer = optim.AdamW(model.parameters(), lr=0.01)
x = fw.tensor(np.linspace(-1, 1, 160, dtype="float32").reshape(8, 20), device=place)
y = fw.tensor(np.arange(8, dtype="int32") % 5, device=place)
for step in range(2):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(json.dumps({"loss": loss.item(), **dataclasses.asdict(place.gpu.counters)}))
"""


def run(cache: Path) -> dict[str, float]:
    variables = {**os.environ, config.CACHE.name: str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=cache,
        env=variables,
        timeout=300,
    )
    counted: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return counted


@pytest.mark.core
def test_a_second_process_compiles_nothing(
    device: vkbackend.Device, tmp_path: Path
) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert first["shader_compiles"] > 5
    assert second["shader_compiles"] == 0
    assert second["pipeline_builds"] == first["pipeline_builds"]
    assert second["loss"] == first["loss"]
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert folders == {"spirv", "pipelines"}
    # Software drivers keep nothing in the file, and need not say that they looked.
    if device.info.kind != "software":
        assert first["pipeline_hits"] == 0
        assert second["pipeline_hits"] == second["pipeline_builds"]
