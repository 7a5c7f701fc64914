"""Which nodes are host steps."""

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.base.trace_hooks import TraceHooks
from vkbackend.framework.ir.host_step import HostStep, compiling, host_steps


class Nothing(HostStep):
    def run(self, data: np.ndarray) -> np.ndarray:
        return data


def test_nodes_without() -> None:
    assert host_steps([]) == []
    assert Nothing().run(np.arange(3)).tolist() == [0, 1, 2]
    assert compiling.top.value is False


def test_who_takes_them() -> None:
    assert not TraceHooks().takes_host_steps()
    assert not fw.jit(lambda x: x)(fw.ones(1)).requires_grad
