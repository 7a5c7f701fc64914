"""Primitives: ops with a hand-written kernel, chosen by a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from ..autograd.engine import grad_mode, no_grad
from ..autotune import autotune
from ..base import modes
from ..base.device import META, GpuDevice
from ..base.dtype import DType
from ..base.errors import ShapeError
from ..base.shape import Layout, TensorSpec
from ..base.symbolic_number import concrete, live
from ..eager.base_tensor import TensorCore
from ..ir.kernel_call import Dispatch, StridedSpec
from ..ir.lazy_graph import CacheKey, Node, Operand
from . import batching
from .call_cache import CachedNode, CallCache, call_key
from .diagnosis import explained_op
from .elementwise import taken_as
from .op import Op, contiguous_copy, need_feature, submit_node

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

P = ParamSpec("P")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., Any])

QUAD_ALIGNMENT = 16
"""Bytes to which hand-written kernels may assume that their inputs are aligned."""


class Primitive(Op[P, R]):
    """Primitive op: it has a hand-written kernel."""

    def __init__(
        self,
        function: Callable[P, R],
        dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
        device_dtypes: Sequence[DType] | Mapping[str, Sequence[DType]] | None,
        outputs: Sequence[str],
        strided: bool,
        typed: str | None,
        reduction: str | None,
        epilogue_dims: int,
    ) -> None:
        super().__init__(function, dtypes, outputs)
        self.typed = typed
        self.reduction = reduction
        self.epilogue_dims = epilogue_dims
        self.device_dtypes = device_dtypes
        self.strided = strided
        self.rules: dict[str, Callable[..., Any]] = {}
        self.call_cache: CallCache[CachedNode] = CallCache()

    def forget(self) -> None:
        """Clear the call cache."""
        self.call_cache.clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply the op, on the fast path if the call is cached."""
        given: tuple[Any, ...] = args
        casts = modes.autocast_blocks and self.policy is not None
        if kwargs or casts or len(args) != len(self.names):
            given = self._given(args, kwargs)
        key, tensors = call_key(given)
        cached = self.call_cache[key]
        if cached is None or cached.generation != cached.device.generation:
            outputs = self._slow_path(given, key)
        else:
            ready = tensors
            if cached.copied:
                ready = list(tensors)
                for at in cached.copied:
                    ready[at] = contiguous_copy(tensors[at].detach())
            outputs = cached.replay(ready)
            if cached.tape_recorder is not None and grad_mode.top.value:
                for each in tensors:
                    if each.needs_grad:
                        recorder, specs = cached.tape_recorder, cached.specs
                        recorder.record(given, tensors, outputs, specs, cached)
                        break
        result: Any = outputs[0] if self.single else outputs
        made: R = result  # no `cast`, which is a call
        return made

    @explained_op
    def _slow_path(
        self, given: tuple[Any, ...], key: CacheKey
    ) -> tuple[TensorCore, ...]:
        """Check a call and apply the op; cache the call under `key`."""
        if live:
            given = concrete(given)
        bound = dict(zip(self.names, given))
        if batching.has_rules:
            answer = batching.batched_call(self, bound)
            if answer is not NotImplemented:
                return answer if isinstance(answer, tuple) else (answer,)
        tensors = self._tensors(bound)
        device = self._check(tensors)
        static = {name: v for name, v in bound.items() if name not in self.tensors}
        specs = {
            name: tensors[name].spec if name in tensors else None
            for name in self.tensors
        }
        answer = self.rules["spec"](**specs, **static)
        wanted = answer if isinstance(answer, tuple) else (answer,)
        if isinstance(device, GpuDevice):
            outputs = self._on_device(device, tensors, static, wanted, key)
        elif device is META:
            kind = next(iter(tensors.values())).results
            outputs = tuple(kind.without_data(s.shape, s.dtype) for s in wanted)
        else:
            first = next(iter(tensors.values()))
            outputs = self._on_host(first, tensors, static, wanted)
        self._record(bound, tensors, outputs)
        return outputs

    def spec(self, rule: Rule) -> Rule:
        """Declare the shape and dtype rule: from specs and arguments to specs."""
        self.rules["spec"] = rule
        return rule

    def kernel(self, rule: Rule) -> Rule:
        """Declare the kernel choice: from `DeviceInfo`, specs and arguments."""
        self.rules["kernel"] = rule
        return rule

    def candidates(self, rule: Rule) -> Rule:
        """Declare candidate kernels, for autotuning.

        The rule takes the arguments of `kernel`. It returns a mapping from names, which
        cached results on disk refer to, to functions that return dispatches as `kernel`
        does, or None, or raise `ShapeError`, where a candidate does not apply; see
        `autotune`.
        """
        self.rules["candidates"] = rule
        return rule

    def reference(self, rule: Rule) -> Rule:
        """Declare the NumPy reference, which also computes the op on the host."""
        self.rules["reference"] = rule
        return rule

    def _on_device(
        self,
        device: GpuDevice,
        tensors: dict[str, Any],
        static: dict[str, Any],
        wanted: tuple[TensorSpec, ...],
        key: CacheKey,
    ) -> tuple[TensorCore, ...]:
        """Record the node of a validated call."""
        generation = device.generation
        self._check_device(tensors, device)
        if self.typed is not None:
            need_feature(self.name, tensors[self.typed].dtype, device, typed=True)
        given = list(tensors.values())
        # Referenced until the node is recorded: copying one may flush another's graph.
        ready = [self._ready(tensor) for tensor in given]
        with device.lock:
            node = Node.of(
                self,
                tuple(Operand(each.array.value, each.layout) for each in ready),
                tuple(Layout.contiguous(spec.shape) for spec in wanted),
                tuple(spec.dtype for spec in wanted),
                (("tensors", tuple(tensors)), *static.items()),
            )
            info = device.gpu.info
            limit = info.target.loop_limit
            if limit and any(layout.numel > limit for _, layout in node.inputs):
                # Raises `ShapeError` now, not at the flush.
                self.dispatches(info, self.input_specs(node), dict(node.params))
            outputs = submit_node(given[0], node)
        if key and any(value.numel for value in node.outputs):
            entry = CachedNode(
                device,
                generation,
                node.signature,
                tuple(k for k, each in enumerate(given) if ready[k] is not each),
                self.tape_recorder(tuple(tensors))
                if wanted[0].dtype.is_differentiable
                else None,
                tuple(each.spec for each in given),
                tuple(each.layout for each in given),
            )
            self.call_cache.add(key, entry)
        return outputs

    def _ready(self, tensor: Any) -> Any:
        """Return the tensor in a layout that the kernel supports, copied if needed."""
        layout, size = tensor.layout, tensor.dtype.itemsize
        fits = self.strided or layout.is_contiguous
        # Shaders that load words cannot start within one.
        start = size if self.typed else max(size, 4)
        if not fits or layout.offset * size % (
            start if self.strided else QUAD_ALIGNMENT
        ):
            with no_grad():
                tensor = contiguous_copy(tensor)
        return tensor

    def _on_host(
        self,
        first: TensorCore,
        tensors: dict[str, Any],
        static: dict[str, Any],
        outputs: tuple[TensorSpec, ...],
    ) -> tuple[TensorCore, ...]:
        arrays = {
            name: taken_as(tensors[name].dtype, tensors[name].host_view())
            if name in tensors
            else None
            for name in self.tensors
        }
        with np.errstate(all="ignore"):
            answers = self.rules["reference"](**arrays, **static)
        if not isinstance(answers, tuple):
            answers = (answers,)
        return tuple(
            type(first).from_host(
                np.asarray(answer).reshape(spec.shape), first.device, spec.dtype
            )
            for answer, spec in zip(answers, outputs)
        )

    def dispatches(
        self,
        gpu: DeviceInfo,
        input_specs: Mapping[str, StridedSpec],
        params: dict[str, object],
    ) -> Sequence[Dispatch]:
        """Return the dispatches of a node."""
        if "candidates" in self.rules and autotune.settings().kept:
            name = autotune.choice(
                gpu, autotune.tuning_key_of(self.name, input_specs, params)
            )
            if name != autotune.DEFAULT:
                candidates = self._apply_rule("candidates", gpu, input_specs, params)
                found = _try_candidate(candidates.get(name))
                if found:
                    return found
        return _as_list(self._apply_rule("kernel", gpu, input_specs, params))

    def tuning_key(self, node: Node) -> str | None:
        """Return the tuning key of a node; None without candidates. See `autotune`."""
        if "candidates" not in self.rules:
            return None
        return autotune.tuning_key_of(
            self.name, self.input_specs(node), dict(node.params)
        )

    def candidate_names(self, gpu: DeviceInfo, node: Node) -> tuple[str, list[str]]:
        """Return the name of the default candidate of a node, and the others."""
        input_specs, params = self.input_specs(node), dict(node.params)
        seen = {"": _as_list(self._apply_rule("kernel", gpu, input_specs, params))}
        own = ""
        for name, candidate in self._apply_rule(
            "candidates", gpu, input_specs, params
        ).items():
            found = _try_candidate(candidate)
            if found and found == seen[""]:
                own = own or name
            elif found and found not in seen.values():
                seen[name] = found
        return own, [name for name in seen if name]

    def _apply_rule(
        self,
        rule: str,
        gpu: DeviceInfo,
        input_specs: Mapping[str, StridedSpec],
        params: Mapping[str, object],
    ) -> Any:
        """Return the result of a rule that chooses kernels."""
        static = {name: value for name, value in params.items() if name != "tensors"}
        inputs = {name: input_specs.get(name) for name in self.tensors}
        return self.rules[rule](gpu, **inputs, **static)


def _as_list(answer: Dispatch | Sequence[Dispatch]) -> list[Dispatch]:
    return [answer] if isinstance(answer, Dispatch) else list(answer)


def _try_candidate(candidate: Callable[[], Any] | None) -> list[Dispatch] | None:
    """Return the dispatches of a candidate, or None where it does not apply."""
    try:
        answer = candidate() if candidate is not None else None
    except ShapeError:
        return None
    return None if answer is None else _as_list(answer)
