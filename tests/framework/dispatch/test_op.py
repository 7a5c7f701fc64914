"""Every op of the table: results, layouts, dtypes, gradients and refusals.

Every sample is tried in float32, and the first one in every dtype and layout; of these
software devices take two layouts of each dtype. Kernels of element-wise ops load and
broadcast alike: on a device the gate tries most of them in one layout and one shape.
"""

import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.case import Case, Sample
from tests.cases import CASES
from tests.compare import assert_close
from vkbackend.framework.autograd.engine import backward
from vkbackend.framework.base.device import CPU, Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES, STORED, DType
from vkbackend.framework.base.errors import DTypeError, GradError
from vkbackend.framework.debug.gradcheck import gradcheck
from vkbackend.framework.dispatch import call_cache, elementwise, op
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.eager import node_recorder

SEED = 3
LAYOUTS = ("contiguous", "transposed", "stepped", "broadcast", "offset")
# Of each width one, for kernels that read elements apart; float32 has every layout.
STEPPED = ("float16", "int8", "int32", "int64", "bool")
# Element-wise ops compute in these as in others; how they are loaded and stored is the
# same for all ops, the others of which software runs.
TWINS = ("bfloat16", "uint8", "uint16", "int16", "uint64")
# For each number of tensors an element-wise op that the gate tries in every layout and
# sample: one generator reads and broadcasts the operands of all.
EXEMPLARY = ("exp", "add", "where", "adam_step_capturable")
# Results are rounded from float32, so that none is exact in another order.
ROUNDED = ("float16", "bfloat16")
# The function takes complex numbers, of which the op takes parts.
BY_PARTS = ("sum", "prod")
PRIMES = {3, 5, 7, 11, 13, 29, 37, 113, 1031}
NEVER_EMPTY = {
    "median": "there is no median of nothing",
    "batch_norm_train": "needs two values of each channel",
    "batch_norm_tracked": "needs two values of each channel",
    "ends": "its callers answer for no elements",
    "counted_runs": "its callers answer for no elements",
    "softmax_terms": "its callers answer for no elements",
    "split_softmax": "its callers answer for no elements",
    "split_layer_norm": "its callers answer for no elements",
    "product_sums": "its callers answer for no elements",
    "mapped_sum": "its callers answer for no elements",
    "factor_prod": "its callers answer for no elements",
    "cross_entropy_rows_with_grad": "its callers answer for no elements",
    "cross_entropy_with_grad": "its callers answer for no elements",
    "flash_query_grad": "its callers answer for no elements",
    "flash_key_grad": "its callers answer for no elements",
    "extend_cache": "a cache is of a sequence at least",
    "decode_attention": "a cache is of a sequence at least",
    "prefill_attention": "a cache is of a sequence at least",
}
NEVER_ALONE = {
    "batch_norm_train": "needs two values of each channel",
    "batch_norm_tracked": "needs two values of each channel",
    "group_norm": "needs two values of each group",
    "fft_real": "takes pairs of real numbers",
    "grid_taps": "a place has two coordinates",
    "fft_real_convolved": "takes pairs of real numbers",
    "linspace_like": "a line has two ends",
    "empty_result": "is for no elements",
    "rotate": "turns pairs",
    "cross_product": "takes three elements",
    "std": "has an infinite slope where all are the same",
    "lstm_steps": "has four gates",
    "lstm_states": "has four gates",
    "cell_gradients": "takes those of states and of cells",
    "gru_steps": "has three gates",
    "gru_states": "has three gates",
    "dequantize_blocks": "takes blocks",
    "gated_gemv": "takes vectors",
    "gated_quantized_gather_mm": "takes blocks",
    "gated_quantized_gemv": "takes blocks",
    "quantized_gather_mm": "takes blocks",
    "quantized_gemm": "takes blocks",
    "quantized_gemv": "takes blocks",
    "quantized_grouped_gemm": "takes blocks",
    "quantized_grouped_mm": "takes blocks",
    "quantized_product": "takes blocks",
}
# PyTorch computes nothing in these.
NO_TORCH = ("uint16", "uint32", "uint64")


