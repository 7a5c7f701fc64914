"""Steps under `jit` beside the same steps without it: the same to the last bit."""

# Longer than most: signatures, threads and methods meet in one cache of traces.

import copy
import pickle
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MethodType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.training import OPTIMIZERS, Training, same, tensor
from vkbackend import Device
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError, TraceError
from vkbackend.framework.dispatch import call_cache
from vkbackend.framework.jit.compiled import CompiledTrace
from vkbackend.framework.jit.trace_cache import MAX_TRACE_ATTEMPTS

pytestmark = pytest.mark.core


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_replayed_step_is_the_step(name: str, gpu: GpuDevice) -> None:
    plain, replayed = (Training(gpu, name, jitted) for jitted in (False, True))
    losses = []
    for each in (plain, replayed):
        fw.manual_seed(9)
        schedule = optim.StepLR(each.optimizer, 2, 0.5)
        taken = []
        for _ in range(6):
            taken.append(each.step(*each.batch()).detach())
            schedule.step()
        losses.append([float(loss) for loss in taken])
        assert fw.get_rng_state()[1] == 6
    assert losses[0] == losses[1]
    assert len(set(losses[0])) == 6
    same(plain, replayed)
    assert replayed.step.replays >= 4


@pytest.mark.usefixtures("_no_collector")
def test_a_warm_loop_asks_nothing_of_the_host(gpu: GpuDevice) -> None:
    training = Training(gpu, "AdamW", True)
    batches = [training.batch() for _ in range(7)]
    fw.eval()
    for k, batch in enumerate(batches):
        gpu.gpu.synchronize()
        before = gpu.gpu.counters.snapshot()
        training.step(*batch)
        change = gpu.gpu.counters - before
        if k >= 2:
            assert change.submits == 1
            assert change.device_allocations == change.host_reads == 0
            assert change.pipeline_builds == change.shader_compiles == 0
            assert change.uploads == 0


def test_dropout_differs_between_replays_and_is_that_without_jit(
    gpu: GpuDevice,
) -> None:
    x = fw.ones((40,), device=gpu)

    def drop(x: fw.Tensor) -> fw.Tensor:
        return nn.functional.dropout(x, 0.5) + fw.rand_like(x)

    fw.manual_seed(1)
    expected = [drop(x).numpy() for _ in range(4)]
    fw.manual_seed(1)
    replay = fw.jit(drop)
    found = [replay(x) for _ in range(4)]
    assert replay.replays == 3
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one.numpy(), other)
    assert len({each.tobytes() for each in expected}) == 4


def test_each_call_returns_tensors_of_its_own(gpu: GpuDevice) -> None:
    double = fw.jit(lambda x: {"twice": x * 2, "both": (x + 1, [x - 1]), "name": "x"})
    results = [double(tensor(gpu, [k, k])) for k in range(5)]
    for k, result in enumerate(results):
        assert result["twice"].tolist() == [2 * k] * 2
        assert result["both"][0].tolist() == [k + 1] * 2
        assert result["both"][1][0].tolist() == [k - 1] * 2
        assert result["name"] == "x"


def test_a_result_can_be_the_next_argument(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x: x * 2 + 1)
    x = tensor(gpu, [1.0])
    for _ in range(5):
        x = step(x)
    assert x.tolist() == [63.0]


def test_arguments_and_constants_may_be_returned(gpu: GpuDevice) -> None:
    w = tensor(gpu, [5.0])
    both = fw.jit(lambda x: (x, w, x + w))
    for k in range(3):
        assert [each.tolist() for each in both(tensor(gpu, [k]))] == [[k], [5], [k + 5]]


def test_another_signature_is_traced_again(gpu: GpuDevice) -> None:
    add = fw.jit(lambda x, y, scale=1: x + y * scale)
    x, y = tensor(gpu, np.arange(6).reshape(2, 3)), tensor(gpu, np.ones((2, 3)))
    square = tensor(gpu, np.arange(9).reshape(3, 3))
    kinds: list[tuple[Any, ...]] = [
        (x, y),
        (x, y, 2),
        (x, y, 2.0),
        (x[:1], y[:1]),
        (square, square),
        (square.T, square),
    ]
    for round_ in range(3):
        for args in kinds:
            scale = args[2] if len(args) > 2 else 1
            expected = args[0].numpy() + args[1].numpy() * scale
            np.testing.assert_array_equal(add(*args).numpy(), expected)
        assert add.traces == len(kinds), round_


