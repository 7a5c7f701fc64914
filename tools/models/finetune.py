"""`vkmodels finetune`: train low-rank adapters of a language model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import vkbackend.framework as fw
from vkbackend.errors import ArgumentError
from vkbackend.framework import data, lora, models, nn, optim
from vkbackend.framework.lora.grouped import LoRAGrouped
from vkbackend.framework.utils.checkpoint import checkpoint_modules

from .loaded import loaded_model
from .texts import Example, read_examples

HELP = "train adapters of a language model on texts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", type=Path, help="folder of the model")
    parser.add_argument("--data", type=Path, required=True, help="JSON lines")
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--dtype", default="bfloat16", help="of the model's weights")
    parser.add_argument("--format", help="quantize the frozen weights, as q4_k (QLoRA)")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--alpha", type=float, default=32.0)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="in the place of --epochs")
    parser.add_argument("--batch", type=int, default=1, help="rows of a batch")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a row")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    parser.add_argument(
        "--checkpointing",
        action="store_true",
        help="compute each layer again in the backward pass, which saves memory",
    )
    parser.add_argument(
        "--checkpoint-every", type=int, default=100, help="steps, and each epoch"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint in --out"
    )
    parser.add_argument("--merge", action="store_true", help="also save merged weights")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=40, help="tokens of the sample")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Fine-tune as the arguments say; write the adapter, and how the loss went."""
    if args.merge and args.format:
        raise ArgumentError(
            "--merge beside --format: quantized weights would be rounded"
            " anew; leave one out"
        )
    fw.manual_seed(args.seed)
    tokenizer = models.Tokenizer(args.folder)
    examples = read_examples(args.data, tokenizer)
    model = loaded_model(args.folder, args.device, args.dtype, args.format, ["lm_head"])
    lora.add(model, args.rank, args.alpha, args.dropout)
    if args.checkpointing:
        checkpoint_modules(layers_of(model))
    history, losses = _train(model, examples, args)
    args.out.mkdir(parents=True, exist_ok=True)
    lora.save(model, args.out, args.folder)
    shown = " -> ".join(f"{each:.4f}" for each in dict.fromkeys(history["loss"]))
    print(f"mean loss of each epoch: {shown}; the adapter is in {args.out}")
    try:
        history.plot(args.out / "loss.png", losses)
    except ImportError:
        print("no picture of the loss: matplotlib is missing")
    if args.sample:
        print(_sample(model.eval(), tokenizer, examples[0], args.sample))
    if args.merge:
        lora.merge(model)
        lora.remove(model)
        models.save(model, args.out, tokenizer)
    return 0


class StepLosses(optim.Callback):
    """The loss of each step, read where a checkpoint is written."""

    def __init__(self) -> None:
        self._known: list[float] = []
        self._newest: list[fw.Tensor] = []

    def on_step_end(self, loop: Any) -> None:
        """Keep the loss of a step."""
        self._newest.append(loop.loss)

    def read(self) -> list[float]:
        """Return all losses; waits for the device."""
        self._known += [each.item() for each in self._newest]
        self._newest = []
        return self._known

    def state_dict(self) -> dict[str, list[float]]:
        """Return all losses so far."""
        return {"losses": list(self.read())}

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        """Go on from losses that were saved."""
        self._known, self._newest = list(state["losses"]), []


def _train(
    model: nn.Module, examples: Sequence[Example], args: argparse.Namespace
) -> tuple[optim.training.History, list[float]]:
    """Return the mean loss of each epoch, and the loss of each step."""
    packed = models.pack(
        [each.tokens for each in examples],
        args.length,
        counted=[each.counted for each in examples],
    )
    rows: tuple[fw.Tensor, ...] = packed.tokens, packed.targets, packed.documents
    epochs = args.epochs
    if args.steps is not None:
        count, wanted = len(rows[0]), args.steps * args.accumulate * args.batch
        order = fw.cat([fw.randperm(count) for _ in range(-(-wanted // count))])
        rows = tuple(each[order[:wanted]] for each in rows)
        epochs = 1
    loader = data.DataLoader(
        data.TensorDataset(*rows), args.batch, shuffle=args.steps is None
    )

    def closure(tokens: fw.Tensor, targets: fw.Tensor, documents: fw.Tensor) -> Any:
        return models.loss(model, tokens, targets, documents=documents)

    trainer = optim.Trainer(
        optim.AdamW(lora.parameters(model), args.lr, weight_decay=0.0), max_norm=1.0
    )
    losses = StepLosses()
    args.out.mkdir(parents=True, exist_ok=True)
    history = trainer.fit(
        _adapters(model),
        loader,
        epochs,
        closure=closure,
        accumulate=args.accumulate,
        checkpoint=args.out / "training.safetensors",
        checkpoint_every=args.checkpoint_every,
        resume=args.resume,
        progress=not args.quiet,
        callbacks=[losses],
    )
    return history, losses.read()


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Return the layers that a language model is a stack of."""
    decoder: Any = model.get_submodule(getattr(model, "base", "model"))
    stack = decoder.layers if hasattr(decoder, "layers") else decoder.h
    return [*stack]


def _adapters(model: nn.Module) -> nn.Module:
    """Return the adapters alone: a checkpoint needs no frozen weights."""
    parts = [
        part
        for layer in model.modules()
        if isinstance(layer, lora.LoRALinear | LoRAGrouped)
        for part in (layer.lora_A, layer.lora_B, layer.lora_dropout)
    ]
    return nn.ModuleList([part for part in parts if part is not None])


def _sample(
    model: Any, tokenizer: models.Tokenizer, example: Example, count: int
) -> str:
    """Return what the model writes after the first part of an example."""
    start = example.counted.index(True) or min(8, len(example.tokens))
    device = lora.parameters(model)[0].device
    tokens = fw.tensor([example.tokens[:start]], device=device)
    with fw.no_grad():
        written = models.generate(model, tokens, count, stop=tokenizer.stop)
    return tokenizer.decode(written[0])