def laid_out(array: np.ndarray, dtype: str, layout: str, device: Device) -> fw.Tensor:
    """Return a tensor that has the elements of an array in some order in memory."""
    if layout == "contiguous" or array.ndim == 0:
        return fw.tensor(array, dtype, device)
    if layout == "transposed":
        return fw.tensor(array.T, dtype, device).T
    if layout == "broadcast":
        return fw.tensor(array[..., :1], dtype, device).expand(array.shape)
    if layout == "stepped":
        wide = np.repeat(array, 3, axis=-1)
        wide[..., 0::3] = wide[..., 2::3] = 1
        return fw.tensor(wide, dtype, device)[..., 1::3]
    longer = np.concatenate([array[:1], array, array[:1]])
    return fw.tensor(longer, dtype, device)[1:-1]


def arguments(
    sample: Sample, dtype: str, layout: str, device: Device
) -> tuple[list[fw.Tensor], list[np.ndarray]]:
    """Return the tensors of a sample and their elements."""
    rng = np.random.default_rng(SEED)
    tensors = [
        laid_out(draw.array(rng, dtype), draw.dtype or dtype, layout, device)
        for draw in sample.draws
    ]
    return tensors, [tensor.numpy() for tensor in tensors]


def accepted(name: str) -> tuple[DType, ...]:
    """Return the dtypes of an op's first argument that is not of a fixed dtype."""
    op, draws = REGISTRY[name], CASES[name].samples[0].draws
    if not isinstance(op.dtypes, dict):
        return tuple(op.dtypes)
    names = [tensor for tensor, draw in zip(op.tensors, draws) if draw.dtype is None]
    return tuple(op.dtypes[names[0]])


def taken_on_device(name: str) -> tuple[DType, ...]:
    """Return the accepted dtypes for which there is a kernel."""
    only, written = REGISTRY[name].device_dtypes, CASES[name].device_dtypes
    if isinstance(only, dict):
        only = next(iter(only.values()))
    if written is not None:
        only = tuple(DTYPES[dtype] for dtype in written)
    taken = tuple(d for d in accepted(name) if only is None or d in only)
    if name in ("complex_of", "eig_factors", "general_eigenvalues"):
        # Whose results would be complex128.
        taken = tuple(d for d in taken if d.name != "float64")
    return tuple(d for d in taken if d.name != "complex128")


def check(case: Case, sample: Sample, dtype: str, layout: str, device: Device) -> None:
    """Compare one call with the row's oracles."""
    tensors, arrays = arguments(sample, dtype, layout, device)
    found = parts(case.call(*tensors, **sample.keywords))
    for expected in answers(case, sample, dtype, arrays):
        for one, other in zip(found, expected, strict=True):
            # The oracles round complex products in different ways.
            rounded = dtype in ROUNDED or DTYPES[dtype].is_complex
            exact = (case.exact and not rounded) or sample.is_empty
            assert_close(one, other, exact=exact, scale=case.scale)


def answers(
    case: Case, sample: Sample, dtype: str, arrays: list[np.ndarray]
) -> Iterator[list[np.ndarray]]:
    """Yield what each oracle says."""
    if case.numpy is not None:
        with np.errstate(all="ignore"):
            yield parts(case.numpy(*arrays, **sample.keywords))
    if case.torch is not None and dtype not in NO_TORCH:
        inputs = [torch.from_numpy(array.copy()) for array in arrays]
        if dtype == "bfloat16":
            inputs = [x.bfloat16() if x.is_floating_point() else x for x in inputs]
        said = parts(case.torch(*inputs, **sample.keywords))
        yield [on_host(answer) for answer in said]


def on_host(answer: torch.Tensor) -> np.ndarray:
    """Return an oracle's answer as NumPy holds it."""
    return (answer.float() if answer.dtype is torch.bfloat16 else answer).numpy()


def parts(answer: Any) -> list[Any]:
    """Return one answer or several as a list."""
    return list(answer) if isinstance(answer, tuple) else [answer]