def test_parts_of_one_tensor_share_a_trace(gpu: GpuDevice) -> None:
    data = tensor(gpu, np.arange(24).reshape(6, 4))
    total = fw.jit(lambda x: x.sum())
    found = [float(total(data[k : k + 2])) for k in range(0, 6, 2)]
    assert found == [28.0, 92.0, 156.0]
    assert total.traces == 1


def test_layouts_without_number_do_not_fill_the_host(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_cache, "MOST_CACHED_CALLS", 4)
    data = tensor(gpu, np.arange(12))
    double = fw.jit(lambda x: x * 2)
    for k in [*range(12), *range(12)]:
        assert double(data[k]).item() == 2 * k
        assert len(double._fast_path) <= 4
    assert (double.traces, double.replays) == (1, 23)


def test_what_changes_in_each_call_is_named(gpu: GpuDevice) -> None:
    state = SimpleNamespace(rate=0.0)
    x = tensor(gpu, [1.0])
    times = fw.jit(lambda x: x * state.rate)
    for k in range(MAX_TRACE_ATTEMPTS):
        state.rate = float(k)
        assert float(times(x)) == k
    state.rate = 9.0
    with pytest.warns(UserWarning, match="`rate` is another one in each call") as said:
        assert float(times(x)) == 9
    assert said[0].filename == __file__
    state.rate = 10.0
    assert float(times(x)) == 10
    assert (times.traces, times.replays) == (MAX_TRACE_ATTEMPTS, 0)


def test_one_tensor_as_two_arguments_has_a_trace_of_its_own(gpu: GpuDevice) -> None:
    x, y = tensor(gpu, [1.0, 2.0]), tensor(gpu, [5.0, 7.0])
    minus = fw.jit(lambda a, b: a - 2 * b)
    nested = fw.jit(lambda a, b: a[0] - 2 * b["x"])
    for one, other in ((x, x), (x, y), (y, y), (y, x), (x, y)):
        expected = (one.numpy() - 2 * other.numpy()).tolist()
        assert minus(one, other).tolist() == expected
        assert nested([one], {"x": other}).tolist() == expected
    assert minus.traces == nested.traces == 2


def test_an_argument_that_the_function_changes_elsewhere(gpu: GpuDevice) -> None:
    total = tensor(gpu, [1.0])

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        total.add_(1)
        return x * 2

    x = tensor(gpu, [3.0])
    for _ in range(2):
        assert float(step(x)) == 6
    for argument in (total, total[:]):
        with pytest.raises(TraceError, match="an argument is changed in place"):
            step(argument)


def test_numbers_count_by_sign_and_nan_does_not_trace_again(gpu: GpuDevice) -> None:
    times = fw.jit(lambda x, factor: x * factor)
    x = tensor(gpu, [1.0])
    for factor in (0.0, -0.0, 0.0):
        assert np.signbit(times(x, factor).numpy()) == np.signbit(factor)
    for _ in range(3):
        assert np.isnan(times(x, float("nan")).numpy())
    assert times.traces == 3


@dataclass
class Output:
    loss: fw.Tensor
    name: str = "a"


def test_records_are_fresh_in_each_call(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x: Output(x * 2))
    results = [step(tensor(gpu, k)) for k in range(4)]
    assert [float(each.loss) for each in results] == [0, 2, 4, 6]
    assert step.replays == 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (each for each in [x * 2]),
        lambda x: {"a": iter([x * 2])},
        lambda x: SimpleNamespace(a=x * 2),
    ],
)
def test_what_no_replay_can_make_is_refused(
    function: Callable[[fw.Tensor], object], gpu: GpuDevice
) -> None:
    with pytest.raises(TraceError, match=r"the result holds a .*; return tensors"):
        fw.jit(function)(tensor(gpu, [1.0]))


