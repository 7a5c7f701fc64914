"""Trainer.fit: written-out steps, resumed to the same bits, stopped, refused."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import data, nn, optim
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import StateError

cross_entropy = nn.functional.cross_entropy


def accuracy(outputs: fw.Tensor, targets: fw.Tensor) -> fw.Tensor:
    return (outputs.argmax(1) == targets).float().mean()


class Average(optim.Callback):
    """A moving average of the weights, and numbers drawn on the host."""

    def __init__(self, model: nn.Module) -> None:
        average = optim.swa_utils.get_ema_multi_avg_fn(0.9)
        self.model = optim.swa_utils.AveragedModel(model, multi_avg_fn=average)
        self.drawn: list[float] = []

    def on_step_end(self, loop: Any) -> None:
        self.model.update_parameters(loop.model)
        self.drawn += [random.gauss(0, 1), np.random.standard_normal()]

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.drawn = state["drawn"]


class Job:
    """A model with dropout, an optimizer with state, and shuffled batches."""

    def __init__(self, place: Device, batch_size: int = 4, dropout: float = 0.3):
        fw.manual_seed(5)
        rng = np.random.default_rng(3)
        images = rng.normal(size=(14, 5)).astype(np.float32)
        labels = rng.integers(0, 3, 14).astype(np.int32)
        dataset = data.TensorDataset(images, labels)
        self.loader = data.DataLoader(
            dataset, batch_size, shuffle=True, generator=fw.Generator(8)
        )
        self.val = data.DataLoader(dataset, 5, True, generator=fw.Generator(9))
        self.model = nn.Sequential(
            nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(dropout), nn.Linear(6, 3)
        ).to(place)
        self.optimizer = optim.AdamW(self.model.parameters(), 1e-2)
        self.trainer = optim.Trainer(self.optimizer, max_norm=1.0)
        self.scheduler = optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.average = Average(self.model)

    def fit(self, epochs: int, **options: Any) -> optim.History:
        return self.trainer.fit(
            self.model,
            self.loader,
            epochs,
            self.val,
            loss=cross_entropy,
            metrics=[accuracy],
            scheduler=self.scheduler,
            progress=False,
            **options,
        )

    def weights(self) -> list[np.ndarray]:
        return [each.numpy() for each in self.model.state_dict().values()]


def test_resumed_it_ends_with_the_same_bits(place: Device, tmp_path: Path) -> None:
    path = tmp_path / "training"

    def trained(epochs: int, seed: int) -> optim.History:
        job = Job(place)
        random.seed(seed)
        np.random.seed(seed)
        fw.manual_seed(seed)
        return job.fit(epochs, checkpoint=path, resume=True, callbacks=[job.average])

    expected = trained(3, 5)
    content = path.read_bytes()
    path.unlink()
    trained(2, 5)
    found = trained(3, 6)
    assert found.epochs == expected.epochs
    assert list(found.last()) == ["loss", "lr", "val_loss", "val_accuracy"]
    assert expected["lr"] == pytest.approx([1e-2, 0.9e-2, 0.81e-2])
    assert path.read_bytes() == content


class Interrupt(optim.Callback):
    """Ends a training after some steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def on_step_end(self, loop: Any) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_resumed_within_an_epoch_it_ends_with_the_same_bits(
    place: Device, tmp_path: Path
) -> None:
    path = tmp_path / "training"

    def trained(seed: int, *others: Any) -> optim.History:
        job = Job(place)
        random.seed(seed)
        np.random.seed(seed)
        fw.manual_seed(seed)
        return job.fit(
            2,
            checkpoint=path,
            checkpoint_every=1,
            resume=True,
            callbacks=[job.average, *others],
        )

    expected = trained(5)
    content = path.read_bytes()
    path.unlink()
    # In the second epoch, after 3 of 4 steps, of which the last has no checkpoint.
    with pytest.raises(KeyboardInterrupt):
        trained(5, Interrupt(7))
    found = trained(6)
    assert found.epochs == expected.epochs
    assert path.read_bytes() == content


def test_a_checkpoint_within_an_epoch_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "training"
    job = Job(fw.device("cpu"))
    with pytest.raises(KeyboardInterrupt):
        job.fit(1, checkpoint=path, checkpoint_every=3, callbacks=[Interrupt(4)])
    other = Job(fw.device("cpu"), batch_size=14)
    with pytest.raises(StateError, match="of 3 batches of an epoch, the loader has 1"):
        other.fit(1, resume=path)
    with pytest.raises(ValueError, match="checkpoint_every is 2, but checkpoint is"):
        job.fit(2, checkpoint_every=2)


