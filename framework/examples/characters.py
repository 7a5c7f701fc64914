"""Character-level language model of Python's own documentation.

The text is that of `help("topics")`, which every Python has: about 460 thousand
characters. A transformer of two blocks learns the first nine tenths of it, is evaluated
on the last tenth, and writes on::

    python -m vkbackend.framework.examples.characters --report characters.md
    python -m vkbackend.framework.examples.characters --checkpoint characters.ckpt

With `--checkpoint`, a training that was ended goes on after its last whole epoch.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import vkbackend.framework as fw
from vkbackend import Error
from vkbackend.framework import data, nn, optim
from vkbackend.framework.nn import functional

from ..base.device import Device
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from ..optim.training.loop import TrainingLoop

CONTEXT = 128
"""Characters that the model sees at once."""

BATCH_SIZE = 16
PEAK_LEARNING_RATE = 4e-3
MAX_NORM = 1.0
HELD_OUT = 0.1
"""Share of the text that is for validation: its end."""


class Text:
    """A text as numbers of characters, split into training and validation.

    Parameters
    ----------
    text : str

    Attributes
    ----------
    alphabet : str
        The characters, by their numbers.
    training, validation : numpy.ndarray of int32
    """

    def __init__(self, text: str) -> None:
        self.alphabet = "".join(sorted(set(text)))
        codes = self.encoded(text)
        cut = round(len(codes) * (1 - HELD_OUT))
        self.training, self.validation = codes[:cut], codes[cut:]

    def encoded(self, text: str) -> np.ndarray:
        """Return the numbers of a text's characters, int32."""
        numbers = {each: number for number, each in enumerate(self.alphabet)}
        return np.array([numbers[each] for each in text], np.int32)

    def decoded(self, codes: Sequence[int]) -> str:
        """Return the text of numbers."""
        return "".join(self.alphabet[code] for code in codes)


def topics() -> str:
    """Return the text of Python's help on its own language."""
    from pydoc_data.topics import topics as texts

    return "".join(texts.values())


def windows(codes: np.ndarray, length: int) -> data.TensorDataset:
    """Return pieces of a text, and of each the characters that follow."""
    count = (len(codes) - 1) // length
    inputs, targets = codes[: count * length], codes[1 : count * length + 1]
    return data.TensorDataset(
        inputs.reshape(count, length), targets.reshape(count, length)
    )


