"""Generated kernels with arguments in memory, and with results over operands."""

import re

import pytest

import vkbackend
from tests.framework.fusion.test_emit import program_of
from vkbackend.framework.fusion.emit import emit
from vkbackend.framework.fusion.movable import (
    arguments_in_memory,
    results_over_operands,
)


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
