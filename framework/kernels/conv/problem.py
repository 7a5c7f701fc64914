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
        size = self.window.output(*x.shape[2:])
        return TensorSpec((x.shape[0], weight.shape[0], *size), x.dtype)

    def x(self, out: TensorSpec, weight: TensorSpec, size: Pair) -> TensorSpec:
        """Return the spec of images of a size, from those of result and filters."""
        channels = weight.shape[1] * self.groups
        return TensorSpec((out.shape[0], channels, *size), out.dtype)

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
        `x` or `weight`.
    bias : bool, default False
        Whether a bias is added to the result.
    """

    gpu: DeviceInfo
    how: Convolution
    x: TensorSpec
    weight: TensorSpec
    out: TensorSpec
    bias: bool = False

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

    def sizes(self) -> dict[str, int]:
        """Return the size arguments of the NCHW kernels."""
        images = ("batch", "in_channels", "in_height", "in_width")
        results = ("out_channels", "out_height", "out_width")
        return {
            **dict(zip(images, self.x.shape)),
            **dict(zip(results, self.out.shape[1:])),
            "groups": self.how.groups,
        }


def divisors(size: Pair) -> dict[str, int]:
    """Return the magic divisors by the pixels of a plane and of a line."""
    names = ("plane_magic", "plane_shift", "width_magic", "width_shift")
    return dict(zip(names, (*divisor(size[0] * size[1]), *divisor(size[1]))))