def test_operands_may_swap(gpu: GpuDevice) -> None:
    x, y = tensor(gpu, [5.0]), tensor(gpu, [3.0])
    minus = fw.jit(lambda x, y: x - y)
    assert [float(minus(*pair)) for pair in ((x, y), (y, x), (x, y))] == [2, -2, 2]


def test_the_least_recently_used_trace_goes(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x: x + 1, max_traces=2)
    x = [tensor(gpu, np.zeros(size)) for size in (1, 2, 3)]
    for k in (0, 1, 0, 2, 0, 1):
        step(x[k])
    # Size 2 was forgotten when size 3 came, and came again.
    assert (step.traces, step.replays) == (4, 2)


READS: dict[str, Callable[[fw.Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "numpy": lambda x: x.numpy(),
    "print": repr,
    "float": lambda x: float(x.sum()),
    "branch": lambda x: 1 if x.sum() > 0 else 2,
    "tolist": lambda x: x.tolist(),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_inside_is_an_error_and_harms_nothing(name: str, gpu: GpuDevice) -> None:
    total = fw.zeros(3, device=gpu)

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        total.add_(x)
        READS[name](x + 1)
        return x

    for k in range(1, 3):
        with pytest.raises(TraceError, match="is read on the host"):
            step(tensor(gpu, [1, 2, 3]))
        # What came before the read has happened, as without `jit`.
        assert total.tolist() == [k, 2 * k, 3 * k]


def test_an_error_inside_leaves_everything_usable(gpu: GpuDevice) -> None:
    training = Training(gpu, "AdamW", True)
    wrong = tensor(gpu, np.zeros((13, 8))), training.batch()[1]
    good = Training(gpu, "AdamW", False)
    good.batch()
    for _ in range(2):
        with pytest.raises(ShapeError):
            training.step(*wrong)
    for each in (training, good):
        fw.manual_seed(9)
        for _ in range(4):
            each.step(*each.batch())
    same(training, good)


def test_within_another_one_it_is_part_of_it(gpu: GpuDevice) -> None:
    inner = fw.jit(lambda x: x * 2)
    outer = fw.jit(lambda x: inner(x) + inner(x + 1))
    for k in range(3):
        assert float(outer(tensor(gpu, k))) == 4 * k + 2
    assert (outer.traces, inner.traces) == (1, 0)
    assert float(inner(tensor(gpu, 3.0))) == 6


def test_two_threads_trace_at_once(gpu: GpuDevice) -> None:
    barrier = threading.Barrier(2)
    found: dict[int, list[float]] = {}

    def work(number: int) -> None:
        total = fw.zeros((), device=gpu)
        waited = threading.Event()

        @fw.jit
        def step(x: fw.Tensor) -> fw.Tensor:
            if not waited.is_set():
                barrier.wait()
            waited.set()
            y = x * number
            total.add_(y)
            return y + total

        found[number] = []
        for k in range(6):
            found[number].append(float(step(tensor(gpu, k))))
        # The first call sets the event that it asks.
        assert step.replays == 4

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in (1, 2):
        totals = np.cumsum(np.arange(6) * number)
        assert found[number] == (np.arange(6) * number + totals).tolist()


def test_a_result_is_read_while_another_thread_replays(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = fw.jit(lambda x: x * 2)
    x, y = tensor(gpu, [1.0]), tensor(gpu, [7.0])
    double(x)
    read = Device.read
    others = []

    def late(*arguments: Any) -> Any:
        if not others:
            others.append(double(y))
        return read(*arguments)

    monkeypatch.setattr(Device, "read", late)
    assert double(x).tolist() == [2.0]
    assert others[0].tolist() == [14.0]


def test_a_read_beside_a_replay_that_has_just_been_submitted(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = fw.jit(lambda x: x * 2)
    x, y = tensor(gpu, [1.0]), tensor(gpu, [7.0])
    for given in (x, y):
        double(given).tolist()
    result = double(x)
    read, settle = Device.read, CompiledTrace.settle
    submitted, over = threading.Event(), threading.Event()
    others = []
    thread = threading.Thread(target=lambda: others.append(double(y)))

    def stops(self: CompiledTrace) -> None:
        submitted.set()
        over.wait()
        settle(self)

    def beside(*arguments: Any) -> Any:
        if submitted.is_set():
            return read(*arguments)
        monkeypatch.setattr(CompiledTrace, "settle", stops)
        thread.start()
        submitted.wait()
        found = read(*arguments)
        over.set()
        return found

    monkeypatch.setattr(Device, "read", beside)
    assert result.tolist() == [2.0]
    thread.join()
    assert others[0].tolist() == [14.0]


def test_threads_share_a_function(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x: (x * 2 + 1).sum())
    found: dict[int, list[float]] = {}

    def work(number: int) -> None:
        given = [tensor(gpu, [number, k]) for k in range(20)]
        found[number] = [float(step(x)) for x in given]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [2 * (n + k) + 2 for k in range(20)] for n in range(4)}
    assert step.traces == 1


def test_calls_that_are_not_replayed_may_wait_for_each_other(gpu: GpuDevice) -> None:
    met = threading.Barrier(2, timeout=60)
    calls: list[int] = []

    def function(x: fw.Tensor) -> fw.Tensor:
        calls.append(0)
        if len(calls) > MAX_TRACE_ATTEMPTS:
            met.wait()
        return x * 2

    step, x = fw.jit(function), tensor(gpu, [1.0])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "jit: .* it changes what a list holds")
        for _ in range(MAX_TRACE_ATTEMPTS):
            step(x)
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(lambda: step(x).tolist()) for _ in range(2)]
        assert [each.result() for each in results] == [[2], [2]]


def test_each_thread_has_its_own_attributes(gpu: GpuDevice) -> None:
    class Levels(threading.local):
        """Has numbers of its own in each thread."""

        level = 0.0

    levels, options = Levels(), threading.local()
    step = fw.jit(lambda x: x * (levels.level + getattr(options, "a", 1.0)))
    x = tensor(gpu, [1.0])

    def run(level: float) -> list[float]:
        found = [float(step(x))]
        levels.level = options.a = level
        return found + [float(step(x)) for _ in range(3)]

    expected = [[1.0, *[2.0 * level] * 3] for level in (1, 2, 3)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "jit: .* is another one in each call")
        for level in (1, 2, 3):
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(run, level).result() == expected[level - 1]
        assert float(step(x)) == 1


def test_without_a_device_it_is_the_function() -> None:
    calls = []

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        calls.append(1)
        return x + len(calls)

    assert [float(step(fw.zeros(()))) for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]


def test_methods_have_traces_of_their_own(gpu: GpuDevice) -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @fw.jit
        def apply(self, x: fw.Tensor) -> fw.Tensor:
            return x * self.factor

    two, three = Scale(2.0), Scale(3.0)
    x = tensor(gpu, 5.0)
    for _ in range(3):
        assert (float(two.apply(x)), float(three.apply(x))) == (10, 15)
    two.factor = 4.0
    assert float(two.apply(x)) == 20


class Doubling:
    """Has a jitted method, which classes derived from it may call."""

    factor = 2.0

    @fw.jit
    def apply(self, x: fw.Tensor) -> fw.Tensor:
        return x * self.factor


class DoublingMore(Doubling):
    def apply(self, x: fw.Tensor) -> fw.Tensor:  # type: ignore[override]
        return super().apply(x) + 1


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class Slotted:
    """Has no dictionary to keep traces in."""

    __slots__ = ("factor",)

    @fw.jit
    def apply(self, x: fw.Tensor) -> fw.Tensor:
        return x * self.factor


def test_the_method_of_a_base_does_not_take_the_place_of_another(
    gpu: GpuDevice, monkeypatch: Any
) -> None:
    x = fw.full((1,), 5.0, device=gpu)
    more = DoublingMore()
    assert [more.apply(x).tolist() for _ in range(4)] == [[11]] * 4
    assert [n for n in vars(more) if n.isidentifier()] == []
    one = Doubling()
    assert [one.apply(x).tolist() for _ in range(3)] == [[10]] * 3
    monkeypatch.setattr(Doubling, "apply", lambda self, x: x * 7)
    assert one.apply(x).tolist() == [35]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle])
