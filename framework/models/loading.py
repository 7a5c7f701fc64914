"""Models from checkpoints: the family is told by `model_type`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import nn
from ..base.device import default_device, find_device
from ..base.dtype import DTypeLike, as_dtype
from ..base.errors import FileFormatError
from ..tensor.factories import DeviceLike
from ..tensor.quantized import QuantizedTensor
from ..tensor.tensor import Tensor
from . import (
    bert,
    clip,
    dinov2,
    distilbert,
    gemma,
    gpt2,
    llama,
    mpnet,
    phi,
    phi3,
    qwen,
    resnet,
    vit,
    whisper,
)
from .checkpoint import Checkpoint, open_checkpoint, read_json
from .config import ModelConfig
from .experts import Experts
from .gguf_encoder import with_pooling
from .gguf_file import read_gguf
from .gguf_model import fill_from_gguf
from .gguf_settings import settings_of
from .int4_checkpoint import unpacked
from .parameters import set_module
from .parameters import set_parameter as _set_parameter
from .parameters import tied_parameters as _tied
from .sentence import Dense, SentenceEncoder, module_folder, modules_of, poolings_of

Family = Callable[[ModelConfig], nn.Module]


def _of_task(encoder: Family, classifier: Family) -> Family:
    """Return what makes the encoder, or the classifier where one was saved."""

    def made(config: ModelConfig) -> nn.Module:
        named = config.settings.get("architectures") or [""]
        is_classifier = str(named[0]).endswith(
            ("ForSequenceClassification", "ForImageClassification")
        )
        return classifier(config) if is_classifier else encoder(config)

    return made


FAMILIES: dict[str, Family] = {
    **dict.fromkeys(llama.TYPES, llama.Llama),
    **dict.fromkeys(qwen.TYPES, qwen.Qwen),
    **dict.fromkeys(gemma.TYPES, gemma.Gemma),
    **dict.fromkeys(gpt2.TYPES, gpt2.GPT2),
    **dict.fromkeys(phi.TYPES, phi.Phi),
    **dict.fromkeys(phi3.TYPES, phi3.Phi3),
    **dict.fromkeys(bert.BERT_TYPES, _of_task(bert.Bert, bert.BertClassifier)),
    **dict.fromkeys(bert.ROBERTA_TYPES, _of_task(bert.Roberta, bert.RobertaClassifier)),
    **dict.fromkeys(
        distilbert.TYPES,
        _of_task(distilbert.DistilBert, distilbert.DistilBertClassifier),
    ),
    **dict.fromkeys(mpnet.TYPES, _of_task(mpnet.MPNet, mpnet.MPNetClassifier)),
    **dict.fromkeys(clip.TYPES, clip.CLIP),
    **dict.fromkeys(resnet.TYPES, _of_task(resnet.ResNet, resnet.ResNetClassifier)),
    **dict.fromkeys(whisper.TYPES, whisper.Whisper),
    **dict.fromkeys(vit.TYPES, _of_task(vit.ViT, vit.ViTClassifier)),
    **dict.fromkeys(
        dinov2.PLAIN_TYPES, _of_task(dinov2.Dinov2, dinov2.Dinov2Classifier)
    ),
    **dict.fromkeys(dinov2.REGISTER_TYPES, dinov2.Dinov2Registers),
}
"""Models by `model_type`."""


def load(
    path: str | Path,
    device: DeviceLike = None,
    dtype: DTypeLike | None = None,
) -> nn.Module:
    """Return the model of a folder or GGUF file, ready to run, in evaluation mode.

    Parameters
    ----------
    path : str or Path
        A folder with `config.json` and weights, as `transformers` saves it; or one with
        `modules.json`, as `sentence-transformers` does; or a file ".gguf". Quantized
        weights of such a file, of AWQ and of GPTQ stay so: their layers are
        `nn.QLinear` and `nn.QEmbedding`.
    device : Device, str or None
        Where the parameters go, one after the other; None is the default device.
    dtype : DType, str or None
        Of the parameters; None as they are stored, in a GGUF file as the embedding is,
        or float32 where that is quantized.

    Returns
    -------
    nn.Module
        Of the class in `FAMILIES`; a `SentenceEncoder` for `modules.json`, and for a
        GGUF file of an encoder that says how its states become one vector.

    Raises
    ------
    FileNotFoundError
        If the configuration or weights are missing.
    FileFormatError
        If the configuration is of no known model, a file is damaged, or a parameter is
        missing, of another shape, or not of the model.

    Examples
    --------
    >>> model = fw.models.load("SmolLM2-135M", "gpu")  # doctest: +SKIP
    """
    path = Path(path)
    if path.suffix == ".gguf":
        return _load_gguf(path, device, dtype)
    if (path / "modules.json").exists():
        return _sentence_encoder(path, device, dtype).eval()
    return _transformer(path, device, dtype)


def _transformer(path: Path, device: DeviceLike, dtype: DTypeLike | None) -> nn.Module:
    """Return the model of a folder of transformers."""
    where = path / "config.json"
    if not where.exists():
        raise FileNotFoundError(f"load: {path} has no config.json")
    config = ModelConfig(read_json(where), str(where))
    kind = config.get("model_type", str)
    if kind not in FAMILIES:
        raise FileFormatError(
            f"{where}: `model_type` is {kind!r}; accepted:"
            f" {', '.join(map(repr, FAMILIES))}"
        )
    model = FAMILIES[kind](config)
    fill(model, unpacked(open_checkpoint(path), config), device, dtype)
    return model.eval()


def _load_gguf(path: Path, device: DeviceLike, dtype: DTypeLike | None) -> nn.Module:
    file = read_gguf(path)
    config = settings_of(file)
    model = FAMILIES[config.get("model_type", str)](config)
    place = default_device() if device is None else find_device(device)
    fill_from_gguf(model, file, place, None if dtype is None else as_dtype(dtype))
    return with_pooling(file, model).eval()


def _sentence_encoder(
    root: Path, device: DeviceLike, dtype: DTypeLike | None
) -> SentenceEncoder:
    """Return the encoder of a folder of sentence-transformers."""
    encoder: nn.Module | None = None
    poolings: tuple[str, ...] = ()
    dense: list[Dense] = []
    normalized = False
    longest = 512
    for module in modules_of(root):
        kind = module.get("type", str).rpartition(".")[2]
        path = module_folder(root, module.get("path", str, ""))
        if kind == "Transformer":
            encoder = _transformer(path, device, dtype)
            where = path / "sentence_bert_config.json"
            settings = read_json(where) if where.exists() else {}
            longest = ModelConfig(settings, str(where)).size("max_seq_length", longest)
        elif kind == "Pooling":
            where = path / "config.json"
            poolings = poolings_of(ModelConfig(read_json(where), str(where)))
        elif kind == "Dense":
            where = path / "config.json"
            dense.append(Dense(ModelConfig(read_json(where), str(where))))
            fill(dense[-1], open_checkpoint(path), device, dtype)
        elif kind == "Normalize":
            normalized = True
        else:
            raise FileFormatError(
                f"{module.where}: the type of a module is {kind!r}; accepted:"
                " 'Transformer', 'Pooling', 'Dense', 'Normalize'"
            )
    if encoder is None or not poolings:
        raise FileFormatError(
            f"{root / 'modules.json'}: it must have a Transformer and a Pooling"
        )
    return SentenceEncoder(encoder, poolings, tuple(dense), normalized, longest)


def fill(
    model: nn.Module,
    checkpoint: Checkpoint,
    device: DeviceLike = None,
    dtype: DTypeLike | None = None,
) -> None:
    """Give a model the parameters of a checkpoint; nothing changes if one is wrong.

    Parameters
    ----------
    model : nn.Module
        Names of its parameters are those of the checkpoint; the checkpoint's may lack
        the first part, and those of tied parameters.
    checkpoint : Checkpoint
    device, dtype
        As of `load`.

    Raises
    ------
    FileFormatError
        If a parameter is missing, of another shape, or not of the model.
    """
    checkpoint = _stacked(model, checkpoint)
    wanted = model.state_dict()
    sources = _sources(model, checkpoint)
    for name, source in sources.items():
        if checkpoint.shape(source) != tuple(wanted[name].shape):
            raise FileFormatError(
                f"{checkpoint.path}: `{source}` has shape {checkpoint.shape(source)};"
                f" the model has {tuple(wanted[name].shape)}"
            )
    place = default_device() if device is None else find_device(device)
    found: dict[str, Tensor] = {}
    quantized: dict[str, QuantizedTensor] = {}
    for name, source in sources.items():
        blocks = checkpoint.quantized(source)
        layer = name.removesuffix(".weight")
        if blocks is not None and isinstance(model.get_submodule(layer), nn.Linear):
            kind = blocks.dtype if dtype is None else as_dtype(dtype)
            quantized[layer] = blocks.to(place)._replace(dtype=kind)
            continue
        stored = checkpoint[source]
        found[name] = stored.to(place, dtype if stored.is_floating_point() else None)
    for name, each in model.named_buffers():
        if name not in found and name in wanted:
            found[name] = each.to(place)
    tied = _tied(model)
    for name, other in tied.items():
        found.setdefault(name, found[other])
    model.load_state_dict(found, assign=True, strict=not quantized)
    for layer, blocks in quantized.items():
        linear: Any = model.get_submodule(layer)
        set_module(model, layer, nn.QLinear.from_quantized(blocks, linear.bias))
    for name, other in tied.items():
        _set_parameter(model, name, model.get_parameter(other))


def _stacked(model: nn.Module, checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint in which the weights of experts are stacked."""
    parts = {
        f"{name}.{parameter}": [f"{name}.{part}" for part in stored]
        for name, module in model.named_modules()
        if isinstance(module, Experts)
        for parameter, stored in module.parts().items()
    }
    return checkpoint.stacked(parts) if parts else checkpoint