def repeats(name: str, sample: Sample) -> bool:
    """Return whether only the shapes of an element-wise op differ from its first's."""
    first = CASES[name].samples[0]
    if sample is first or not REGISTRY[name].is_elementwise or name in EXEMPLARY:
        return False
    limits = ({draw[1:] for draw in each.draws} for each in (first, sample))
    return sample.keywords == first.keywords and len({*map(frozenset, limits)}) == 1


def tier(name: str, sample: Sample, dtype: DType, layout: str) -> str:
    """Return the marker of a call on the device, or nothing for what the gate runs."""
    elementwise = REGISTRY[name].is_elementwise
    if dtype.is_complex:
        # `test_complex_numbers.py` has what the gate tries.
        return "wide"
    if dtype.name != "float32":
        steps = layout == "stepped" and dtype.name in STEPPED
        # A software device takes minutes for kernels of them all.
        if (elementwise and dtype.name in TWINS) or not (
            steps or layout == "contiguous"
        ):
            return "gpu"
    strided = layout != "contiguous" and elementwise and name not in EXEMPLARY
    if strided or repeats(name, sample):
        return "wide"
    if sample is not CASES[name].samples[0]:
        return ""
    if dtype.itemsize == 4:
        return "core" if layout in ("contiguous", "stepped") else ""
    everywhere = elementwise and dtype.feature is None and layout == "contiguous"
    return "core" if everywhere else ""


def host_calls() -> Iterator[Any]:
    """Yield (op, sample, dtype, layouts) for the host."""
    for name, case in CASES.items():
        for dtype in accepted(name):
            for number, sample, layouts in tried(case, dtype):
                label = f"{name}-{number}-{dtype.name}"
                yield pytest.param(name, sample, dtype, layouts, id=label)


def device_calls() -> Iterator[Any]:
    """Yield (op, sample, dtype, layouts) for the device, by the tier of a layout."""
    for name, case in CASES.items():
        for dtype in taken_on_device(name):
            for number, sample, layouts in tried(case, dtype):
                tiers: dict[str, list[str]] = {}
                for layout in layouts:
                    marker = tier(name, sample, dtype, layout)
                    tiers.setdefault(marker, []).append(layout)
                for marker, some in tiers.items():
                    marks = [getattr(pytest.mark, marker)] if marker else []
                    label = f"{name}-{number}-{dtype.name}-{'-'.join(some)}"
                    yield pytest.param(name, sample, dtype, some, id=label, marks=marks)


def tried(case: Case, dtype: DType) -> Iterator[tuple[int, Sample, Sequence[str]]]:
    """Yield the number of a sample, the sample, and its layouts."""
    samples = case.samples if dtype.name == "float32" else case.samples[:1]
    for number, sample in enumerate(samples):
        yield number, sample, LAYOUTS[:1] if number else LAYOUTS


def test_every_op_has_a_row() -> None:
    assert set(CASES) == set(REGISTRY)


@pytest.mark.parametrize("name", CASES)
def test_every_row_has_awkward_sizes(name: str) -> None:
    samples = CASES[name].samples
    assert any(sample.is_empty for sample in samples) != (name in NEVER_EMPTY)
    firsts = [sample.draws[0].shape for sample in samples]
    assert any(math.prod(shape) == 1 for shape in firsts) != (name in NEVER_ALONE)
    sizes = {size for sample in samples for d in sample.draws for size in d.shape}
    assert not sizes.isdisjoint(PRIMES)


@pytest.mark.parametrize(("name", "sample", "dtype", "layouts"), list(host_calls()))
def test_on_host(
    name: str, sample: Sample, dtype: DType, layouts: Sequence[str]
) -> None:
    for layout in layouts:
        check(CASES[name], sample, dtype.name, layout, CPU)


@pytest.mark.parametrize(("name", "sample", "dtype", "layouts"), list(device_calls()))
def test_on_device(
    name: str, sample: Sample, dtype: DType, layouts: Sequence[str], gpu: GpuDevice
) -> None:
    for layout in layouts:
        check(CASES[name], sample, dtype.name, layout, gpu)


