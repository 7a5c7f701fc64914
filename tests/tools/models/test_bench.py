import json
from pathlib import Path
from typing import Any

import pytest

from tests.framework.models.small import CONFIG
from vkbackend.framework.base.device import GpuDevice
from vkbackend.tools.models import shapes
from vkbackend.tools.models.cli import main

TINY = CONFIG | {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 40}
SHORT = ["--prompt", "3", "--steps", "2"]


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(shapes.SHAPES, "tiny", TINY | {"max_position_embeddings": 64})


def found(capsys: pytest.CaptureFixture[str], *given: str) -> Any:
    assert main(["bench", *given, *SHORT, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("_tiny")
def test_a_shape_needs_no_weights(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--shape", "tiny", "--device", "cpu", "--batch", "2"]
    speeds = found(capsys, *given, "--format", "q8_0")
    assert speeds["format"] == "q8_0"
    assert speeds["dtype"] == "bfloat16"
    assert (speeds["batch"], speeds["prompt_tokens"]) == (2, 3)
    # Of 0 and 4096 the model has room for the first.
    (decoding,) = speeds["decoding"]
    assert decoding["position"] == 0
    assert decoding["tokens_per_second"] == pytest.approx(
        2000 / decoding["milliseconds"]
    )
    assert speeds["weight_bytes"] > 0
    layer = 4 * 32 * 32 + 3 * 32 * 64 + 2 * 32
    assert speeds["parameters"] == 2 * layer + 32 + 2 * 40 * 32


@pytest.mark.wide
@pytest.mark.usefixtures("_tiny")
def test_dispatches_of_a_replayed_step(
    gpu: GpuDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--shape", "tiny", "--device", gpu.name, "--format", "q8_0"]
    speeds = found(capsys, *given, "--positions", "0", "9")
    first, second = (each["dispatches"] for each in speeds["decoding"])
    assert first == second > 0
    assert speeds["peak_memory"] > speeds["weight_bytes"] > 0


def test_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(folder), "--device", "cpu", "--positions", "0", "7"]
    speeds = found(capsys, *given)
    assert speeds["format"] == speeds["dtype"] == "float32"
    assert [each["position"] for each in speeds["decoding"]] == [0, 7]
    assert main(["bench", *given, *SHORT, "--format", "float16"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert ", float16, on cpu: 0.0 million parameters" in printed[0]
    assert [line.partition(":")[0] for line in printed[1:]] == [
        "prompt of 1 x 3",
        "1 x 1 after 0",
        "1 x 1 after 7",
        "peak memory 0.0 MiB",
    ]


@pytest.mark.usefixtures("_tiny")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "give a folder, or --shape, and not both"),
        (["--shape", "huge"], "shape is 'huge'; accepted: smollm-135m"),
        (["--shape", "tiny", "--format", "int16"], "is 'int16'; accepted: float32"),
        (["--shape", "tiny", "--batch", "0"], "--batch is 0; it must be at least 1"),
        (["--shape", "tiny", "--positions", "0", "60"], "the model has room for 64"),
        (["--shape", "tiny", "--capacity", "4"], "--capacity is 4; prompt, positions"),
        (["no-such-folder"], "no-such-folder does not exist"),
    ],
)
def test_wrong_settings_are_one_line(
    given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *given, "--device", "cpu"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
