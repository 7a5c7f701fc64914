"""Parameters of functions, read from their code.

That takes a tenth of the time of a signature, which importing would ask hundreds for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

_STARS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def parameter_stars(function: Callable[..., Any]) -> dict[str, str]:
    """Return the names of a function's parameters, each with "", "*" or "**"."""
    plain = _function_behind(function)
    if plain is None:
        found = inspect.signature(function).parameters
        return {name: _STARS.get(each.kind, "") for name, each in found.items()}
    code = plain.__code__
    names, count = code.co_varnames, code.co_argcount
    stars = dict.fromkeys(names[:count], "")
    keyword_only = names[count : count + code.co_kwonlyargcount]
    count += len(keyword_only)
    if code.co_flags & inspect.CO_VARARGS:
        stars[names[count]] = "*"
        count += 1
    stars |= dict.fromkeys(keyword_only, "")
    if code.co_flags & inspect.CO_VARKEYWORDS:
        stars[names[count]] = "**"
    return stars


def parameter_kinds(function: Callable[..., Any]) -> dict[str, str]:
    """Return the annotation of each of a function's parameters, as text."""
    plain = _function_behind(function)
    if plain is None:
        found = inspect.signature(function).parameters
        return {name: str(each.annotation) for name, each in found.items()}
    kinds = plain.__annotations__
    return {name: str(kinds.get(name)) for name in parameter_stars(plain)}


def _function_behind(function: Callable[..., Any]) -> FunctionType | None:
    """Return the function that has a callable's signature, if its code says it."""
    found = inspect.unwrap(function, stop=lambda each: hasattr(each, "__signature__"))
    plain = isinstance(found, FunctionType) and not hasattr(found, "__signature__")
    return found if plain else None