def test_a_copy_has_jitted_methods_of_its_own(
    gpu: GpuDevice, copied: Callable[[Any], Any]
) -> None:
    x, one = fw.full((1,), 5.0, device=gpu), Doubling()
    assert [one.apply(x).tolist() for _ in range(3)] == [[10]] * 3
    other = copied(one)
    other.factor = 3.0
    assert [other.apply(x).tolist() for _ in range(3)] == [[15]] * 3
    assert one.apply(x).tolist() == [10]
    assert (one.apply.traces, other.apply.traces) == (1, 1)


def test_a_copy_of_what_holds_a_jitted_method_is_whole(gpu: GpuDevice) -> None:
    x, one = fw.full((1,), 5.0, device=gpu), SimpleNamespace(factor=2.0)
    one.step = fw.jit(MethodType(lambda self, x: x * self.factor, one))
    assert one.step(x).tolist() == [10]
    other = copy.deepcopy(one)
    other.factor = 3.0
    assert (one.step(x).tolist(), other.step(x).tolist()) == ([10], [15])


def test_methods_of_classes_and_of_objects_with_slots_are_replayed(
    gpu: GpuDevice,
) -> None:
    class Classy:
        factor = 2.0
        apply = classmethod(fw.jit(lambda kind, x: x * kind.factor))

    x, slotted = fw.full((1,), 5.0, device=gpu), Slotted()
    for factor in (2.0, 3.0):
        slotted.factor = Classy.factor = factor
        for _ in range(3):
            assert slotted.apply(x).tolist() == [5 * factor]
            assert Classy.apply(x).tolist() == [5 * factor]
    assert Slotted.apply.traces == 2
    assert Slotted.apply.replays == 4


