"""Configurations of adapters, as the package peft writes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import nn
from ..base.errors import FileFormatError
from ..models.checkpoint import read_json
from ..models.gpt2 import Conv1D
from .fused import fused_of, parameters_of_experts
from .grouped import names_of_experts
from .layers import LoRALayer, Settings

CONFIG = "adapter_config.json"

_REFUSED = (
    "arrow_config corda_config layer_replication lora_bias megatron_config"
    " modules_to_save trainable_token_indices use_bdlora use_dora use_qalora"
).split()
"""Settings of peft that change what adapters compute."""

LONGEST_PATTERN = 256
"""Characters of a regular expression for names."""


class AdapterConfig(NamedTuple):
    """What a file says of adapters.

    Attributes
    ----------
    path : Path
        For messages.
    settings : Settings
        Of layers that no pattern is of.
    ranks, alphas : dict of str to number
        By regular expressions for names, or for their ends after a dot.
    parameters : tuple of str
        Fused parameters of experts that have adapters.
    """

    path: Path
    settings: Settings
    ranks: dict[str, int]
    alphas: dict[str, float]
    parameters: tuple[str, ...]

    def of(self, names: Iterable[str]) -> Settings:
        """Return the settings of a layer that a file has under some names.

        Raises
        ------
        FileFormatError
            If they are not the same of all.
        """
        found = {self._named(name) for name in names}
        if len(found) > 1:
            raise FileFormatError(
                f"{self.path}: rank_pattern and alpha_pattern give the layers"
                f" {', '.join(names)} several ranks or alphas; experts have the same"
            )
        return found.pop()

    def _named(self, name: str) -> Settings:
        rank, alpha = (
            next((kept for key, kept in each.items() if _is_of(key, name)), default)
            for each, default in (
                (self.ranks, self.settings.rank),
                (self.alphas, self.settings.alpha),
            )
        )
        return self.settings._replace(rank=int(rank), alpha=float(alpha))


def _is_of(pattern: str, name: str) -> bool:
    """Return whether a pattern of peft is of a name."""
    return re.match(rf"(.*\.)?({pattern})$", name) is not None


def read_config(path: Path) -> AdapterConfig:
    """Return what a file says of adapters.

    Raises
    ------
    FileNotFoundError
        If there is none.
    FileFormatError
        If adapters are of another kind, or a setting is not supported.
    """
    if not path.is_file():
        raise FileNotFoundError(f"lora.load: there is no file {path}")
    config = read_json(path)
    kind = config.get("peft_type")
    if kind != "LORA":
        raise FileFormatError(f"{path}: peft_type is {kind!r}; it must be 'LORA'")
    strange = [name for name in _REFUSED if config.get(name)]
    if config.get("bias", "none") != "none":
        strange.append("bias")
    if strange:
        raise FileFormatError(
            f"{path}: {strange[0]} is {config[strange[0]]!r}, which is not supported"
        )
    rank: Any = config.get("r")
    alpha: Any = config.get("lora_alpha")
    dropout = config.get("lora_dropout", 0.0)
    _check_rank(path, "r", rank)
    for name, value in (("lora_alpha", alpha), ("lora_dropout", dropout)):
        _check_number(path, name, value)
    if not 0 <= dropout < 1:
        raise FileFormatError(
            f"{path}: lora_dropout is {dropout}; it must be at least 0 and below 1"
        )
    ranks, alphas = (
        _patterns(path, config, f"{of}_pattern") for of in ("rank", "alpha")
    )
    for key, value in ranks.items():
        _check_rank(path, f"rank_pattern[{key!r}]", value)
    for key, value in alphas.items():
        _check_number(path, f"alpha_pattern[{key!r}]", value)
    parameters = config.get("target_parameters") or []
    if not isinstance(parameters, list) or not all(
        isinstance(each, str) for each in parameters
    ):
        raise FileFormatError(
            f"{path}: target_parameters is {parameters!r}; it must be a list of names"
        )
    settings = Settings(
        rank, float(alpha), float(dropout), bool(config.get("use_rslora"))
    )
    return AdapterConfig(path, settings, ranks, alphas, tuple(parameters))


def _check_rank(path: Path, name: str, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise FileFormatError(
            f"{path}: {name} is {value!r}; it must be a positive integer"
        )


def _check_number(path: Path, name: str, value: Any) -> None:
    if type(value) not in (int, float):
        raise FileFormatError(f"{path}: {name} is {value!r}; it must be a number")


def _patterns(path: Path, config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return values by regular expressions, which are checked."""
    found = config.get(name) or {}
    if not isinstance(found, dict):
        raise FileFormatError(f"{path}: {name} is {found!r}; it must be an object")
    for pattern in found:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise FileFormatError(
                f"{path}: {name} has {pattern!r}, which is no regular expression:"
                f" {error}"
            ) from error
        # What repeats a group may take for ever to find that it does not fit.
        if len(pattern) > LONGEST_PATTERN or re.search(r"\)[*+{]", pattern):
            raise FileFormatError(
                f"{path}: {name} has {pattern[:40]!r}; it must be a name, or a pattern"
                f" of at most {LONGEST_PATTERN} characters that repeats no group"
            )
    return found


