"""Training checkpoints: what is nested comes back, what is damaged is refused."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.optim.training.checkpoint import (
    load_checkpoint,
    save_checkpoint,
)

KILLED = Path(__file__).with_name("killed_training.py")


def test_a_nested_state_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state = {"a": {0: (1, 0.1)}, "b": [None, True, float("inf"), 1 << 63, "x"]}
    save_checkpoint({**state, "c": [fw.arange(3)]}, path)
    found = load_checkpoint(path, frozenset("abc"))
    assert found.pop("c")[0].tolist() == [0, 1, 2]
    assert found == state


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    fw.save({"weight": fw.ones(2)}, path)
    with pytest.raises(FileFormatError, match="no checkpoint"):
        load_checkpoint(path, frozenset("a"))


@pytest.mark.parametrize("count", [10, pytest.param(1000, marks=pytest.mark.wide)])
def test_a_damaged_checkpoint_is_never_loaded(count: int, tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    trainer = optim.Trainer(optim.Adam(model.parameters()), use_jit=False)
    path = tmp_path / "state"

    def fit(epochs: int, **options: object) -> None:
        batches = [(fw.ones(3, 2), fw.ones(3, 1))]
        trainer.fit(
            model,
            batches,
            epochs,
            loss=nn.functional.mse_loss,
            progress=False,
            **options,  # type: ignore[arg-type]
        )

    fit(1, checkpoint=path)
    content, before = path.read_bytes(), model.weight.tolist()
    source = random.Random(1)
    for number in range(count):
        at = source.randrange(len(content))
        flipped = bytes([content[at] ^ 1 << source.randrange(8)])
        rest = b"" if number % 2 else flipped + content[at + 1 :]
        path.write_bytes(content[:at] + rest)
        with pytest.raises(FileFormatError, match=f"{path}: it"):
            fit(2, resume=path)
        assert model.weight.tolist() == before
    path.write_bytes(content)
    fit(2, resume=path)
    assert model.weight.tolist() != before


@pytest.mark.parametrize(
    ("place", "everywhere", "writing"),
    [
        ("cpu", 1, 0),
        pytest.param("vulkan", 35, 15, marks=[pytest.mark.wide, pytest.mark.device]),
    ],
)
def test_killed_and_resumed_it_ends_with_the_same_bytes(
    place: str, everywhere: int, writing: int, tmp_path: Path
) -> None:
    arguments = [tmp_path, place, 1, everywhere, writing]
    subprocess.run(
        [sys.executable, "-W", "ignore", KILLED, *map(str, arguments)], check=True
    )
