"""Kernel collection from a running program, fused kernels included."""

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vkbackend.device import Device
from vkbackend.driver.device_info import DeviceInfo
from vkbackend.shader.compiler import load_kernel_source
from vkbackend.shader.float_controls import forbid_contraction
from vkbackend.shader.interface import validate_module
from vkbackend.shader.pipeline import Pipeline

from ..run_script import run_as_main
from .module import Constant
from .target import Target, of_source

_IDLE = "#version 460\nlayout(local_size_x = 1) in;\nvoid main() {}\n"
"""A kernel for the grids of all others, where none is to be run."""


def collect(
    path: str, arguments: Sequence[str] = (), info: DeviceInfo | None = None
) -> list[Target]:
    """Run a Python program and return every kernel that it asked for.

    Parameters
    ----------
    path : str
        The program, or the name of a module; it runs as `__main__` in this process,
        and what it prints goes to standard error.
    arguments : sequence of str, optional
        Its arguments.
    info : DeviceInfo, optional
        Properties of another device. Kernels are chosen for it and none is run, so that
        the program's results are undefined; the program uses a device that there is.

    Returns
    -------
    list of Target
        In the order of first use, each variant once. What an exception or `sys.exit`
        cut short is what it used until then.
    """
    seen: dict[tuple[object, ...], Target] = {}
    original = Device.pipeline
    chosen_for = contextlib.nullcontext() if info is None else _properties(info)
    idle: dict[Device, Pipeline] = {}

    def pipeline(
        self: Device,
        kernel: str,
        *,
        source: str | None = None,
        defines: Mapping[str, str] | None = None,
        constants: Mapping[str, Constant] | None = None,
        contract: bool = True,
    ) -> Pipeline:
        variant = (tuple(sorted((row or {}).items())) for row in (defines, constants))
        key = (kernel, source, contract, *variant)
        if info is None:
            found = original(
                self,
                kernel,
                source=source,
                defines=defines,
                constants=constants,
                contract=contract,
            )
        if key not in seen:
            target = _target(kernel, source, defines or {}, constants or {})
            words = target.words if contract else forbid_contraction(target.words)
            seen[key] = replace(target, words=words)
        if info is not None:
            if self not in idle:
                idle[self] = original(self, "idle", source=_IDLE)
            found = _with_arguments(idle[self], seen[key], info)
        return found

    setattr(Device, "pipeline", pipeline)  # noqa: B010
    try:
        with chosen_for, contextlib.suppress(SystemExit):
            run_as_main(path, arguments)
    finally:
        setattr(Device, "pipeline", original)  # noqa: B010
    return list(seen.values())


@contextlib.contextmanager
def _properties(info: DeviceInfo) -> Iterator[None]:
    """Give every device the properties of another within, as far as kernels go."""
    # Most commands need no framework, which takes a while to import.
    from vkbackend.framework.kernels import tensor_cores

    original = Device.info

    def shown(self: Device) -> DeviceInfo:
        own = self.logical.info
        period = own.timestamp_period
        return replace(info, heaps=own.heaps, timestamp_period=period)

    setattr(Device, "info", property(functools.cache(shown)))  # noqa: B010
    try:
        with tensor_cores.without_tests():
            yield
    finally:
        setattr(Device, "info", original)  # noqa: B010


def _with_arguments(idle: Pipeline, target: Target, info: DeviceInfo) -> Pipeline:
    """Return a pipeline that takes a kernel's arguments and does nothing."""
    module, _, workgroup = validate_module(
        target.name, target.words, target.constants, info
    )
    return Pipeline(idle.handle, target.name, module, workgroup)


def _target(
    kernel: str,
    source: str | None,
    defines: Mapping[str, str],
    constants: Mapping[str, Constant],
) -> Target:
    if source is None:
        text, path = load_kernel_source(kernel)
        found = of_source(f"glsl/{kernel}.comp", text, defines, [path.parent])
    else:
        found = of_source(kernel, source, defines, [])
    settings = {**defines, **constants}
    words = (f"{key}={value}" for key, value in sorted(settings.items()))
    return replace(found, name=" ".join((kernel, *words)), constants=dict(constants))