def test_accumulated_batches_are_one_large_batch() -> None:
    def trained(batch_size: int, accumulate: int) -> tuple[list[float], np.ndarray]:
        job = Job(fw.device("cpu"), batch_size)
        model = nn.Linear(5, 3)
        with fw.no_grad():
            model.weight.copy_(fw.full((3, 5), 0.1))
            model.bias.zero_()
        trainer = optim.Trainer(optim.SGD(model.parameters(), 0.5))
        history = trainer.fit(
            model,
            job.loader,
            2,
            loss=cross_entropy,
            accumulate=accumulate,
            progress=False,
        )
        return history["loss"], model.weight.detach().numpy()

    # The last group is of 4 and 2 samples.
    (losses, weight), (others, other) = trained(4, 2), trained(8, 1)
    assert losses == pytest.approx(others, rel=1e-6)
    np.testing.assert_allclose(weight, other, rtol=1e-5, atol=1e-6)


def test_no_step_reads_from_the_device(gpu: GpuDevice) -> None:
    job = Job(gpu)
    reads: list[int] = []

    class Reads(optim.Callback):
        def on_step_end(self, loop: Any) -> None:
            reads.append(gpu.gpu.counters.snapshot().host_reads)

    before = gpu.gpu.counters.snapshot().host_reads
    job.fit(2, callbacks=[Reads()])
    assert [each - before for each in reads[:4]] == [0] * 4
    assert len(set(reads[4:])) == 1
    assert len(job.trainer._replayed) == 1


def test_the_last_loss_is_there() -> None:
    job, losses = Job(fw.device("cpu")), []

    class Losses(optim.Callback):
        def on_step_end(self, loop: Any) -> None:
            losses.append(loop.loss.item())

    history = job.fit(1, callbacks=[Losses()])
    assert history["loss"] == pytest.approx([sum(losses) / len(losses)])
    assert len(losses) == 4


def test_it_stops(capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(fw.device("cpu"))
    seen: list[int] = []
    history = job.fit(9, patience=2, min_delta=100.0, callbacks=[lambda _: None])
    assert len(history) == 3
    job.fit(9, callbacks=[lambda loop: seen.append(loop.epoch), lambda f: f.stop()])
    assert seen == [1]
    capsys.readouterr()
    trainer = optim.Trainer(optim.SGD(job.model.parameters(), 0.1))
    trainer.fit(job.model, job.loader, 1, loss=cross_entropy)
    assert "4/4" in capsys.readouterr().err


def test_schedulers_step_as_told() -> None:
    job = Job(fw.device("cpu"))
    job.fit(1, scheduler_step="step")
    assert job.optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 * 0.9**4)
    plateau = optim.lr_scheduler.ReduceLROnPlateau(job.optimizer)
    job.scheduler = plateau  # type: ignore[assignment]
    history = job.fit(1)
    assert plateau.best == history["val_loss"][0]


def test_a_closure_gets_the_batch() -> None:
    job = Job(fw.device("cpu"))

    def closure(images: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        return cross_entropy(job.model(images), labels)

    history = job.trainer.fit(
        job.model, job.loader, 1, job.val, closure=closure, progress=False
    )
    expected = optim.evaluate(job.model, job.val, {"loss": cross_entropy})
    assert history["val_loss"] == pytest.approx([expected["loss"]], rel=1e-6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epochs": -1}, "epochs is -1"),
        ({"accumulate": 0}, "accumulate is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"loss": None}, "exactly one of loss"),
        ({"mode": "least"}, "mode is 'least'"),
        ({"scheduler_step": "batch"}, "scheduler_step is 'batch'"),
        ({"resume": True}, "resume is True"),
        ({"metrics": [accuracy]}, "metrics are of val"),
        ({"monitor": "val_loss"}, "monitor is 'val_loss'"),
        ({"callbacks": [3]}, "a callback is 3"),
        ({"loader": []}, "no batch"),
    ],
)
def test_what_is_refused(options: dict[str, Any], text: str) -> None:
    job = Job(fw.device("cpu"))
    given = {"loader": job.loader, "epochs": 1, "loss": cross_entropy, **options}
    with pytest.raises((ValueError, TypeError), match=text):
        job.trainer.fit(job.model, progress=False, **given)


def test_a_checkpoint_of_another_training_changes_nothing(tmp_path: Path) -> None:
    place = fw.device("cpu")
    path = tmp_path / "training"
    Job(place).fit(1, checkpoint=path)
    other = Job(place)
    other.optimizer.add_param_group({"params": [fw.ones(2, requires_grad=True)]})
    before = other.weights()
    with pytest.raises(StateError, match="groups"):
        other.trainer.fit(
            other.model,
            other.loader,
            2,
            other.val,
            loss=cross_entropy,
            scheduler=other.scheduler,
            resume=path,
            progress=False,
        )
    for one, two in zip(before, other.weights()):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(StateError, match="scheduler"):
        other.trainer.fit(other.model, other.loader, 2, loss=cross_entropy, resume=path)
    same = Job(place)
    with pytest.raises(StateError, match=r"callbacks \[\], this .*\['Average'\]"):
        same.fit(2, resume=path, callbacks=[same.average])
    same.val = data.DataLoader(same.val.dataset, 5)
    with pytest.raises(StateError, match="is of 3 generators, this training has 2"):
        same.fit(2, resume=path)
