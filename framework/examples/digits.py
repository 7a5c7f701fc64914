"""Train a small convolutional network on scikit-learn's handwritten digits.

    python -m vkbackend.framework.examples.digits [--device NAME] [--epochs N] ...

Trains on the best device found, measures the accuracy on images held out, saves the
model, loads it into a fresh one and checks that this predicts the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tqdm import tqdm

import vkbackend.framework as fw
from vkbackend import Error
from vkbackend.framework import data, nn, optim

from ..base.device import Device
from ..tensor.tensor import Tensor

BATCH_SIZE = 64
LEARNING_RATE = 1e-3
HELD_OUT = 0.2
"""Share of the images held out for testing."""


class Digits:
    """The images, in [0, 1] and shape (n, 1, 8, 8), and their labels, split in two."""

    def __init__(self) -> None:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        images, labels = load_digits(return_X_y=True)
        images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
        # 32 bits: not every device has 64-bit integers.
        parts = train_test_split(
            images,
            labels.astype(np.int32),
            test_size=HELD_OUT,
            random_state=0,
            stratify=labels,
        )
        self.train_images, self.test_images = parts[:2]
        self.train_labels, self.test_labels = parts[2:]


def make_model() -> nn.Sequential:
    """Return an untrained classifier of (n, 1, 8, 8) images into ten classes."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def train(model: nn.Module, digits: Digits, device: Device, epochs: int) -> list[float]:
    """Train a model in place and return the mean loss of each epoch.

    The loss is summed on the device and read once an epoch, so no step waits. Steps
    are replayed: one trace for whole batches, and one for the last, smaller one.
    """
    dataset = data.TensorDataset(digits.train_images, digits.train_labels)
    loader = data.DataLoader(dataset, BATCH_SIZE, shuffle=True, device=device)
    trainer = optim.Trainer(optim.AdamW(model.parameters(), lr=LEARNING_RATE))
    loss_function = nn.CrossEntropyLoss()

    def closure(images: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = loss_function(model(images), labels)
        return loss

    losses = []
    model.train()
    with tqdm(total=epochs * len(loader), unit="step", mininterval=0.5) as bar:
        for epoch in range(epochs):
            trainer.reset_epoch()
            for images, labels in loader:
                trainer.train_step(closure, images, labels)
                bar.update()
            losses.append(trainer.epoch_avg_loss())
            bar.write(f"epoch {epoch + 1:3}  loss {losses[-1]:.4f}")
    return losses


def predict(model: nn.Module, images: np.ndarray, device: Device) -> np.ndarray:
    """Return the class of each image."""
    model.eval()
    with fw.no_grad():
        scores: Tensor = model(fw.tensor(images, device=device))
    return scores.argmax(dim=1).numpy()


def plot(path: Path, losses: list[float], digits: Digits, found: np.ndarray) -> None:
    """Draw the loss curve, and test images with what they were taken for."""
    from matplotlib.figure import Figure

    rows, columns, curve = 5, 8, 5
    figure = Figure(figsize=(13, 5.5), layout="constrained")
    grid = figure.add_gridspec(rows, curve + columns)
    axes = figure.add_subplot(grid[:, :curve])
    axes.plot(range(1, len(losses) + 1), losses, marker="o")
    axes.set(xlabel="epoch", ylabel="mean training loss", yscale="log")
    axes.grid(alpha=0.3, which="both")
    axes.locator_params(axis="x", integer=True)
    figure.suptitle("test digits: label found (true label where it differs)", x=0.7)
    # Mistakes come first: there are few, and they are what one looks for.
    order = np.argsort(found == digits.test_labels, kind="stable")
    for place, index in enumerate(order[: rows * columns]):
        row, column = divmod(place, columns)
        axes = figure.add_subplot(grid[row, curve + column])
        axes.imshow(digits.test_images[index, 0], cmap="gray_r")
        axes.set_axis_off()
        label, true = found[index], digits.test_labels[index]
        if label == true:
            axes.set_title(str(label))
        else:
            axes.set_title(f"{label} ({true})", color="red")
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the example; what is wrong is said in one line."""
    options = parse(argv)
    needed = {"sklearn": "scikit-learn"}
    if options.plot:
        needed["matplotlib"] = "matplotlib"
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        names = " and ".join(needed[name] for name in missing)
        sys.exit(f"digits: {names} not found; pip install 'vkbackend[examples]'")
    try:
        run(options)
    except (Error, OSError) as error:
        sys.exit(f"digits: {error}")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="digits", description=main.__doc__)
    add = parser.add_argument
    add("--device", help="'cpu', a number, or part of a name; default: the best found")
    add("--epochs", type=_positive, default=10, help="passes over the training images")
    add("--seed", type=int, default=0, help="of weights, order and dropout")
    add("--output", type=Path, default=Path("digits.safetensors"), help="the model")
    add("--plot", type=Path, help="file for a picture of losses and predictions")
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def run(options: argparse.Namespace) -> None:
    """Train, test, save, load, check."""
    device = fw.device(options.device)
    print(f"device     {device.description}")
    digits = Digits()
    counts = len(digits.train_labels), len(digits.test_labels)
    print("images     {} to train, {} to test".format(*counts))
    fw.manual_seed(options.seed)
    model = make_model().to(device)
    start = time.perf_counter()
    losses = train(model, digits, device, options.epochs)
    print(f"time       {time.perf_counter() - start:.2f} s for {options.epochs} epochs")
    found = predict(model, digits.test_images, device)

    fw.save(model.state_dict(), options.output)
    loaded = make_model().to(device)
    loaded.load_state_dict(fw.load(options.output))
    if not np.array_equal(found, predict(loaded, digits.test_images, device)):
        sys.exit(f"digits: the model loaded from {options.output} predicts otherwise")
    print(f"saved      {options.output}; loaded again, it predicts the same")
    if options.plot:
        plot(options.plot, losses, digits, found)
        print(f"plotted    {options.plot}")
    print(f"test accuracy {np.mean(found == digits.test_labels):.3f}")


if __name__ == "__main__":
    main()
