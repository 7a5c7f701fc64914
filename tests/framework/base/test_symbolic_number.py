"""Symbolic numbers: what a trace reads of them holds in the replays that it serves."""

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vkbackend.framework.base.symbolic_number import (
    SymbolicNumber,
    SymbolTable,
    is_symbolic,
    live,
)

EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda n, x: (n + 3) - 2 * n + 1 - (-n),
    "product": lambda n, x: n * 4 * x - n * n,
    "quotients": lambda n, x: (n // 3, n % 3, n / 3, 7 - n, 2.0**n),
    "power": lambda n, x: 2 ** (n - 2),
    "bits": lambda n, x: (n << 2 | 1, n & 6, ~n, n ^ 3, 1 << n),
    "branch": lambda n, x: n + 1 if 1 < n <= 4 else -n,
    "truth": lambda n, x: x if n else n,
    "signs": lambda n, x: (abs(n - 3), -x, +x, abs(x)),
    "values": lambda n, x: ([0, 1, 2, 3, 4, 5, 6][n], "ab" * n, f"{n} {x}", {n: x}),
    "functions": lambda n, x: (max(n, 3), math.sqrt(n), round(x, 1), int(x), range(n)),
    "arrays": lambda n, x: (np.arange(3) * n, np.float32(2) + x).__repr__(),
    "zero": lambda n, x: 1 / n if n > 0 else 0,
    "wrong": lambda n, x: _divided(n),
    "copies": lambda n, x: copy.deepcopy((n, x, pickle.loads(pickle.dumps(n)))),
    "complex": lambda n, x: (n + 1j, x * 2j),
    "kinds": lambda n, x: (isinstance(n, int), isinstance(x, float), n == "a", n is x),
}


def _divided(n: int) -> float:
    try:
        return 1 / (n - 2)
    except ZeroDivisionError:
        return 0.0


def _now(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_now(each) for each in value]
    if type(value) is dict:
        return {int(k): _now(each) for k, each in value.items()}
    return value.now() if is_symbolic(value) else value


@pytest.mark.core
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_serves_the_values_that_fit(name: str) -> None:
    compute = EXPRESSIONS[name]
    calls = [(n, x) for n in range(6) for x in (0.5, -1.25)]
    served = 0
    for first in calls:
        table = SymbolTable(first, indexing=True)
        live.add(table)
        made = compute(*table.symbols())
        live.discard(table)
        assert repr(_now(made)) == repr(_now(compute(*first)))
        for call in calls:
            if table.fit(call):
                served += 1
                assert repr(_now(made)) == repr(_now(compute(*call)))
    assert served >= len(calls)


@pytest.mark.core
def test_differences_of_sums_are_plain() -> None:
    table = SymbolTable([5, math.nan], indexing=True)
    live.add(table)
    n, x = table.symbols()
    number: Any = n
    assert type((number + 4) - number) is int
    assert operator.index(number) == 5
    assert table.fixed == {0}
    assert type(number + 1) is int  # its value is guarded
    with pytest.raises(TypeError):
        range(x)  # type: ignore[call-overload]  # a float is no index
    assert not hasattr(number, "ndim")
    assert isinstance(repr(x), str)
    live.discard(table)
    assert table.fit([5, math.nan])
    assert not table.fit([5, 0.0])
    assert isinstance(n, SymbolicNumber)