def differentiable(*, device: bool = False) -> Iterator[Any]:
    """Yield (op, sample) with a gradient; on devices an op's first one is of `core`."""
    for name, case in CASES.items():
        for number, sample in enumerate(case.samples):
            if case.gradient and not sample.is_empty:
                marks = []
                if device and not number:
                    marks = [pytest.mark.core]
                elif device and repeats(name, sample):
                    marks = [pytest.mark.wide]
                yield pytest.param(name, sample, id=f"{name}-{number}", marks=marks)


def leaves(sample: Sample, dtype: str, device: Device) -> list[fw.Tensor]:
    """Return the arguments; those of a float dtype require a gradient."""
    tensors, _ = arguments(sample, dtype, "contiguous", device)
    return [tensor.requires_grad_(tensor.dtype.is_float) for tensor in tensors]


def gradients(
    call: Any, sample: Sample, inputs: list[fw.Tensor], weight: np.ndarray
) -> list[np.ndarray]:
    """Return the gradient of the weighted result for each float argument."""
    out = parts(call(*inputs, **sample.keywords))[0]
    out.backward(fw.tensor(weight.astype(out.dtype.name), device=out.device))
    return [tensor.grad.numpy() for tensor in inputs if tensor.requires_grad]


@pytest.mark.parametrize(("name", "sample"), list(differentiable()))
def test_gradient_is_the_slope(name: str, sample: Sample) -> None:
    case = CASES[name]
    if name == "put" and sample.draws[1].shape != (1,):
        pytest.skip("all that is written to one place gets its gradient, as in PyTorch")
    gradcheck(
        lambda *inputs: case.call(*inputs, **sample.keywords),
        leaves(sample, "float64", CPU),
    )


@pytest.mark.parametrize(("name", "sample"), list(differentiable()))
def test_gradient_is_as_in_torch(name: str, sample: Sample) -> None:
    case = CASES[name]
    if case.torch is None:
        pytest.skip("PyTorch has no such function")
    inputs = leaves(sample, "float64", CPU)
    twins = [torch.from_numpy(tensor.detach().numpy()) for tensor in inputs]
    twins = [twin.requires_grad_(twin.is_floating_point()) for twin in twins]
    out = parts(case.torch(*twins, **sample.keywords))[0]
    weight = np.random.default_rng(SEED).standard_normal(tuple(out.shape))
    out.backward(torch.from_numpy(np.asarray(weight)))
    expected = [twin.grad.numpy() for twin in twins if twin.requires_grad]
    for found, wanted in zip(gradients(case.call, sample, inputs, weight), expected):
        assert_close(found, wanted, scale=case.scale)


@pytest.mark.parametrize(("name", "sample"), list(differentiable(device=True)))
def test_gradient_on_device(name: str, sample: Sample, gpu: GpuDevice) -> None:
    case = CASES[name]
    on_device = leaves(sample, "float32", gpu)
    on_host = [tensor.detach().cpu() for tensor in on_device]
    on_host = [t.double().requires_grad_() if t.dtype.is_float else t for t in on_host]
    out = parts(case.call(*on_host, **sample.keywords))[0]
    weight = np.random.default_rng(SEED).standard_normal(out.shape)
    expected = gradients(case.call, sample, on_host, weight)
    found = gradients(case.call, sample, on_device, weight)
    for one, wanted in zip(found, expected, strict=True):
        # A gradient multiplies a few more numbers than the op itself.
        assert_close(one, wanted.astype(np.float32), scale=4 * case.scale)


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.gradient]
)
def test_gradient_of_gradient(name: str) -> None:
    case, sample = CASES[name], CASES[name].samples[0]
    inputs = leaves(sample, "float64", CPU)
    floats = [k for k, tensor in enumerate(inputs) if tensor.requires_grad]

    def slope(*given: fw.Tensor) -> Any:
        # The float64 evaluation gets tensors that record nothing.
        with fw.enable_grad():
            for k in floats:
                if given[k].is_leaf:
                    given[k].requires_grad_()
            out = parts(case.call(*given, **sample.keywords))[0]
            seed = fw.tensor(np.random.default_rng(SEED).standard_normal(out.shape))
            varied = [given[k] for k in floats]
            grads = backward([out], [seed], create_graph=True, inputs=varied)
            return [grad * given[k] for k, grad in zip(floats, grads)]

    if case.twice:
        gradcheck(slope, inputs)
    else:
        with pytest.raises(GradError, match="has no gradient rule"):
            gradcheck(slope, inputs)


