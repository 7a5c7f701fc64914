"""Convolution problem: parameters and shapes shared by all convolution kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...base.shape import Shape, TensorSpec
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
    depth : Window or None
        Of volumes whose filters are (out, in, planes, height, width): the windows along
        depth, of (planes, 1). None: filters are of images, and so is each plane.
    """

    window: Window
    groups: int
    mode: str
    depth: Window | None = None

    def out(self, x: TensorSpec, weight: TensorSpec) -> TensorSpec:
        """Return the spec of the result from those of images and filters."""
        batch, _, *planes, high, wide = x.shape
        if self.depth is not None:
            planes = [self.depth.output(planes[0], 1)[0]]
        size = self.window.output(high, wide)
        return TensorSpec((batch, weight.shape[0], *planes, *size), x.dtype)

    def x(self, out: TensorSpec, weight: TensorSpec, size: Shape) -> TensorSpec:
        """Return the spec of images of a size, from those of result and filters.

        The size begins with that along depth, if windows are along it.
        """
        batch, _, *planes, _, _ = out.shape
        if self.depth is not None:
            planes = []
        channels = weight.shape[1] * self.groups
        return TensorSpec((batch, channels, *planes, *size), out.dtype)

    def weight(self, out: TensorSpec, x: TensorSpec) -> TensorSpec:
        """Return the spec of the filters, from those of result and images."""
        channels = x.shape[1] // self.groups
        taps = self.window.kernel
        if self.depth is not None:
            taps = self.depth.kernel[0], *taps  # type: ignore[assignment]  # of three
        return TensorSpec((out.shape[1], channels, *taps), out.dtype)

    def size(self, x: Shape) -> Shape:
        """Return the size of images of a shape: what windows are along."""
        return x[-2:] if self.depth is None else x[-3:]


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
        Planes of a volume of `x`, which lie one after the other within a channel.
    """

    gpu: DeviceInfo
    how: Convolution
    x: TensorSpec
    weight: TensorSpec
    out: TensorSpec
    bias: bool = False
    planes: int = 1

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

    @property
    def volumes(self) -> int:
        """Volumes of which `x` has the planes."""
        return self.x.shape[0] // max(1, self.planes)

    @property
    def result_planes(self) -> int:
        """Planes of a volume of the result."""
        depth = self.how.depth
        return self.planes if depth is None else depth.output(self.planes, 1)[0]

    def constants(self) -> dict[str, int]:
        """Return the specialization constants of windows and of volumes."""
        return {**self.window.constants(), **volume_constants(self.planes)}

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
