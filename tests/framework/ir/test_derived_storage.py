"""Storages that follow from others: under `jit`, in `vmap` and in copies."""

import weakref
from copy import deepcopy

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import TraceError


def test_a_part_follows_under_jit(gpu: Device) -> None:
    z = fw.tensor([1 + 2j, 3 - 1j], device=gpu)
    known = z.numpy()
    x = fw.tensor([1.0, 2.0], device=gpu)
    outer = z.real

    @fw.jit
    def changed(x: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        z.real.add_(x)
        z.mul_(1j)
        fw.view_as_real(z)[0].mul_(2)
        return z.imag + x, z.real

    @fw.jit
    def through(x: fw.Tensor) -> fw.Tensor:
        outer.add_(x)
        return outer * 2

    for _ in range(4):
        found = changed(x)
        known = (known + x.numpy()) * 1j
        known[0] *= 2
        assert np.allclose(found[0].numpy(), known.imag + x.numpy())
        assert np.allclose(found[1].numpy(), known.real)
        assert np.allclose(outer.numpy(), known.real)
        assert np.allclose(through(x).numpy(), 2 * (known.real + x.numpy()))
        known += x.numpy()
        assert np.allclose(z.numpy(), known)

    @fw.jit
    def aliased(part: fw.Tensor) -> fw.Tensor:
        z.add_(1)
        return part + 1

    with pytest.raises(TraceError, match="an argument is changed in place"):
        aliased(outer)


def test_a_part_in_vmap_and_in_copies(place: Device) -> None:
    def doubled(x: fw.Tensor) -> fw.Tensor:
        x = x * 1
        x.real.mul_(2)
        return x

    z = fw.tensor([1 + 2j, 3 - 1j], device=place)
    assert fw.vmap(doubled)(z).tolist() == [2 + 2j, 6 - 1j]
    part = z.imag
    copies = deepcopy(part), part.clone()
    part.add_(1)
    assert [each.tolist() for each in copies] == [[2.0, -1.0]] * 2
    assert z.tolist() == [1 + 3j, 3 + 0j]
    held = weakref.ref(z.array), weakref.ref(part.array)
    del z, part, copies
    assert [each() for each in held] == [None, None]