def _sources(model: nn.Module, checkpoint: Checkpoint) -> dict[str, str]:
    """Return the checkpoint's name of each parameter of a model."""
    ignored = tuple(getattr(model, "ignored", ()))
    foreign = tuple(getattr(model, "foreign", ()))
    stored = [
        name
        for name in checkpoint
        if not (name.endswith(ignored) or name.startswith(foreign))
    ]
    tied = _tied(model)
    names = [name for name in model.state_dict() if name not in tied]
    prefix = f"{model.base}." if hasattr(model, "base") else ""
    if prefix and not any(name.startswith(prefix) for name in stored):
        sources = {name: name.removeprefix(prefix) for name in names}
    else:
        sources = {name: name for name in names}
    aliases: dict[str, str] = getattr(model, "aliases", {})
    if aliases and not any(source in checkpoint for source in sources.values()):
        sources = {name: aliases.get(name, name) for name in names}
    for name in names:
        # Older checkpoints do not count batches.
        if name.endswith("num_batches_tracked") and sources[name] not in checkpoint:
            del sources[name]
    missing = [source for source in sources.values() if source not in checkpoint]
    if missing:
        raise FileFormatError(
            f"{checkpoint.path}: `{missing[0]}` is missing, of {len(missing)} in all;"
            f" the model has {len(sources)} parameters"
        )
    known = {
        *sources.values(),
        *tied,
        *(name.removeprefix(prefix) for name in tied),
        *(aliases[name] for name in tied if name in aliases),
    }
    strange = [name for name in stored if name not in known]
    if strange:
        raise FileFormatError(
            f"{checkpoint.path}: `{strange[0]}` is not of the model"
            f" {type(model).__name__}, as {len(strange)} in all"
        )
    return sources