def refusals() -> Iterator[Any]:
    """Yield each call that must fail."""
    for name, case in CASES.items():
        for number, bad in enumerate(case.bad):
            yield pytest.param(*bad, id=f"{name}-{number}")


@pytest.mark.parametrize(("call", "error", "text"), list(refusals()))
def test_bad_input(call: Any, error: type[Exception], text: str) -> None:
    def ones(*shape: int, dtype: str = "float32") -> fw.Tensor:
        return fw.ones(shape, dtype)

    with pytest.raises(error) as raised:
        call(ones)
    assert str(raised.value) == text


@pytest.mark.parametrize("name", CASES)
def test_dtype_that_is_not_accepted(name: str) -> None:
    others = getattr(REGISTRY[name], "for_kinds", {})
    refused = [dtype for dtype in STORED if dtype not in accepted(name)]
    refused = [dtype for dtype in refused if dtype.kind not in others]
    if name in BY_PARTS:
        refused = [dtype for dtype in refused if not dtype.is_complex]
    # Other dtypes are taken as float32; see `tests.mixtures`.
    taken = name == "logsumexp" or getattr(REGISTRY[name], "fractional", False)
    if not refused or taken:
        pytest.skip("it accepts every dtype")
    shape = CASES[name].samples[0].draws
    tensors = [fw.ones(draw.shape, draw.dtype or refused[0]) for draw in shape]
    keywords = CASES[name].samples[0].keywords
    # The function that was called has the first word; see `tests/test_refusals.py`.
    with pytest.raises(DTypeError, match=rf"^\w+.* is {refused[0].name};"):
        CASES[name].call(*tensors, **keywords)


@pytest.mark.core
@pytest.mark.parametrize(
    "name", ["add", "exp", "cumsum", "topk", "softmax", "linear", "interleave"]
)
def test_what_an_op_takes_is_not_dropped_by_another_thread(
    name: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes a tensor in place, and submits that, while the op is asked for."""
    ask: Callable[[fw.Tensor], Any] = {
        "add": lambda x: x + 1,
        "exp": fw.exp,
        "cumsum": lambda x: x.cumsum(0),
        "topk": lambda x: x.topk(2)[0],
        "softmax": lambda x: x.softmax(1),
        "linear": lambda x: fw.nn.functional.linear(x, weight),
        "interleave": lambda x: x.repeat_interleave(2, 0),
    }[name]
    weight = fw.ones((3, 4), device=gpu)
    old = fw.arange(8, dtype=fw.float32, device=gpu).reshape(2, 4) * 0.25
    # At length, and then as known.
    for _ in range(3):
        x = old * 1
        found = while_changed(x, ask, monkeypatch)
        assert found.tolist() in (ask(old).tolist(), ask(old + 1).tolist())


def while_changed(
    x: fw.Tensor, ask: Callable[[fw.Tensor], Any], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Return what is asked for while another thread changes a tensor."""
    threads: list[threading.Thread] = []

    def change() -> None:
        x.add_(1)
        fw.eval()

    def meanwhile(made: Any, *given: Any) -> Any:
        if not threads:
            threads.append(threading.Thread(target=change))
            threads[0].start()
            # It may be, and should be, that it has to wait for this thread.
            threads[0].join(0.02)
        return made(*given)

    with monkeypatch.context() as patched:
        for module, name in (
            (op, "append"),
            (elementwise, "recorded_result"),
            (call_cache, "recorded_results"),
            (call_cache, "recorded_result"),
            (node_recorder, "recorded_result"),
            (node_recorder, "append_all"),
        ):
            made = functools.partial(meanwhile, getattr(module, name))
            patched.setattr(module, name, made)
        found = ask(x)
    assert threads
    threads[0].join()
    return found