def written_config(
    model: nn.Module, found: dict[str, LoRALayer], base_model: str | Path | None
) -> dict[str, Any]:
    """Return the configuration of a model's adapters."""
    every = [layer.settings for layer in found.values()]
    common = Counter(every).most_common(1)[0][0]
    rank, alpha, dropout, rslora = common
    first = next(iter(found.values()))
    fused = fused_of(model)
    inner = {name for names in fused.values() for name in names}
    plain = {name: layer for name, layer in found.items() if name not in inner}
    by_name = _by_name(model, found)
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM" if hasattr(model, "lm_head") else None,
        "base_model_name_or_path": None if base_model is None else str(base_model),
        "r": rank,
        "lora_alpha": _plain(alpha),
        "lora_dropout": dropout,
        "use_rslora": rslora,
        "rank_pattern": {
            re.escape(name): each.rank
            for name, each in by_name.items()
            if each.rank != rank
        },
        "alpha_pattern": {
            re.escape(name): _plain(each.alpha)
            for name, each in by_name.items()
            if each.alpha != alpha
        },
        "target_modules": _ends(_names(model, plain), _others(model, plain)),
        "target_parameters": _parameters(model, fused) or None,
        "bias": "none",
        "fan_in_fan_out": isinstance(first.base_layer, Conv1D),
        "inference_mode": True,
        "init_lora_weights": True,
        **{name: None for name in ("auto_mapping", "modules_to_save", "revision")},
    }


def _parameters(model: nn.Module, fused: Collection[str]) -> list[str]:
    """Return the ends of fused parameters if all of one end are, or the names."""
    left = {_end(name) for name in parameters_of_experts(model) if name not in fused}
    return sorted({name if _end(name) in left else _end(name) for name in fused})


def _end(name: str) -> str:
    return ".".join(name.split(".")[-3:])


def _plain(alpha: float) -> int | float:
    return int(alpha) if alpha.is_integer() else alpha


def _by_name(model: nn.Module, found: dict[str, LoRALayer]) -> dict[str, Settings]:
    """Return the settings of layers by their names in files."""
    return {
        each: found[name].settings
        for name in found
        for each in names_in_files(model, name, getattr(found[name], "is_fused", False))
    }


def names_in_files(model: nn.Module, layer: str, is_fused: bool) -> list[str]:
    """Return what patterns of a configuration call a layer."""
    if is_fused:
        known = parameters_of_experts(model)
        return [name for name, layers in known.items() if layer in layers]
    return names_of_experts(model).get(layer, [layer])


def _names(model: nn.Module, found: Mapping[str, LoRALayer]) -> list[str]:
    experts = names_of_experts(model)
    return [each for name in found for each in experts.get(name, [name])]


def _others(model: nn.Module, found: Mapping[str, LoRALayer]) -> set[str]:
    """Return the last parts of the names of modules that have no adapter."""
    inner = tuple(f"{name}." for name in found)
    return {
        name.rpartition(".")[2]
        for name, _ in model.named_modules()
        if name not in found and not name.startswith(inner)
    }


def _ends(names: list[str], others: set[str]) -> list[str]:
    """Return the last parts of names if nothing else has them, or the names."""
    ends = {name.rpartition(".")[2] for name in names}
    return sorted(names if ends & others else ends)
