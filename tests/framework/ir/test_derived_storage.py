"""Storages that follow from others: under `jit`, in `vmap` and in copies."""

import weakref
from copy import deepcopy

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice
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


def test_what_is_in_memory_is_read_there(gpu: GpuDevice) -> None:
    z = fw.tensor([1 + 2j, 3 - 1j, 5j], device=gpu)
    x = fw.tensor([[1.0, 2.0], [3.0, 4.0]], device=gpu)
    counters = gpu.gpu.counters
    before = counters.dispatches
    views = fw.view_as_real(z), z.real, z.imag, fw.view_as_complex(x)
    found = [each.tolist() for each in views]
    assert counters.dispatches == before
    assert found[0] == [[1, 2], [3, -1], [0, 5]]
    assert found[1:3] == [[1, 3, 0], [2, -1, 5]]
    assert found[3] == [1 + 2j, 3 + 4j]
    (z.real * 2 + z.imag).tolist()
    assert counters.dispatches == before + 1


def test_a_change_leaves_what_is_pending_on_the_memory(gpu: GpuDevice) -> None:
    given = np.arange(1 << 12, dtype=np.float32).reshape(-1, 2)
    z = fw.view_as_complex(fw.tensor(given, device=gpu)) * 1
    fw.eval(z)
    sums = [fw.view_as_real(z).sum(1) + 1, z.imag * 2]
    kept = fw.view_as_real(z).clone()
    z.mul_(2j)  # could be in the memory of what it overwrites
    sums.append(z.real + 0)
    z.real.add_(1)
    numbers = fw.view_as_complex(kept)
    kept.mul_(3)
    fw.eval(*sums, z, kept, numbers)
    first = given[:, 0] + 1j * given[:, 1]
    wanted = [given.sum(1) + 1, given[:, 1] * 2, (2j * first).real]
    for one, two in zip(sums, wanted):
        np.testing.assert_array_equal(one.numpy(), two)
    np.testing.assert_array_equal(z.numpy(), 2j * first + 1)
    np.testing.assert_array_equal(kept.numpy(), 3 * given)
    np.testing.assert_array_equal(numbers.numpy(), 3 * first)


def test_replays_leave_what_a_view_of_their_state_has(gpu: GpuDevice) -> None:
    z = fw.tensor([1 + 2j, 3 - 1j], device=gpu)

    @fw.jit
    def step() -> None:
        z.mul_(2)

    for _ in range(3):
        step()
    pairs, now = fw.view_as_real(z), z.numpy()
    kept = [pairs.clone(), pairs * 1, z.real.clone()]
    for _ in range(2):
        step()
    assert (step.traces, step.replays) == (1, 4)
    assert np.array_equal(kept[0].numpy(), np.stack([now.real, now.imag], -1))
    assert np.array_equal(kept[1].numpy(), kept[0].numpy())
    assert np.array_equal(kept[2].numpy(), now.real)
    assert np.array_equal(pairs.numpy()[..., 0], 4 * now.real)
    assert np.array_equal(z.numpy(), 4 * now)


def test_strides_are_those_of_pytorch(place: Device) -> None:
    for make in (lambda z: z, lambda z: z * 2):
        given = np.arange(6, dtype=np.complex64).reshape(2, 3)
        ours, theirs = make(fw.tensor(given, device=place)), make(torch.tensor(given))
        for part in ("real", "imag"):
            one, two = getattr(ours, part), getattr(theirs, part)
            assert one.stride() == two.stride()
            assert one.storage_offset() == two.storage_offset()
            assert one.is_contiguous() == two.is_contiguous()
            copied = one.contiguous()
            copied.zero_()
            two.contiguous().zero_()
            assert np.array_equal(one.numpy(), two.numpy())
