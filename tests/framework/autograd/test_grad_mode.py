"""Grad modes as blocks, decorators and statements, beside PyTorch's."""

import asyncio
import copy
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.torch_log import Log, assert_logs_agree
from vkbackend.framework.base.errors import GradError


def decorators(log: Log) -> None:
    library = log.library

    def state() -> tuple[bool, bool]:
        return library.is_grad_enabled(), library.is_inference_mode_enabled()

    def states() -> Iterator[tuple[bool, bool]]:
        try:
            log.add((yield state()))
            yield state()
        finally:
            log.add(state())

    blocks = [library.no_grad, library.no_grad(), library.set_grad_enabled(False)]
    blocks += [library.inference_mode, library.inference_mode(False)]
    for block in blocks:
        log.add(block(state)(), block(state)(), state())
        steps = block(states)()
        log.add(next(steps), state(), steps.send("sent"), state())
        steps.close()
        log.add(state(), block(state).__name__)
    with library.no_grad():
        log.add(library.enable_grad(state)())


def blocks(log: Log) -> None:
    library = log.library

    def state() -> tuple[bool, bool]:
        return library.is_grad_enabled(), library.is_inference_mode_enabled()

    with library.inference_mode():
        with library.enable_grad():
            log.add(state())
        with library.inference_mode(False):
            log.add(state())
    with library.no_grad(), library.inference_mode(mode=False):
        log.add(state())
    library.set_grad_enabled(mode=False)
    log.add(state())
    library.set_grad_enabled(True)
    log.add(state())


@pytest.mark.parametrize("program", [decorators, blocks])
def test_modes_are_those_of_torch(program: object) -> None:
    assert_logs_agree(program)  # type: ignore[arg-type]  # a function


def test_coroutines_keep_the_mode_where_they_wait() -> None:
    @fw.no_grad()
    async def waits() -> list[bool]:
        before = fw.is_grad_enabled()
        await asyncio.sleep(0)
        return [before, fw.is_grad_enabled()]

    @fw.no_grad()
    async def items() -> AsyncIterator[bool]:
        for _ in range(2):
            await asyncio.sleep(0)
            yield fw.is_grad_enabled()

    async def run() -> list[Any]:
        outside = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(
            lambda: outside.set_result(fw.is_grad_enabled())
        )
        found = await waits()
        return [*found, await outside, [each async for each in items()]]

    assert asyncio.run(run()) == [False, False, True, [False, False]]


def test_a_class_is_decorated_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="constructor"):

        @fw.no_grad()
        class Kept:
            def __init__(self) -> None:
                self.enabled = fw.is_grad_enabled()

    assert not Kept().enabled


def test_tensors_made_in_inference_mode_stay_off_the_tape() -> None:
    weight = fw.ones(2, requires_grad=True)
    with fw.inference_mode():
        x = fw.ones(2)
        view = weight[1:]
    assert fw.is_inference(x)
    assert not fw.is_inference(view)
    with pytest.raises(GradError, match="inference_mode"):
        x.requires_grad_()
    with pytest.raises(GradError, match="mul: a tensor that was made in inference"):
        weight * x
    assert (weight + x).requires_grad
    with fw.autograd.set_multithreading_enabled(False):
        assert fw.is_grad_enabled()


@pytest.mark.parametrize(
    ("block", "enabled", "text"),
    [
        (fw.no_grad, False, "no_grad()"),
        (fw.enable_grad, True, "enable_grad()"),
        (fw.inference_mode, False, "inference_mode(mode=True)"),
    ],
)
def test_a_block_is_pickled_and_says_what_it_is(
    block: Any, enabled: bool, text: str
) -> None:
    made = block()
    with made:
        copies = [pickle.loads(pickle.dumps(made)), copy.deepcopy(made)]
    for each in copies:
        assert fw.is_grad_enabled()
        assert repr(each) == text
        with fw.set_grad_enabled(not enabled), each:
            assert fw.is_grad_enabled() is enabled


@pytest.mark.parametrize("mode", [False, True])
def test_a_pickled_statement_is_a_block(mode: bool) -> None:
    """Making it again does not set the mode."""
    with fw.enable_grad():
        made = fw.set_grad_enabled(mode)
        content = pickle.dumps(made)
        fw.set_grad_enabled(not mode)
        again = pickle.loads(content)
        assert fw.is_grad_enabled() is not mode
        assert repr(again) == f"set_grad_enabled(mode={mode})"
        with again:
            assert fw.is_grad_enabled() is mode
        assert fw.is_grad_enabled() is not mode
    assert fw.is_grad_enabled()
