"""Small language model trained from scratch, and what is done with one afterwards.

The text is that of `help("topics")`, which every Python has. A tokenizer of byte pairs
and a model of the Llama family learn it. Both are saved in the layout of Hugging Face,
loaded again, quantized, and written as a GGUF file; then adapters are trained to answer
questions in a chat::

    python -m vkbackend.framework.examples.language_model --out small

The folder and the file are what the commands take::

    vkmodels generate small --prompt "The statement"
    vkmodels chat small/model.gguf
    vkmodels finetune small --data small/questions.jsonl --out adapter
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import vkbackend.framework as fw
from vkbackend import Error
from vkbackend.framework import data, lora, models, nn, optim

from .characters import topics

TEMPLATE = (
    "{{ bos_token }}{% for each in messages %}"
    "{% if each.role == 'user' %}<|user|>{% else %}<|answer|>{% endif %}"
    "{{ each.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|answer|>{% endif %}"
)
"""Template of chats: each part after a token for who says it."""

SPECIAL = ("<s>", "</s>", "<|user|>", "<|answer|>")


class Size(NamedTuple):
    """How large the model is, and how long it is trained.

    Widths are multiples of 256, the elements of a block of Q4_K.
    """

    words: int
    width: int
    inner: int
    layers: int
    heads: int
    length: int
    batch: int
    epochs: int
    characters: int


WHOLE = Size(2048, 256, 512, 3, 8, 128, 16, 4, 1_000_000)
QUICK = Size(300, 256, 256, 1, 4, 64, 4, 1, 4000)


def make_tokenizer(text: str, words: int, folder: Path) -> models.Tokenizer:
    """Train a tokenizer of byte pairs on a text, and write it to a folder."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers, processors, trainers
    from tokenizers.models import BPE

    made = Tokenizer(BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=words,
        show_progress=False,
        special_tokens=[*SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator(text.splitlines(keepends=True), trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return models.Tokenizer(folder)


def make_model(size: Size, words: int, device: str) -> models.Llama:
    """Return a model with random parameters."""
    config = models.ModelConfig(
        {
            "model_type": "llama",
            "vocab_size": words,
            "hidden_size": size.width,
            "intermediate_size": size.inner,
            "num_hidden_layers": size.layers,
            "num_attention_heads": size.heads,
            "num_key_value_heads": size.heads // 2,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": True,
        }
    )
    model = models.Llama(config)
    models.initialize(model, device)
    return model


def train(
    model: nn.Module,
    packed: models.PackedRows,
    size: Size,
    rate: float,
    progress: bool,
) -> list[float]:
    """Train a model on packed texts, and return the mean loss of each epoch."""
    rows = packed.tokens, packed.targets, packed.documents
    loader = data.DataLoader(data.TensorDataset(*rows), size.batch, shuffle=True)

    def closure(tokens: fw.Tensor, targets: fw.Tensor, documents: fw.Tensor) -> Any:
        return models.loss(model, tokens, targets, documents=documents)

    parameters = [each for each in model.parameters() if each.requires_grad]
    trainer = optim.Trainer(optim.AdamW(parameters, rate), max_norm=1.0)
    history = trainer.fit(
        model, loader, size.epochs, closure=closure, progress=progress
    )
    return history["loss"]


def questions(texts: dict[str, str]) -> list[dict[str, str]]:
    """Return questions on topics, and answers: their first sentences."""
    found = []
    for name, text in texts.items():
        body = text.split("\n\n", 2)[1:2] or [text]
        answer = " ".join(body[0].split()).partition(". ")[0]
        found.append({"prompt": f"What is {name}?", "completion": f"{answer[:200]}."})
    return found


def write_on(
    model: Any, tokenizer: models.Tokenizer, text: str, count: int, special: bool
) -> str:
    """Return what a model adds to a text, the most likely tokens."""
    device = model.lm_head.weight.device
    tokens = fw.tensor([tokenizer.encode(text, special)], device=device)
    added = models.generate(model, tokens, count, stop=tokenizer.stop)
    return tokenizer.decode(added[0, tokens.shape[1] :])


def answer(model: Any, tokenizer: models.Tokenizer, asked: str, count: int) -> str:
    """Return what a model answers in a chat."""
    said = [{"role": "user", "content": asked}]
    text = tokenizer.apply_chat_template(said)
    return write_on(model, tokenizer, text, count, special=False)


def run(args: argparse.Namespace) -> int:
    """Do all of it, and print what comes out."""
    size = QUICK if args.quick else WHOLE
    count = 8 if args.quick else 60
    fw.manual_seed(0)
    given = topics()
    texts = given[: size.characters].split("\n\n\n")
    tokenizer = make_tokenizer("\n".join(texts), size.words, args.out)
    model = make_model(size, len(tokenizer), args.device)
    rows = models.pack([tokenizer.encode(text) for text in texts], size.length)
    losses = train(model, rows, size, 2e-3, not args.quick)
    print(f"mean loss of each epoch: {', '.join(f'{each:.3f}' for each in losses)}")

    models.save(model, args.out, tokenizer)
    tokenizer = models.Tokenizer(args.out)
    again: Any = models.load(args.out, args.device)
    print(f"it writes: {write_on(again, tokenizer, 'The statement', count, True)!r}")

    print(nn.quantize(again, "q4_k"))
    file = args.out / "model.gguf"
    models.save_gguf(again, file, tokenizer=tokenizer)
    of_file = models.load(file, args.device)
    tokenizer = models.Tokenizer(file)
    written = write_on(of_file, tokenizer, "The statement", count, True)
    print(f"of 4 bits it writes: {written!r}")

    asked = questions(_by_name(size.characters))
    with (args.out / "questions.jsonl").open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(each) + "\n" for each in asked)
    lora.add(of_file, rank=8, alpha=16)
    rows = _packed(asked, tokenizer, size)
    losses = train(of_file, rows, size, 1e-3, not args.quick)
    lora.save(of_file, args.out / "adapter", args.out)
    print(f"fine-tuned: {', '.join(f'{each:.3f}' for each in losses)}")
    prompt = asked[0]["prompt"]
    print(f"{prompt} {answer(of_file.eval(), tokenizer, prompt, count)!r}")
    return 0


def _by_name(characters: int) -> dict[str, str]:
    """Return the topics by name, as many as a number of characters holds."""
    from pydoc_data.topics import topics as texts

    found: dict[str, str] = {}
    left = characters
    for name, text in texts.items():
        if left <= 0:
            break
        found[name] = text
        left -= len(text)
    return found


def _packed(
    asked: Sequence[dict[str, str]], tokenizer: models.Tokenizer, size: Size
) -> models.PackedRows:
    """Return questions and answers, of which the answers are learned."""
    tokens, counted = [], []
    for each in asked:
        said = [{"role": "user", "content": each["prompt"]}]
        first = tokenizer.encode(tokenizer.apply_chat_template(said), False)
        last = [*tokenizer.encode(each["completion"], False), *tokenizer.stop[:1]]
        tokens.append([*first, *last])
        counted.append([False] * len(first) + [True] * len(last))
    return models.pack(tokens, size.length, counted=counted)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example; what a user got wrong is one line on stderr."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--quick", action="store_true", help="a few steps of few words")
    try:
        return run(parser.parse_args(argv))
    except (Error, OSError, ImportError) as error:
        print(f"language_model: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
