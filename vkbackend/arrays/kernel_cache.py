"""Pipeline cache that a caller keeps across batches, with hit and miss counts."""

from __future__ import annotations

from collections.abc import Mapping

from vkbackend.device import Device
from vkbackend.shader.interface import Constant
from vkbackend.shader.pipeline import Pipeline


class KernelCache:
    """Cache of kernels by content: shader, macros and constants.

    A device compiles each content once whatever the cache says (`Device.pipeline`);
    its `counters.pipeline_builds` tell what was really built.

    Parameters
    ----------
    device : Device
        Where the kernels run.

    Attributes
    ----------
    compiles : int
        Misses: kernels requested from the device.
    hits : int
        Kernels found in the cache.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.compiles = 0
        self.hits = 0
        self._kernels: dict[object, Pipeline] = {}

    def __len__(self) -> int:
        """Return the number of kernels."""
        return len(self._kernels)

    def kernel(
        self, name: str, defines: Mapping[str, str], constants: Mapping[str, Constant]
    ) -> Pipeline:
        """Return a library kernel; parameters as those of `Device.pipeline`."""
        key = name, tuple(sorted(defines.items())), tuple(sorted(constants.items()))
        found = self._kernels.get(key)
        if found is None:
            found = self.device.pipeline(name, defines=defines, constants=constants)
            self._kernels[key] = found
            self.compiles += 1
        else:
            self.hits += 1
        return found
