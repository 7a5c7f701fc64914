"""Models saved in the layout of Hugging Face, which `load` and `transformers` read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vkbackend.atomic_file import save_atomically
from vkbackend.errors import ArgumentError

from .. import nn
from ..io.safetensors import encoded
from ..tensor.tensor import Tensor
from .bert import Bert, BertClassifier, Roberta, RobertaClassifier
from .config import ModelConfig
from .distilbert import DistilBert, DistilBertClassifier
from .experts import Experts
from .gemma import Gemma
from .gpt2 import GPT2
from .llama import Llama
from .mpnet import MPNet, MPNetClassifier
from .parameters import tied_parameters
from .phi import Phi
from .phi3 import Phi3
from .qwen import Qwen
from .tokenizer import Tokenizer

CLASSES: dict[type, dict[str, str]] = {
    Llama: {
        "llama": "LlamaForCausalLM",
        "mistral": "MistralForCausalLM",
        "mixtral": "MixtralForCausalLM",
    },
    Qwen: {
        "qwen3": "Qwen3ForCausalLM",
        "qwen2": "Qwen2ForCausalLM",
        "qwen3_moe": "Qwen3MoeForCausalLM",
    },
    Gemma: {"gemma3_text": "Gemma3ForCausalLM", "gemma2": "Gemma2ForCausalLM"},
    GPT2: {"gpt2": "GPT2LMHeadModel"},
    Phi: {"phi": "PhiForCausalLM"},
    Phi3: {"phi3": "Phi3ForCausalLM"},
    Bert: {"bert": "BertModel"},
    BertClassifier: {"bert": "BertForSequenceClassification"},
    Roberta: {"roberta": "RobertaModel", "xlm-roberta": "XLMRobertaModel"},
    RobertaClassifier: {
        "roberta": "RobertaForSequenceClassification",
        "xlm-roberta": "XLMRobertaForSequenceClassification",
    },
    DistilBert: {"distilbert": "DistilBertModel"},
    DistilBertClassifier: {"distilbert": "DistilBertForSequenceClassification"},
    MPNet: {"mpnet": "MPNetModel"},
    MPNetClassifier: {"mpnet": "MPNetForSequenceClassification"},
}
"""Classes of `transformers` by class and `model_type`, the default one first."""

_OURS = {
    "activation",
    "dense_layers",
    "has_head_norms",
    "num_experts",
    "num_local_experts",
}
"""Names of settings that `transformers` has not, or only where it is given one."""

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
PART_SIZE = 5_000_000_000
"""Bytes of a file of weights at most, unless one tensor is larger."""


def save(
    model: nn.Module,
    folder: str | Path,
    tokenizer: Tokenizer | None = None,
    *,
    part_size: int = PART_SIZE,
) -> None:
    """Write a language model, or an encoder of texts, as `transformers` does.

    Parameters
    ----------
    model : nn.Module
        `Llama`, `Qwen`, `Gemma`, `GPT2`, `Phi`, `Phi3`, `Bert`, `Roberta`,
        `DistilBert`, `MPNet` or a classifier of these, of floats.
    folder : str or Path
        It is made if there is none. `config.json`, weights as safetensors and, where
        ends of texts are known, `generation_config.json` are written.
    tokenizer : Tokenizer or None
        Written beside them; see `Tokenizer.save`.
    part_size : int, default 5e9
        Bytes of a file of weights at most; more are written as parts with their index.

    Raises
    ------
    ArgumentError
        If the model is of another class, has quantized weights or adapters, or fewer
        words than the tokenizer.
    OSError
        If the folder cannot be written.

    Examples
    --------
    >>> fw.models.save(model, "mine", tokenizer)  # doctest: +SKIP
    >>> model = fw.models.load("mine", "gpu")  # doctest: +SKIP
    """
    settings = _settings(model)
    _check(model, settings)
    words = settings.get("vocab_size")
    if tokenizer is not None and words is not None and len(tokenizer) > words:
        raise ArgumentError(
            f"models.save: the tokenizer has {len(tokenizer)} tokens, the model"
            f" {words} words; it must have as many at least"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _write_weights(folder, dict(_tensors(model)), part_size)
    _write_json(folder / "config.json", settings)
    generation = _generation(settings, tokenizer)
    if generation:
        _write_json(folder / "generation_config.json", generation)
    if tokenizer is not None:
        tokenizer.save(folder)


def _settings(model: nn.Module) -> dict[str, Any]:
    """Return what `config.json` says of a model."""
    classes = CLASSES.get(type(model))
    if classes is None:
        raise ArgumentError(
            f"models.save: the model is {type(model).__name__}; accepted:"
            f" {', '.join(kind.__name__ for kind in CLASSES)}"
        )
    family: Any = model
    given: dict[str, Any] = family.settings
    found = {name: value for name, value in given.items() if value is not None}
    for name in ("torch_dtype", "quantization_config", "transformers_version"):
        found.pop(name, None)
    rope = found.get("rope_scaling") or {}
    if rope.get("rope_type") == "factors":
        raise ArgumentError(
            "models.save: the frequencies of the model's positions are divided by"
            " factors of a GGUF file, which config.json has no setting for; use"
            " save_gguf"
        )
    kind = found.setdefault("model_type", next(iter(classes)))
    found |= _defaults(model, found)
    found["architectures"] = [classes[kind]]
    floats = [each for each in model.parameters() if each.is_floating_point()]
    found["dtype"] = floats[0].dtype.name
    return found


def _defaults(model: nn.Module, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that were not given: defaults of `transformers` are others."""
    config: Any = getattr(model, "config", None)
    if config is None:
        return {}
    experts = {"num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob"}
    mixture = any(isinstance(each, Experts) for each in model.modules())
    left_out = _OURS if mixture else _OURS | experts
    found = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in config._asdict().items()
        if name not in left_out and name not in given
    }
    if isinstance(model, Llama | Qwen) and not given.get("rope_parameters"):
        found["rope_theta"] = given.get("rope_theta", 10000.0)
    return found


