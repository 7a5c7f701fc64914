"""Several ranks train by `fit` as one process does, and go on from a checkpoint."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rank_processes import run_ranks
from tests.rank_threads import as_threads
from vkbackend.framework import data, nn, optim
from vkbackend.framework.base.errors import (
    DistributedError,
    FileFormatError,
    StateError,
)
from vkbackend.framework.communication.group import Group
from vkbackend.framework.optim.divided_state import gathered, model_state
from vkbackend.framework.optim.training.ranks import Ranks

RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 3)).astype(np.float32)
Y = RNG.standard_normal((16, 1)).astype(np.float32)
SHAPES = {"0.weight": (8, 3), "0.bias": (8,), "2.weight": (1, 8), "2.bias": (1,)}
WEIGHTS = {
    name: RNG.standard_normal(shape).astype(np.float32) / 3
    for name, shape in SHAPES.items()
}


def made(group: Group | None, kind: str) -> tuple[nn.Module, optim.Trainer]:
    model: Any = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    model.load_state_dict(WEIGHTS)
    if kind == "fsdp":
        model = nn.FSDP(model, group, auto_wrap_policy="children")
    optimizer = optim.Adam(model.parameters(), 0.01)
    return model, optim.Trainer(optimizer, group=group)


def fit(group: Group | None, kind: str, epochs: int, **options: Any) -> Any:
    """Return the weights and the history of a training on batches of 8 samples."""
    model, trainer = made(group, kind)
    size = 1 if group is None else group.size
    sampler = data.DistributedSampler(X, 1, 0) if group is None else None
    loader = data.DataLoader(
        data.TensorDataset(X, Y),
        8 // size,
        shuffle=not sampler or None,
        sampler=sampler,
    )
    val = data.DataLoader(data.TensorDataset(X[:13], Y[:13]), 3)
    history = trainer.fit(
        model,
        loader,
        epochs,
        val,
        loss=nn.functional.mse_loss,
        metrics=[nn.functional.l1_loss],
        progress=False,
        **options,
    )
    state = model_state(model)
    return gathered(state, group if kind == "fsdp" else None), dict(history.epochs[-1])


def check(found: Any, expected: Any) -> None:
    for (weights, numbers), (right, known) in zip(found, [expected] * len(found)):
        for name, value in numbers.items():
            assert value == pytest.approx(known[name], rel=1e-4)
        for name, value in right.items():
            np.testing.assert_allclose(
                weights[name].numpy(), value.numpy(), rtol=1e-3, atol=1e-5
            )


@pytest.mark.parametrize(
    ("kind", "size"),
    [("data", 2), ("fsdp", 2), pytest.param("fsdp", 4, marks=pytest.mark.wide)],
)
def test_fit(monkeypatch: pytest.MonkeyPatch, kind: str, size: int) -> None:
    expected = fit(None, "data", 2)
    found = as_threads(monkeypatch, size).run(lambda group: fit(group, kind, 2))
    check(found, expected)


def test_resumed_after_a_rank_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the middle of an epoch, and by another number of ranks."""
    ranks, path = as_threads(monkeypatch, 2), tmp_path / "checkpoint"
    options = {"checkpoint": path, "checkpoint_every": 1, "resume": True}

    class Ends(optim.Callback):
        def __init__(self, rank: int) -> None:
            self.rank, self.left = rank, 4

        def on_step_end(self, loop: Any) -> None:
            self.left -= 1
            if self.rank == 1 and not self.left:
                raise KeyboardInterrupt("it ends")

    def work(group: Group) -> Any:
        callbacks = [Ends(group.rank)]
        return fit(group, "fsdp", 3, callbacks=callbacks, **options)

    first, second = ranks.run(work, keep=True)
    assert isinstance(second, KeyboardInterrupt)
    assert isinstance(first, DistributedError)
    assert "rank 1" in str(first)
    expected = fit(None, "data", 3)
    for size, kind in ((1, "data"), (4, "fsdp")):
        again = tmp_path / f"{size}"
        again.mkdir()
        for each in path.iterdir():
            (again / each.name).write_bytes(each.read_bytes())
        found = as_threads(monkeypatch, size).run(
            lambda group, kind=kind, again=again: fit(
                group, kind, 3, checkpoint=again, resume=True
            )
        )
        check(found, expected)
    check(ranks.run(lambda group: fit(group, "data", 3, **options)), expected)
    with pytest.raises(FileFormatError, match="is no checkpoint of a training"):
        Ranks(None).read(path, frozenset({"other"}))


def test_one_rank_s_numbers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        ranks = Ranks(group)
        loader = data.DataLoader(data.TensorDataset(X), 3)
        parts = ranks.validation_loader(loader)
        return (
            ranks.mean(float(group.rank)),
            ranks.totals([1.0, group.rank], 2),
            ranks.any(group.rank == 1),
            [len(batch[0]) for batch in parts],
            ranks.most_batches(parts),
        )

    found = as_threads(monkeypatch, 3).run(work)
    assert [each[:3] for each in found] == [(1.0, ([3.0, 3.0], 6), True)] * 3
    assert [each[3] for each in found] == [[3, 3], [3, 2], [3, 2]]
    assert [each[4] for each in found] == [2, 2, 2]


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> None:
        ranks = Ranks(group)
        with pytest.raises(ValueError, match="val has 1 samples for 2 ranks"):
            ranks.validation_loader(data.DataLoader(data.TensorDataset(X[:1])))
        order = data.BatchSampler(data.SequentialSampler(X), 2, False)
        loader = data.DataLoader(data.TensorDataset(X), batch_sampler=order)
        with pytest.raises(ValueError, match="a loader has a batch_sampler, which"):
            ranks.training_loader(loader)
        within = {"batches": 1, "samples": 6, "losses": {}}
        with pytest.raises(StateError, match="6 samples of an epoch, which 2 ranks"):
            ranks.at_batch(within, data.DataLoader(data.TensorDataset(X), 2))

    as_threads(monkeypatch, 2).run(work)


@pytest.mark.device
@pytest.mark.wide
def test_in_processes(tmp_path: Path) -> None:
    """Replayed on devices; and a pipeline, whose messages are between processes."""
    program = Path(__file__).with_name("fit_program.py")
    done = run_ranks(2, program, str(tmp_path))
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    for rank in range(2):
        assert f"[{rank}] rank {rank} is right" in done.stdout, told
