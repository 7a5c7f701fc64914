"""`jit`: the decorator, without what traces and replays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from .trace_cache import Jitted

P = ParamSpec("P")
R = TypeVar("R")


@overload
def jit(function: Callable[P, R], /, *, max_traces: int = 8) -> Jitted[P, R]: ...


@overload
def jit(*, max_traces: int = 8) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def jit(function: Any = None, /, *, max_traces: int = 8) -> Any:
    """Return a function that is traced once per call signature and then replayed.

    The whole function, for example a training step with backward pass and optimizer,
    becomes one recording: a call copies its tensors in and submits once, whatever the
    number of operations. Intermediate results share memory by their live ranges.

    Tensors on the device that do not require a gradient are graph inputs; their shapes,
    strides and dtypes, and all other arguments, are the signature of the call. An int
    or float that has differed in two traces becomes an argument of the recording, if it
    enters arithmetic with tensors, indexes them, or is the start of a slice of fixed
    length (`cache[:, pos:pos + 1] = k`). Captured state, modules and tensors, is read
    and changed in place as without `jit`; learning rates, step counts and random draws
    go on as they would.

    Parameters
    ----------
    function : callable
        Returns tensors, or sequences, mappings or data classes of them.
    max_traces : int, default 8
        Signatures whose traces are cached; the least recently used is evicted first.

    Returns
    -------
    Jitted
        Called like the function. Its results are off the tape and share elements with
        nothing: not with an argument or a variable that the function returns, nor is
        one result a view of another. Arrays of the host that it makes are made anew
        for each call; other objects without tensors are the same in each.

    Raises
    ------
    TraceError
        When called, if the function reads a tensor on the host (also to print it or to
        branch on it), changes a tensor that is an argument, seeds a generator or
        returns an iterator or an object that no replay can make. Operations before
        that have been done, as without `jit`.

    Notes
    -----
    A call retraces when its signature is new, or when a guard fails: state that the
    function or its callees, of the user's own or of installed packages, read: closure
    variables, globals, default values, attributes of objects, classes and Python
    modules, elements of containers (up to 100,000) and arrays (up to 64 MiB), the
    environment, context variables, parameters, modules, and an optimizer's options
    other than the learning rate.

    A number that changes between calls is guarded where the function reads its value: a
    comparison by its answer, anything else (a size, `range`, `math.sqrt`, a key) by the
    value, and then each value has a trace, as has each number within a container. A
    slice that starts at such a number is a copy in the trace, and the function is
    traced by values where it changes that in place; only strides tell the two apart.
    A function that uses `type` is traced by values.

    Captured parameters and tensors whose elements were changed outside, by an optimizer
    or `load_state_dict`, do not retrace: the next replay copies the new elements to
    where it reads them.

    Where the function changes one of these itself, or a container or data class that
    it is given, or reads state that cannot be guarded, the trace is not cached: tensors
    on the host and NumPy arrays among the arguments, clocks,
    files, queues, other processes, random numbers of the host, iterators, larger
    containers and arrays, opaque objects of C extensions, functions in C of packages
    other than NumPy. After some attempts there is a warning that names it, and the
    function runs untraced. There is one, too, where most calls are traced. Lists,
    tuples, dictionaries and data classes among the arguments are compared by structure,
    not by identity: a replay does not see that another one is equal.

    Indices out of range are found in a replay as they are without `jit`: the next read
    of any tensor raises an IndexRangeError; see `set_index_checks`.

    Not guarded is state that Python cannot observe: hidden state that an operator of a
    C extension reads, as `numpy.seterr` sets; names of `builtins` that were replaced,
    and what was replaced inside the library or as a method of its tensors; attributes
    of a network's modules that are written past them (`vars(module)["p"] = 1`); what
    other threads, logs, warnings and progress bars read for the function; results of a
    cache beyond 1000; attributes that only C code reads of an object whose other
    attributes are read by name; memory that C structures point to. Guarded objects stay
    alive with the trace, but for referents of weak references. Other Python side
    effects, such as printing, happen when tracing only.

    Threads may share a function; while one traces, the calls of the others wait, so a
    function must not wait for another call of itself.

    While a device is profiled the function runs untraced, and a profile of Python
    leaves out the calls that trace. Gradients left on parameters are written again by
    each call. Every replay gives the bits of the first, which are those of the function
    without `jit`.

    Examples
    --------
    >>> @fw.jit
    ... def double(x):
    ...     return x * 2
    >>> double(fw.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    if function is None:
        return functools.partial(jit, max_traces=max_traces)
    from .trace_cache import Jitted  # programs that trace nothing start without

    return Jitted(function, max_traces)