def _check(model: nn.Module, settings: Mapping[str, Any]) -> None:
    """Refuse a model whose parameters are not those of its configuration."""
    family: Any = type(model)
    like: nn.Module = family(ModelConfig(settings))
    wanted = {name: tuple(x.shape) for name, x in like.state_dict().items()}
    found = {name: tuple(x.shape) for name, x in model.state_dict().items()}
    for name in [*found, *wanted]:
        if found.get(name) != wanted.get(name):
            raise ArgumentError(
                f"models.save: `{name}` is {found.get(name, 'missing')}; the"
                f" configuration has {wanted.get(name, 'no such parameter')}; quantized"
                " weights are for save_gguf, adapters for lora.save, or to be merged"
                " and removed"
            )


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield what is saved, with the names of checkpoints: what is tied once."""
    tied = tied_parameters(model)
    stacked = {
        f"{name}.{parameter}": [f"{name}.{part}" for part in parts]
        for name, module in model.named_modules()
        if isinstance(module, Experts)
        for parameter, parts in module.parts().items()
    }
    for name, tensor in model.state_dict().items():
        if name in stacked:
            yield from zip(stacked[name], tensor.detach(), strict=True)
        elif name not in tied:
            yield name, tensor.detach()


def _write_weights(folder: Path, tensors: dict[str, Tensor], part_size: int) -> None:
    """Write tensors to one file, or to parts with an index; older files are removed."""
    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if parts[-1] and size + tensor.nbytes > part_size:
            parts.append({})
            size = 0
        parts[-1][name] = tensor
        size += tensor.nbytes
    names = [
        f"model-{number:05}-of-{len(parts):05}.safetensors"
        for number in range(1, len(parts) + 1)
    ]
    if len(parts) == 1:
        names = [WEIGHTS]
    for name, part in zip(names, parts, strict=True):
        save_atomically(folder / name, encoded(part, metadata={"format": "pt"}))
    if len(parts) > 1:
        places = {
            name: file for file, part in zip(names, parts, strict=True) for name in part
        }
        total = sum(tensor.nbytes for tensor in tensors.values())
        index = {"metadata": {"total_size": total}, "weight_map": places}
        _write_json(folder / INDEX, index)
        names.append(INDEX)
    older = [folder / WEIGHTS, folder / INDEX, *folder.glob("model-*-of-*.safetensors")]
    for path in older:
        if path.name not in names:
            path.unlink(missing_ok=True)


def _generation(
    settings: Mapping[str, Any], tokenizer: Tokenizer | None
) -> dict[str, Any]:
    """Return the tokens that `generation_config.json` names."""
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    found = {name: settings[name] for name in names if name in settings}
    if tokenizer is not None:
        found |= tokenizer.numbers()
    return found


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    save_atomically(path, (text + "\n").encode())