class Block(nn.Module):
    """Transformer block, normalised first: causal attention, then two layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the state after the block, shape (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.qkv(self.attention_norm(x))
        parts = parts.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = (each.transpose(1, 2) for each in parts.unbind(2))
        seen = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True
        )
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        made: Tensor = x + self.down(functional.gelu(self.up(self.mlp_norm(x))))
        return made


class CharacterModel(nn.Module):
    """Logits of the next character at each place of a text.

    Parameters
    ----------
    characters : int
        Size of the alphabet.
    width, layers, heads : int
    context : int
        Longest text.
    """

    def __init__(
        self,
        characters: int,
        width: int = 96,
        layers: int = 2,
        heads: int = 4,
        context: int = CONTEXT,
    ) -> None:
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(characters, width)
        self.position = nn.Parameter(fw.zeros(context, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position, std=0.02)

    def forward(self, codes: Tensor) -> Tensor:
        """Return logits, shape (batch, length, characters)."""
        x = self.embedding(codes) + self.position[: codes.shape[1]]
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


def nats(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of a character, in nats."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(
    model: CharacterModel,
    text: Text,
    device: Device,
    epochs: int,
    checkpoint: Path | None = None,
) -> optim.History:
    """Train a model in place and return the numbers of each epoch."""
    batches = data.DataLoader(
        windows(text.training, model.context), BATCH_SIZE, shuffle=True, device=device
    )
    held_out = data.DataLoader(
        windows(text.validation, model.context), BATCH_SIZE, device=device
    )
    optimizer = optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE)
    scheduler = optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_LEARNING_RATE, epochs=epochs, steps_per_epoch=len(batches)
    )
    trainer = optim.Trainer(optimizer, max_norm=MAX_NORM)
    return trainer.fit(
        model,
        batches,
        epochs,
        val=held_out,
        loss=nats,
        scheduler=scheduler,
        scheduler_step="step",
        callbacks=[_say],
        checkpoint=checkpoint,
        resume=checkpoint is not None,
    )


def _say(loop: TrainingLoop) -> None:
    """Print the numbers of an epoch."""
    numbers = loop.history.last()
    print(
        f"epoch {loop.epoch:3}  training {numbers['loss']:.4f}"
        f"  validation {numbers['val_loss']:.4f} nats",
        flush=True,
    )


def write_on(
    model: CharacterModel, text: Text, prompt: str, count: int, temperature: float
) -> str:
    """Return a prompt and characters that the model draws one after the other.

    The context has one length throughout, so that all draws replay one trace: what is
    behind the last character does not reach it, as attention is causal.
    """
    device = model.head.weight.device

    def draw(codes: Tensor, last: Tensor) -> Tensor:
        logits = model(codes)[0].index_select(0, last) / temperature
        return fw.multinomial(logits.softmax(1), 1)

    replayed = fw.jit(draw)
    codes = text.encoded(prompt).tolist()
    model.eval()
    with fw.no_grad():
        for _ in range(count):
            seen = codes[-model.context :]
            padded = np.zeros((1, model.context), np.int32)
            padded[0, : len(seen)] = seen
            last = np.array([len(seen) - 1], np.int32)
            found = replayed(
                fw.tensor(padded, device=device), fw.tensor(last, device=device)
            )
            codes.append(int(found.item()))
    return text.decoded(codes)


@dataclass
class Run:
    """What a run of the example has shown, as `report` writes it."""

    device: str
    characters: int
    parameters: int
    history: optim.History
    seconds: float
    sample: str


def report(run: Run) -> str:
    """Return a page about a run: its figures, its curve and what it wrote."""
    losses = run.history["loss"], run.history["val_loss"]
    highest = max(map(max, losses))
    rows = [
        f"| {epoch} | {training:.3f} | {validation:.3f} |"
        f" `{'█' * max(round(40 * validation / highest), 1)}` |"
        for epoch, (training, validation) in enumerate(zip(*losses), 1)
    ]
    today = datetime.date.today().isoformat()
    return "\n".join(
        [
            "# A character-level language model",
            "",
            "Written by `python -m vkbackend.framework.examples.characters --report`:",
            "the text of `help('topics')`, of which the last tenth is held out.",
            "",
            "| | |",
            "| --- | --- |",
            f"| device | {run.device} |",
            f"| text | {run.characters:,} characters, Python"
            f" {platform.python_version()} |",
            f"| parameters | {run.parameters:,} |",
            f"| epochs | {len(run.history)} |",
            f"| time | {run.seconds:.0f} s, evaluation included |",
            f"| date | {today} |",
            "",
            "Mean loss of a character, in nats:",
            "",
            "| epoch | training | validation | |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
            "What it writes after the words it was given, the first line:",
            "",
            "```text",
            *[line.rstrip() for line in run.sample.splitlines()],
            "```",
            "",
        ]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Train a character-level language model, and let it write."""
    options = parse(argv)
    try:
        run(options)
    except (Error, OSError) as error:
        sys.exit(f"characters: {error}")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="characters", description=main.__doc__)
    add = parser.add_argument
    add("--device", help="'cpu', a number, or part of a name; default: the best found")
    add("--epochs", type=_positive, default=10, help="passes over the text")
    add("--seed", type=int, default=0, help="of weights, order and draws")
    add("--checkpoint", type=Path, help="file to save to, and to go on from")
    add("--report", type=Path, help="file for a page with the curve and a sample")
    add("--prompt", default='The "for" statement\n', help="what the sample begins with")
    add("--length", type=_positive, default=600, help="characters of the sample")
    add("--temperature", type=float, default=0.7, help="below 1 is less daring")
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def run(options: argparse.Namespace) -> None:
    """Train, write on, report."""
    device = fw.device(options.device)
    text = Text(topics())
    counts = len(text.training), len(text.validation)
    print(f"device     {device.description}")
    print("characters {} to train, {} to validate".format(*counts))
    fw.manual_seed(options.seed)
    model = CharacterModel(len(text.alphabet)).to(device)
    start = time.perf_counter()
    history = train(model, text, device, options.epochs, options.checkpoint)
    seconds = time.perf_counter() - start
    print(f"time       {seconds:.1f} s")
    sample = write_on(model, text, options.prompt, options.length, options.temperature)
    print(sample)
    if options.report:
        parameters = sum(each.numel() for each in model.parameters())
        shown = Run(
            device.description, sum(counts), parameters, history, seconds, sample
        )
        options.report.write_text(report(shown), encoding="utf-8")
        print(f"reported   {options.report}")
    print(f"validation {history['val_loss'][-1]:.3f} nats")


if __name__ == "__main__":
    main()
