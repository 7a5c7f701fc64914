"""Generated kernels with arguments in memory, and with results over operands."""

import re

import pytest

import vkbackend
from tests.framework.codegen.glsl.test_kernel import program_of
from tests.framework.codegen.graphs import apply, memory
from vkbackend.framework.base.dtype import float16, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.glsl.aliasing import (
    arguments_in_memory,
    in_place_pairs,
    results_over_operands,
)
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.codegen.lower import build_kernel


@pytest.mark.device
def test_arguments_are_the_same_by_name(device: vkbackend.Device) -> None:
    source = emit(program_of("chain"))
    pushed = device.pipeline("pushed", source=source, constants={"LOCAL_X": 64})
    source = arguments_in_memory(source)
    stored = device.pipeline("stored", source=source, constants={"LOCAL_X": 64})
    assert not pushed.indirect
    assert stored.indirect
    assert stored.arguments.fields == pushed.arguments.fields


def test_what_is_in_memory_already_stays_so() -> None:
    source = arguments_in_memory(emit(program_of("chain")))
    assert arguments_in_memory(source) == source


def test_operands_and_results_may_share_memory() -> None:
    source = emit(program_of("chain"))
    assert len(re.findall("restrict readonly buffer In_", source)) >= 1
    freed = results_over_operands(source)
    for word in ("restrict", "readonly", "writeonly"):
        assert word not in freed
    words = r"restrict (readonly|writeonly) "
    assert freed == re.sub(words, "", source) != source
    stored = results_over_operands(arguments_in_memory(source))
    assert re.findall("restrict readonly buffer (.*) ", stored) == ["Arguments"]


def test_results_lie_over_spare_operands_of_their_size() -> None:
    plain, half = memory((8,)), memory((8,), float16)
    turned = memory((), float32, Layout((8,), (0,), 3))
    for first, second, fits in (
        (plain, turned, [plain]),
        (plain, half, [plain]),
        (plain, memory((8,), float32, Layout((8,), (1,), 4)), [plain]),
    ):
        node = apply("add", first, second)
        result = node.outputs[0]
        kernel = build_kernel([node], {id(result)})
        values = [first[0], second[0]]
        found = in_place_pairs(kernel, set(map(id, values)))
        assert found == tuple((value[0], result) for value in fits)
        assert in_place_pairs(kernel, {id(second[0])}) == ()
