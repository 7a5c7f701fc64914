"""Convolution problem: parameters and shapes shared by all convolution kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...base.shape import TensorSpec
from ...ir.kernel_call import divisor
from ...ir.lazy_graph import EXACT_TYPES
from .window import Pair, Window

if TYPE_CHECKING:
    from vkbackend import DeviceInfo


class Convolution(NamedTuple):
    """Convolution parameters independent of the image size.

    Images are (batch, channels, height, width), or the planes of volumes
    (batch, channels, planes, height, width), each an image of its own.

    Attributes
    ----------
    window : Window
    groups : int
    mode : str
        Convolution mode, of `tensor_cores.convolution_mode`.
    """

    window: Window
    groups: int
    mode: str

    def out(self, x: TensorSpec, weight: TensorSpec) -> TensorSpec:
        """Return the spec of the result from those of images and filters."""
        batch, _, *planes, high, wide = x.shape
        size = self.window.output(high, wide)
        return TensorSpec((batch, weight.shape[0], *planes, *size), x.dtype)

    def x(self, out: TensorSpec, weight: TensorSpec, size: Pair) -> TensorSpec:
        """Return the spec of images of a size, from those of result and filters."""
        batch, _, *planes, _, _ = out.shape
        channels = weight.shape[1] * self.groups
        return TensorSpec((batch, channels, *planes, *size), out.dtype)

    def weight(self, out: TensorSpec, x: TensorSpec) -> TensorSpec:
        """Return the spec of the filters, from those of result and images."""
        channels = x.shape[1] // self.groups
        return TensorSpec((out.shape[1], channels, *self.window.kernel), out.dtype)


EXACT_TYPES.add(Convolution)


class ConvCall(NamedTuple):
    """Convolution or gradient on a device: parameters and operand specs.

    Attributes
    ----------
    gpu : DeviceInfo
    how : Convolution
    x, weight, out : TensorSpec
        Images, filters and result. A gradient takes the cotangent of `out` and is by
        `x` or `weight`. Those of planes are of the images that the planes are.
    bias : bool, default False
        Whether a bias is added to the result.
    planes : int, default 1
        Planes of a volume, which lie one after the other within a channel.
    result_planes : int, default 0
        Planes of a volume of which the results are some; 0: all.
    result_step : int, default 1
        Planes from one result to the next.
    """

    gpu: DeviceInfo
    how: Convolution
    x: TensorSpec
    weight: TensorSpec
    out: TensorSpec
    bias: bool = False
    planes: int = 1
    result_planes: int = 0
    result_step: int = 1

    @classmethod
    def of(
        cls,
        gpu: DeviceInfo,
        how: Convolution,
        x: TensorSpec,
        weight: TensorSpec,
        out: TensorSpec,
        bias: bool = False,
    ) -> ConvCall:
        """Return the call of images, or of volumes by their planes."""
        planes = x.shape[2] if len(x.shape) == 5 else 1
        return cls(gpu, how, _flat(x), weight, _flat(out), bias, planes)

    @property
    def window(self) -> Window:
        """Window geometry of the filters."""
        return self.how.window

    @property
    def size(self) -> Pair:
        """Height and width of an image."""
        return self.x.shape[2], self.x.shape[3]

    @property
    def output_size(self) -> Pair:
        """Height and width of the result."""
        return self.out.shape[2], self.out.shape[3]

    def volume_constants(self) -> dict[str, int]:
        """Return those of `conv/volume.glsl` for a kernel that writes results."""
        constants = volume_constants(self.planes)
        if self.result_planes:
            constants["RESULT_PLANES"] = self.result_planes
            constants["RESULT_STEP"] = self.result_step
        return constants

    def constants(self) -> dict[str, int]:
        """Return the specialization constants of windows and of volumes."""
        return {**self.window.constants(), **self.volume_constants()}

    def sizes(self) -> dict[str, int]:
        """Return the size arguments of the NCHW kernels."""
        images = ("batch", "in_channels", "in_height", "in_width")
        results = ("out_channels", "out_height", "out_width")
        return {
            **dict(zip(images, self.x.shape)),
            **dict(zip(results, self.out.shape[1:])),
            "groups": self.how.groups,
        }


def _flat(spec: TensorSpec) -> TensorSpec:
    """Return the spec of the images that a volume's planes are."""
    if len(spec.shape) == 4:
        return spec
    batch, channels, planes, *size = spec.shape
    return TensorSpec((batch * planes, channels, *size), spec.dtype)


def volume_constants(planes: int) -> dict[str, int]:
    """Return the specialization constants of `conv/volume.glsl` for images."""
    return {"PLANES": planes} if planes > 1 else {}


def divisors(size: Pair) -> dict[str, int]:
    """Return the magic divisors by the pixels of a plane and of a line."""
    names = ("plane_magic", "plane_shift", "width_magic", "width_shift")
    return dict(zip(names, (*divisor(size[0] * size[1]), *divisor(size[1]))))
