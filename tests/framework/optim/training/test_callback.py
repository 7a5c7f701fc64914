"""Callbacks: each moment, in order; functions count as the end of an epoch."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.optim.training.callback import as_callbacks, stateful

MOMENTS = ["fit_begin", "epoch_begin", "step_end", "epoch_end", "fit_end"]


def test_moments_come_in_order() -> None:
    model = nn.Linear(2, 1)
    seen: list[str] = []

    class Notes(optim.Callback):
        pass

    for name in MOMENTS:
        setattr(Notes, f"on_{name}", lambda self, loop, name=name: seen.append(name))
    optim.Trainer(optim.SGD(model.parameters(), 0.1)).fit(
        model,
        [(fw.ones(3, 2), fw.ones(3, 1))],
        1,
        loss=nn.functional.mse_loss,
        callbacks=[Notes(), optim.Callback()],
        progress=False,
    )
    assert seen == MOMENTS


def test_functions_and_what_is_neither() -> None:
    seen: list[Any] = []
    (callback,) = as_callbacks([seen.append])
    callback.on_epoch_end(3)  # type: ignore[arg-type]
    assert seen == [3]
    with pytest.raises(TypeError, match=r"a callback is .*Callback"):
        as_callbacks([optim.Callback])


def test_what_has_a_state_has_a_name() -> None:
    class Kept(optim.Callback):
        def state_dict(self) -> int:
            return 1

    class Called:
        state_dict = load_state_dict = __call__ = lambda *_: None

    given = [Kept(), optim.Callback(), Called(), print, Kept()]
    found = stateful(as_callbacks(given))
    assert list(found.items()) == [
        ("Kept", given[0]),
        ("Called", given[2]),
        ("Kept#1", given[4]),
    ]
