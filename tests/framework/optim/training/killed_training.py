"""A training that is killed and resumed; run as a script by `test_checkpoint.py`.

    python killed_training.py FOLDER DEVICE SEED EVERYWHERE WRITING

First the training runs uninterrupted. Then, as often as the last two arguments say, it
is killed before a call of a function that is drawn at random, of all calls and of those
within a write of a checkpoint, and resumed; at last the system ends it in the middle of
a write. Each run is a forked child, which opens its own device. The script fails if a
resumed run leaves other bytes in its checkpoint than the uninterrupted one.
"""

import json
import os
import random
import resource
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import data, nn, optim
from vkbackend.framework.optim.training.checkpoint import save_checkpoint


class Noisy(data.Dataset[Any]):
    """Samples with noise that workers draw in all three ways."""

    def __len__(self) -> int:
        return 14

    def __getitem__(self, index: int) -> Any:
        noise = np.random.standard_normal(4) + fw.rand(4).numpy()
        return (index + noise).astype(np.float32), index % 3, random.random()


class Average(optim.Callback):
    """A moving average of the model's weights."""

    def __init__(self, model: nn.Module) -> None:
        average = optim.swa_utils.get_ema_multi_avg_fn(0.9)
        self.model = optim.swa_utils.AveragedModel(model, multi_avg_fn=average)

    def on_step_end(self, loop: Any) -> None:
        self.model.update_parameters(loop.model)

    def state_dict(self) -> Any:
        return self.model.state_dict()

    def load_state_dict(self, state: Any) -> None:
        self.model.load_state_dict(state)


def cut_write(loop: optim.training.loop.TrainingLoop) -> None:
    """Let the system end this process in the middle of the second checkpoint."""
    if loop.epoch == 2:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))


def train(device: str, checkpoint: Path, *callbacks: Any) -> None:
    """Train from the checkpoint, if there is one, to the end."""
    for seed in (random.seed, np.random.seed, fw.manual_seed):
        seed(5)
    loader = data.DataLoader(
        Noisy(), 2, shuffle=True, num_workers=2, generator=fw.Generator(3)
    )
    model = nn.Sequential(
        nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.3), nn.Linear(5, 3)
    ).to(device)
    optimizer = optim.AdamW(model.parameters(), 1e-2)

    def loss(inputs: fw.Tensor, labels: fw.Tensor, weights: fw.Tensor) -> fw.Tensor:
        losses = nn.functional.cross_entropy(model(inputs), labels, reduction="none")
        return (losses * weights.float()).mean()

    optim.Trainer(optimizer, max_norm=1.0).fit(
        model,
        loader,
        3,
        closure=loss,
        accumulate=2,
        scheduler=optim.lr_scheduler.CosineAnnealingLR(optimizer, 9),
        scheduler_step="step",
        callbacks=[Average(model), *callbacks],
        checkpoint=checkpoint,
        resume=True,
        progress=False,
    )


class Calls:
    """Counts of the calls of the main thread, outside of writes and within, in turns.

    Parameters
    ----------
    last : tuple of int or None
        The turn, and the call within it, before which the process is killed.
    """

    def __init__(self, last: tuple[int, int] | None = None) -> None:
        self.counts = [0]
        self._last = last

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code is save_checkpoint.__code__ and event in ("call", "return"):
            self.counts.append(0)
        elif event in ("call", "c_call"):
            self.counts[-1] += 1
            if (len(self.counts) - 1, self.counts[-1]) == self._last:
                os.kill(os.getpid(), signal.SIGKILL)


def run(
    device: str, checkpoint: Path, last: tuple[int, int] | None = None, *callbacks: Any
) -> tuple[int, Any]:
    """Train in a child; return its status, and what it counted if it came so far."""
    notes = checkpoint.with_name("notes")
    child = os.fork()
    if not child:
        calls = Calls(last)
        sys.setprofile(calls)
        try:
            train(device, checkpoint, *callbacks)
            sys.setprofile(None)
            notes.write_text(json.dumps(calls.counts))
        except BaseException:
            sys.setprofile(None)
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(notes.read_text()) if status == 0 else None


def points(counts: list[int], seed: int, everywhere: int, writing: int) -> Any:
    """Yield turns and calls: of all turns by their lengths, and of the writes."""
    assert len(counts) == 7
    source = random.Random(seed)
    for number in range(everywhere + writing):
        turns = range(7) if number < everywhere else range(1, 7, 2)
        lengths = [counts[turn] for turn in turns]
        (turn,) = source.choices(turns, lengths)
        # Outside of writes no two runs have quite the same number of calls.
        most = counts[turn] if turn % 2 else max(1, counts[turn] * 9 // 10)
        yield turn, source.randint(1, most)


def main(folder: str, device: str, seed: str, everywhere: str, writing: str) -> None:
    checkpoint = Path(folder) / "checkpoint"
    if device != "cpu":
        # To fill caches: a run that compiles has many calls more.
        assert run(device, checkpoint)[0] == 0
        checkpoint.unlink()
    status, counts = run(device, checkpoint)
    assert status == 0
    expected = checkpoint.read_bytes()
    chosen = points(counts, int(seed), int(everywhere), int(writing))
    ends = [((point,), signal.SIGKILL) for point in chosen]
    for arguments, end in [*ends, ((None, cut_write), signal.SIGXFSZ)]:
        checkpoint.unlink()
        assert run(device, checkpoint, *arguments)[0] == -end, arguments
        assert run(device, checkpoint)[0] == 0, arguments
        assert checkpoint.read_bytes() == expected, arguments
    sizes = [each.stat().st_size for each in checkpoint.parent.glob(".new-*")]
    # What the system has cut is left over, and never read.
    assert 4000 in sizes


if __name__ == "__main__":
    main(*sys.argv[1:])
