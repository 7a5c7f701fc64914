"""Jacobians, Hessians and their products with vectors, of functions of tensors.

Each function takes inputs as a tensor or a tuple, and answers in the same structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..base.errors import GradError
from ..base.public_names import public_names as _public_names
from ..eager.base_tensor import TensorCore
from .engine import backward as run_backward
from .grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Any
"""A tensor, or a tuple of them."""


def vjp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """Return the outputs of a function, and `v` times its Jacobian.

    Parameters
    ----------
    func : callable
        From tensors to a tensor or a tuple of them.
    inputs : Tensor or tuple of Tensor
        Where the Jacobian is taken.
    v : Tensor or tuple of Tensor, optional
        As the outputs; may be left out for an output of one element.
    create_graph : bool, default False
        Record the results, so that they can be differentiated.
    strict : bool, default False
        Raise where an output does not depend on an input, instead of giving zeros.

    Raises
    ------
    GradError
        If `v` does not go with the outputs; with `strict`, as above, and with
        `create_graph` too if a derivative does not depend on the inputs.

    Examples
    --------
    >>> from vkbackend.framework.autograd.functional import vjp
    >>> _, product = vjp(lambda x: x**2, fw.tensor([1.0, 2.0]), fw.ones(2))
    >>> product.tolist()
    [2.0, 4.0]
    """
    given = _Call("vjp", func, inputs, create_graph, strict)
    vectors = given.vectors(v, given.outputs, "output")
    grads = given.pull(vectors)
    return given.result(), given.as_inputs(grads)


def jvp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """Return the outputs of a function, and its Jacobian times `v`.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As in `vjp`.
    v : Tensor or tuple of Tensor, optional
        As the inputs; may be left out for an input of one element.

    Notes
    -----
    Computed by two passes backward, as in PyTorch's function of this name.

    Examples
    --------
    >>> from vkbackend.framework.autograd.functional import jvp
    >>> _, product = jvp(lambda x: x**2, fw.tensor([1.0, 2.0]), fw.tensor([1.0, 0.0]))
    >>> product.tolist()
    [2.0, 0.0]
    """
    given = _Call("jvp", func, inputs, create_graph, strict)
    vectors = given.vectors(v, given.inputs, "input")
    products = given.push(vectors)
    return given.result(), given.as_outputs(products)


def jacobian(
    func: Callable[..., Tensors],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Tensors:
    """Return the Jacobian of a function.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As in `vjp`.
    vectorize : bool, default False
        Accepted; the passes for all rows are pending together and fuse where they can.
    strategy : {"reverse-mode", "forward-mode"}
        Accepted: rows are computed by passes backward. As in PyTorch, "forward-mode"
        needs `vectorize`, and excludes `strict`.

    Returns
    -------
    Tensor or tuple
        Of shape (*output.shape, *input.shape) for each input of each output.

    Raises
    ------
    ValueError
        If the strategy is another one.
    NotImplementedError
        If "forward-mode" is given without `vectorize` or with `strict`.

    Examples
    --------
    >>> from vkbackend.framework.autograd.functional import jacobian
    >>> jacobian(lambda x: x * x, fw.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    _check_strategy("jacobian", strategy, vectorize, strict)
    given = _Call("jacobian", func, inputs, create_graph, strict)
    found = [given.as_inputs(given.rows(at)) for at in range(len(given.outputs))]
    return given.as_outputs(found)


def _check_strategy(name: str, strategy: str, vectorize: bool, strict: bool) -> None:
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(
            f'{name}: strategy is {strategy!r}; it must be "reverse-mode" or'
            ' "forward-mode"'
        )
    if strategy == "forward-mode" and (not vectorize or strict):
        raise NotImplementedError(
            f'{name}: strategy "forward-mode" needs vectorize=True and strict=False'
        )
    if vectorize and strict:
        raise GradError(f"{name}: vectorize and strict exclude each other")


def hessian(
    func: Callable[..., Tensors],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tensors:
    """Return the Hessian of a function whose result has one element.

    Parameters
    ----------
    func, inputs, create_graph, strict, vectorize
        As in `jacobian`.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}
        As `strategy` in `jacobian`.

    Returns
    -------
    Tensor or tuple of tuple
        Of shape (*first.shape, *second.shape) for each pair of inputs.

    Examples
    --------
    >>> from vkbackend.framework.autograd.functional import hessian
    >>> hessian(lambda x: (x**3).sum(), fw.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    single = isinstance(inputs, TensorCore)

    def slope(*args: Any) -> Tensors:
        given = _Call("hessian", func, args, True, strict)
        grads = given.pull([_seed("hessian", given)])
        return grads[0] if single else tuple(grads)

    _check_strategy("hessian", outer_jacobian_strategy, vectorize, strict)
    return jacobian(slope, inputs, create_graph, strict)


def vhp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """Return a function's result of one element, and `v` times its Hessian.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As in `vjp`.
    v : Tensor or tuple of Tensor, optional
        As the inputs.
    """
    given = _Call("vhp", func, inputs, create_graph, strict)
    vectors = given.vectors(v, given.inputs, "input")
    grads = given.pull([_seed("vhp", given)], create_graph=True)
    return given.result(), given.as_inputs(given.pull(vectors, grads))


def hvp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """Return a function's result of one element, and its Hessian times `v`.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As in `vjp`.
    v : Tensor or tuple of Tensor, optional
        As the inputs.

    Notes
    -----
    A Hessian is symmetric where it is continuous: `vhp` is the same with less work.
    """
    given = _Call("hvp", func, inputs, create_graph, strict)
    vectors = given.vectors(v, given.inputs, "input")
    grads = given.pull([_seed("hvp", given)], create_graph=True)
    products = given.push(vectors, grads, of=given.inputs)
    return given.result(), given.as_inputs(products)


def _seed(name: str, given: _Call) -> Any:
    (output, *others) = given.outputs
    if others or not given.single_output or output.numel() != 1:
        shapes = ", ".join(str(each.shape) for each in given.outputs)
        raise GradError(
            f"{name}: the function returns shape {shapes}; it must return one tensor"
            " of one element"
        )
    return output.detach().new_ones(output.shape)


class _Call:
    """A call of a function, on the tape, with the structure of its arguments."""

    def __init__(
        self,
        name: str,
        func: Callable[..., Tensors],
        inputs: Tensors,
        create_graph: bool,
        strict: bool,
    ) -> None:
        self.name, self.strict, self.create_graph = name, strict, create_graph
        self.single_input, given = _tuple_of(name, "input", inputs)
        with enable_grad():
            self.inputs = tuple(
                [
                    each.view_as(each)
                    if create_graph and each.requires_grad
                    else each.detach().requires_grad_()
                    for each in given
                ]
            )
            answer = func(*self.inputs)
        self.single_output, self.outputs = _tuple_of(name, "output", answer)
        if strict:
            for at, each in enumerate(self.outputs):
                if not each.requires_grad:
                    raise GradError(
                        f"{name}: output {at} does not depend on the inputs; leave"
                        " strict out to get zeros"
                    )

    def vectors(self, v: Tensors, like: tuple[Any, ...], kind: str) -> list[Any]:
        """Return `v` as a list, checked against the tensors that it goes with."""
        if v is None:
            if len(like) != 1 or like[0].numel() != 1:
                raise GradError(
                    f"{self.name}: v is None, which only a single {kind} of one"
                    " element allows; give one tensor for each"
                )
            return [like[0].detach().new_ones(like[0].shape)]
        _, given = _tuple_of(self.name, "v", v)
        shapes = [each.shape for each in given], [each.shape for each in like]
        if shapes[0] != shapes[1]:
            raise GradError(
                f"{self.name}: v has shapes {shapes[0]}; they must be those of the"
                f" {kind}s, {shapes[1]}"
            )
        return [*given]

    def pull(
        self,
        vectors: list[Any],
        of: list[Any] | None = None,
        create_graph: bool | None = None,
    ) -> list[Any]:
        """Return vectors times the Jacobian of the outputs, or of `of`."""
        recorded = self.create_graph if create_graph is None else create_graph
        pairs = [
            pair
            for pair in zip(self.outputs if of is None else of, vectors)
            if pair[0].requires_grad
        ]
        grads = _gradients(pairs, self.inputs, recorded)
        return [self._filled(*pair) for pair in zip(grads, self.inputs)]

    def push(
        self,
        vectors: list[Any],
        outputs: list[Any] | None = None,
        of: tuple[Any, ...] | None = None,
    ) -> list[Any]:
        """Return the Jacobian of the outputs times vectors."""
        results = self.outputs if outputs is None else tuple(outputs)
        duals = [
            each.detach().new_zeros(each.shape).requires_grad_() for each in results
        ]
        pairs = [pair for pair in zip(results, duals) if pair[0].requires_grad]
        grads = _gradients(pairs, self.inputs, True)
        if self.strict and outputs is None:
            for grad, like in zip(grads, self.inputs):
                self._filled(grad, like)
        again = [
            (grad, vector)
            for grad, vector in zip(grads, vectors)
            if grad is not None and grad.requires_grad
        ]
        products = _gradients(again, duals, self.create_graph)
        return [self._filled(*pair) for pair in zip(products, of or results)]

    def _filled(self, grad: Any, like: Any) -> Any:
        if grad is None:
            if self.strict:
                raise GradError(
                    f"{self.name}: a result does not depend on an input of shape"
                    f" {like.shape}; leave strict out to get zeros"
                )
            return like.detach().new_zeros(like.shape)
        if self.strict and self.create_graph and not grad.requires_grad:
            raise GradError(
                f"{self.name}: a derivative, of shape {tuple(grad.shape)}, does not"
                " depend on the inputs, so create_graph records nothing for it; leave"
                " strict out"
            )
        return grad

    def rows(self, at: int) -> list[Any]:
        """Return the Jacobian of one output: a tensor for each input."""
        output = self.outputs[at]
        count = output.numel()
        basis = ops.diag(output.detach().new_ones((count,)))
        basis = basis.reshape((count, *output.shape))
        found: list[list[Any]] = [[] for _ in self.inputs]
        pairs = [output] if output.requires_grad else []
        for row in range(count):
            grads = _gradients(
                [(each, basis[row]) for each in pairs], self.inputs, self.create_graph
            )
            for own, grad, like in zip(found, grads, self.inputs):
                own.append(self._filled(grad, like))
        return [
            ops.stack(own).reshape((*output.shape, *like.shape))
            if own
            else like.detach().new_zeros((*output.shape, *like.shape))
            for own, like in zip(found, self.inputs)
        ]

    def result(self) -> Tensors:
        """Return the outputs of the function."""
        found = self.outputs
        if not self.create_graph:
            found = tuple([each.detach() for each in found])
        return found[0] if self.single_output else found

    def as_inputs(self, values: list[Any]) -> Tensors:
        """Return values in the structure of the inputs."""
        return values[0] if self.single_input else tuple(values)

    def as_outputs(self, values: list[Any]) -> Tensors:
        """Return values in the structure of the outputs."""
        return values[0] if self.single_output else tuple(values)


def _gradients(
    pairs: list[tuple[Any, Any]], inputs: Any, create_graph: bool
) -> list[Any]:
    """Return gradients of outputs with their vectors; None where there is no path."""
    if not pairs:
        return [None for _ in inputs]
    return run_backward(
        [output for output, _ in pairs],
        [vector for _, vector in pairs],
        inputs=inputs,
        retain_graph=True,
        create_graph=create_graph,
    )


def _tuple_of(name: str, kind: str, tensors: Tensors) -> tuple[bool, tuple[Any, ...]]:
    """Return whether there is a single tensor, and a tuple of all."""
    single = isinstance(tensors, TensorCore)
    found = (tensors,) if single else tuple(tensors) if _is_row(tensors) else None
    if found is None or not all(isinstance(each, TensorCore) for each in found):
        raise TypeError(
            f"{name}: {kind} is a {type(tensors).__name__}; it must be a tensor or a"
            " tuple of tensors"
        )
    return single, found


def _is_row(tensors: object) -> bool:
    return isinstance(tensors, tuple)


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