def test_a_profile_sees_the_dispatches(gpu: GpuDevice) -> None:
    one, other = (Training(gpu, "AdamW", jitted) for jitted in (True, False))
    for each in (one, other):
        fw.manual_seed(9)
        for k in range(6):
            if k == 3:
                with gpu.gpu.profile() as profile:
                    each.step(*each.batch())
                assert len(profile.spans) > 10
            else:
                each.step(*each.batch())
    same(one, other)
    assert one.step.traces == 2


def test_layers_may_have_any_name(gpu: GpuDevice) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("places", "fingerprint", "words", "owners", "check"):
                setattr(self, name, nn.Linear(3, 3))

        def forward(self, x: fw.Tensor) -> fw.Tensor:
            for name, _ in self.named_children():
                x = getattr(self, name)(x)
            return x

    model = Named().to(gpu)
    replayed = fw.jit(lambda x: model(x))
    for k in range(4):
        x = tensor(gpu, np.full((2, 3), k))
        assert replayed(x).tolist() == model(x).tolist()
    assert replayed.replays == 3


def test_another_precision_of_products_is_another_trace(gpu: GpuDevice) -> None:
    x = fw.ones((4, 4), device=gpu)
    product = fw.jit(lambda x: x @ x)
    before = fw.get_float32_matmul_precision()
    for _ in range(3):
        product(x)
    assert (product.traces, product.replays) == (1, 2)
    try:
        fw.set_float32_matmul_precision("high")
        assert (product(x).numpy() == 4.0).all()
        assert product.traces == 2
    finally:
        fw.set_float32_matmul_precision(before)
    product(x)
    assert (product.traces, product.replays) == (2, 3)


def test_repr_counts_traces_and_replays(gpu: GpuDevice) -> None:
    def double(x: fw.Tensor) -> fw.Tensor:
        return x * 2

    function = fw.jit(double)
    for _ in range(3):
        function(fw.ones(2, device=gpu))
    counts = f"{function.traces} traces, {function.replays} replays>"
    assert repr(function) == f"<jit of {double.__qualname__}: {counts}"


def test_an_op_itself(gpu: GpuDevice) -> None:
    step = fw.jit(fw.ops.exp)
    x = fw.zeros(3, device=gpu)
    assert [step(x).tolist() for _ in range(3)] == [[1.0] * 3] * 3
    assert (step.traces, step.replays) == (1, 2)
    assert step.__name__ == "exp"
