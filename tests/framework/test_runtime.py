"""Settings of the runtime."""

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice


def test_settings_are_kept() -> None:
    fw.set_num_threads(2)
    assert fw.get_num_threads() == 2
    with pytest.raises(ValueError, match=r"^set_num_threads: num is 0; it must be"):
        fw.set_num_threads(0)
    fw.use_deterministic_algorithms(True, warn_only=True)
    assert fw.are_deterministic_algorithms_enabled()
    assert fw.get_deterministic_debug_mode() == 1
    fw.set_deterministic_debug_mode("default")
    assert not fw.are_deterministic_algorithms_enabled()
    with pytest.raises(ValueError, match=r"^set_deterministic_debug_mode"):
        fw.set_deterministic_debug_mode("always")
    assert not fw.set_flush_denormal(True)


@pytest.mark.core
def test_compile(gpu: GpuDevice) -> None:
    @fw.compile
    def double(x: fw.Tensor) -> fw.Tensor:
        return x * 2

    @fw.compile(fullgraph=True, mode="max-autotune")
    def triple(x: fw.Tensor) -> fw.Tensor:
        return x * 3

    x = fw.ones(2, device=gpu)
    assert double(x).tolist() == [2.0, 2.0]
    assert triple(x).tolist() == triple(x).tolist() == [3.0, 3.0]
    assert (double.traces, triple.replays) == (1, 1)
    model = nn.Linear(2, 1)
    assert fw.compile(model)._orig_mod is model
    assert fw.compile(max, disable=True) is max


@pytest.mark.device
# A function that breaks off each time says so once.
@pytest.mark.filterwarnings("ignore:jit")
def test_compiled_functions_run_as_programs_expect(gpu: GpuDevice) -> None:
    model, x = nn.Linear(2, 1).to(gpu), fw.ones(3, 2, device=gpu)
    optimizer = fw.optim.SGD(model.parameters(), 0.1)

    @fw.compile
    def loss_of(x: fw.Tensor) -> fw.Tensor:
        return model(x).square().mean()

    @fw.compile
    def activation(x: fw.Tensor) -> fw.Tensor:
        return x.relu() + 1

    @fw.compile
    def step(x: fw.Tensor) -> float:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    @fw.compile
    def branch(x: fw.Tensor, cache: fw.Tensor) -> fw.Tensor:
        y = x * 2
        if y.sum() > 0:
            cache += 1
            y = y + cache
        return y

    @fw.compile
    def write(cache: fw.Tensor, x: fw.Tensor) -> fw.Tensor:
        cache[:, 0] = x[:, 0]
        return cache.sum(0)

    cache = fw.zeros(3, 2, device=gpu)
    for turn in range(1, 6):
        model.zero_grad()
        loss_of(x).backward()
        assert model.weight.grad is not None
        with fw.no_grad():
            before = loss_of(x).item()
        assert step(x) == pytest.approx(before)
        hidden = activation(model(x))
        assert hidden.requires_grad
        assert branch(x, cache).tolist() == [[2.0 + turn] * 2] * 3
        assert cache.tolist() == [[float(turn)] * 2] * 3
        written = fw.zeros(3, 2, device=gpu)
        assert write(written, x).tolist() == [3.0, 0.0]
        assert written.tolist() == [[1.0, 0.0]] * 3
    assert loss_of.replays
    with pytest.raises(RuntimeError, match="is read on the host"):
        fw.compile(lambda x: x.sum().item(), fullgraph=True)(x)


def test_default_tensor_type() -> None:
    before = fw.get_default_dtype()
    try:
        fw.set_default_tensor_type("torch.DoubleTensor")
        assert fw.get_default_dtype() is fw.float64
        fw.set_default_tensor_type(fw.HalfTensor)
        assert fw.zeros(1).dtype is fw.float16
        for wrong in ("torch.LongTensor", "Tensor", 3):
            with pytest.raises(TypeError, match="it must be a floating one"):
                fw.set_default_tensor_type(wrong)
        with pytest.raises(RuntimeError, match=r"cuda|CUDA"):
            fw.set_default_tensor_type("torch.cuda.FloatTensor")
    finally:
        fw.set_default_dtype(before)


def test_states_of_autocast() -> None:
    assert fw.get_autocast_cpu_dtype() is fw.bfloat16
    assert fw.get_autocast_gpu_dtype() is fw.float16
    with fw.autocast("cpu", dtype=fw.float16):
        assert fw.is_autocast_cpu_enabled()
        assert fw.get_autocast_cpu_dtype() is fw.float16
    assert fw.is_autocast_cache_enabled()
    fw.clear_autocast_cache()
    fw.set_warn_always(True)
    assert fw.is_warn_always_enabled()
    fw.set_warn_always(False)
    assert not fw.is_distributed(fw.ones(1))


def test_devices_have_modules() -> None:
    assert fw.get_device_module("cpu") is fw.cpu
    assert fw.get_device_module("vulkan") is fw.accelerator
    assert fw.get_device_module("cuda:0") is fw.cuda
    with pytest.raises(RuntimeError, match="no module of 'tpu'"):
        fw.get_device_module("tpu")


def test_symbolic_numbers_of_plain_ones() -> None:
    for library in (fw, torch):
        assert library.sym_int(2.7) == 2
        assert str(library.sym_float(2)) == "2.0"
        assert str(library.sym_max(2, 1.0)) == "2.0"
        assert str(library.sym_min(2, 3)) == "2"
        assert library.sym_not(False)
        assert not isinstance(3, library.SymInt)
        assert not isinstance(3.0, library.SymFloat)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("_check", RuntimeError),
        ("_check_index", IndexError),
        ("_check_value", ValueError),
        ("_check_type", TypeError),
        ("_check_not_implemented", NotImplementedError),
    ],
)
def test_checks_of_conditions(name: str, error: type[Exception]) -> None:
    ours, theirs = getattr(fw, name), getattr(torch, name)
    for check in (ours, theirs):
        check(True, lambda: pytest.fail("the message is not needed"))
        with pytest.raises(error, match=r"^too small$"):
            check(False, lambda: "too small")
        with pytest.raises(error):
            check(False)
        with pytest.raises(TypeError):
            check(1)


def test_an_element_that_must_not_be_zero() -> None:
    fw._assert_async(fw.tensor(True))
    with pytest.raises(RuntimeError, match=r"^no$"):
        fw._assert_async(fw.tensor(0), "no")
    found = fw._shape_as_tensor(fw.zeros(2, 3))
    assert (found.tolist(), found.dtype) == ([2, 3], fw.int64)
