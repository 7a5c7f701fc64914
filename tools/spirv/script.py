"""Kernel collection from a running program, fused kernels included."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vkbackend.device import Device
from vkbackend.shader.compiler import load_kernel_source
from vkbackend.shader.float_controls import forbid_contraction
from vkbackend.shader.pipeline import Pipeline

from ..run_script import run_as_main
from .module import Constant
from .target import Target, of_source


def collect(path: str, arguments: Sequence[str] = ()) -> list[Target]:
    """Run a Python program and return every kernel that it asked for.

    Parameters
    ----------
    path : str
        The program, or the name of a module; it runs as `__main__` in this process,
        and what it prints goes to standard error.
    arguments : sequence of str, optional
        Its arguments.

    Returns
    -------
    list of Target
        In the order of first use, each variant once. What an exception or `sys.exit`
        cut short is what it used until then.
    """
    seen: dict[tuple[object, ...], Target] = {}
    original = Device.pipeline

    def pipeline(
        self: Device,
        kernel: str,
        *,
        source: str | None = None,
        defines: Mapping[str, str] | None = None,
        constants: Mapping[str, Constant] | None = None,
        contract: bool = True,
    ) -> Pipeline:
        found = original(
            self,
            kernel,
            source=source,
            defines=defines,
            constants=constants,
            contract=contract,
        )
        variant = (tuple(sorted((row or {}).items())) for row in (defines, constants))
        key = (kernel, source, contract, *variant)
        if key not in seen:
            target = _target(kernel, source, defines or {}, constants or {})
            words = target.words if contract else forbid_contraction(target.words)
            seen[key] = replace(target, words=words)
        return found

    setattr(Device, "pipeline", pipeline)  # noqa: B010
    try:
        with contextlib.suppress(SystemExit):
            run_as_main(path, arguments)
    finally:
        setattr(Device, "pipeline", original)  # noqa: B010
    return list(seen.values())


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
