"""Cases of `tests.large_sizes`: products, convolutions, layers, losses, optimizers."""

import math
from typing import Any

import numpy as np

import vkbackend.framework as fw
from tests.large_case import PERIOD, Places, Work, case, mod
from vkbackend.framework.nn import functional

FLOATS = ("float32", "bfloat16")
ROUGH = 2e-2


@case(*FLOATS, "float16", tensors=2)
def _product_with_large_result(work: Work) -> None:
    columns = 1 << 14
    rows = work.rows(columns)
    a = work.pattern(rows, 16) * 0 + 1
    a[:, 0] = (fw.arange(rows, dtype="int32", device=work.device) % PERIOD).to(
        work.dtype
    )
    b = work.full(1, 16, columns)
    b[1] = (fw.arange(columns, dtype="int32", device=work.device) % 127).to(work.dtype)

    def wanted(at: Places) -> Any:
        return mod(at // columns) + 14 + at % columns % 127

    work.check("product", a @ b, wanted, ROUGH / 2)


@case(*FLOATS, "float16", tensors=2.1, each=((1 << 14,), (16,)))
def _product_with_large_operand(work: Work, columns: int) -> None:
    rows = work.rows(columns)
    x = work.pattern(rows, columns)
    wide = min(32, columns)
    pick = fw.zeros(columns, wide, dtype=work.dtype, device=work.device)
    pick[3, :] = 1
    work.check(
        f"({rows}, {columns}) @ ({columns}, {wide})",
        x @ pick,
        lambda at: mod(at // wide * columns + 3),
    )


@case(*FLOATS, "float16", tensors=1.1)
def _product_of_vector(work: Work) -> None:
    columns = 1 << 15
    rows = work.rows(columns)
    x = work.pattern(rows, columns)
    pick = fw.zeros(1, columns, dtype=work.dtype, device=work.device)
    pick[0, columns - 1] = 1

    def wanted(at: Places) -> Any:
        return mod(at * columns + columns - 1)

    work.check("x @ v", x @ pick.reshape(-1), wanted)
    work.check("v @ x.T", pick @ x.T, wanted)
    pick = fw.zeros(1, rows, dtype=work.dtype, device=work.device)
    pick[0, rows - 1] = 1
    work.check("v @ x", pick @ x, lambda at: mod((rows - 1) * columns + at))


@case(*FLOATS, tensors=2.6, each=((16,), (128,)))
def _products_in_batches(work: Work, size: int) -> None:
    batch = work.rows(size * size)
    x = work.pattern(batch, size, size)
    turn = fw.flip(fw.eye(size, dtype=work.dtype, device=work.device), (0,))

    def wanted(at: Places) -> Any:
        return mod(at // size * size + size - 1 - at % size)

    work.check(f"{batch} of {size}", x @ turn.expand(batch, size, size), wanted)
    work.check(
        f"turned {batch} of {size}",
        fw.matmul(turn, x),
        lambda at: mod(
            at // (size * size) * size * size
            + (size - 1 - at // size % size) * size
            + at % size
        ),
    )


@case(*FLOATS, "float16", tensors=2.2, each=((8, 3), (32, 1), (64, 3)))
def _convolution(work: Work, channels: int, kernel: int) -> None:
    side = 256
    images = work.rows(channels * side * side)
    x = work.pattern(images, channels, side, side)
    weight = fw.zeros(
        channels, channels, kernel, kernel, dtype=work.dtype, device=work.device
    )
    for out in range(channels):
        weight[out, (out + 1) % channels, kernel // 2, kernel // 2] = 1
    plane = side * side

    def wanted(at: Places) -> Any:
        return mod(
            at // (channels * plane) * channels * plane
            + (at // plane + 1) % channels * plane
            + at % plane
        )

    work.check(
        f"{channels} channels, filter {kernel}",
        functional.conv2d(x, weight, padding=kernel // 2),
        wanted,
        1e-4,
    )


@case(*FLOATS, tensors=4.5)
def _convolution_gradients(work: Work) -> None:
    side, channels = 256, 16
    images = work.rows(channels * side * side)
    x = work.pattern(images, channels, side, side).requires_grad_()
    weight = fw.zeros(channels, channels, 3, 3, dtype=work.dtype, device=work.device)
    for out in range(channels):
        weight[out, out, 1, 1] = 1
    weight.requires_grad_()
    result = functional.conv2d(x, weight, padding=1)
    seed = work.full(1 / 1024, *result.shape)
    of_x, of_weight = fw.autograd.grad([result], [x, weight], [seed])
    work.check("of x", of_x, lambda at: 0 * at + 1 / 1024, 1e-4)
    plane = side * side
    sums = np.zeros(channels)
    for channel in range(channels):
        starts = (np.arange(images, dtype=np.int64) * channels + channel) * plane
        whole = starts % PERIOD
        values = np.arange(PERIOD + plane % PERIOD)
        full = plane // PERIOD * (PERIOD * (PERIOD - 1) // 2)
        rest = ((whole[:, None] + values[None, : plane % PERIOD]) % PERIOD).sum(1)
        sums[channel] = (full + rest).sum() / 1024
    middle = of_weight[:, :, 1, 1].to("float32").numpy()
    work.same("of weight", middle[0], sums, ROUGH)


@case(*FLOATS, tensors=2.2)
def _depthwise(work: Work) -> None:
    side, channels = 256, 64
    images = work.rows(channels * side * side)
    x = work.pattern(images, channels, side, side)
    weight = fw.zeros(channels, 1, 3, 3, dtype=work.dtype, device=work.device)
    weight[:, 0, 1, 1] = 1
    work.check(
        "depthwise", functional.conv2d(x, weight, padding=1, groups=channels), mod
    )


@case(*FLOATS, tensors=2.2)
def _long_convolution(work: Work) -> None:
    length = 1 << 20
    images = work.rows(4 * length)
    x = work.pattern(images, 4, length)
    weight = fw.zeros(4, 4, 5, dtype=work.dtype, device=work.device)
    for out in range(4):
        weight[out, out, 2] = 1
    work.check("conv1d", functional.conv1d(x, weight, padding=2), mod)


@case(*FLOATS, tensors=2.5, others=3, widest=4)
def _pooling(work: Work) -> None:
    side, channels = 128, 64
    planes = work.rows(side * side * channels)
    x = work.pattern(planes, channels, side, side)
    half = side // 2

    def corners(at: Places) -> list[Any]:
        first = at // (half * half) * side * side + at // half % half * 2 * side
        first = first + at % half * 2
        return [mod(first + step) for step in (0, 1, side, side + 1)]

    work.check(
        "max_pool2d", functional.max_pool2d(x, 2), lambda at: np.max(corners(at), 0)
    )
    work.check(
        "avg_pool2d",
        functional.avg_pool2d(x, 2),
        lambda at: np.mean(corners(at), 0),
        ROUGH,
    )
    work.check(
        "nearest",
        functional.interpolate(functional.max_pool2d(x, 2), scale_factor=2),
        lambda at: np.max(
            corners(
                at // (side * side) * half * half
                + at // side % side // 2 * half
                + at % side // 2
            ),
            0,
        ),
    )
    one = work.full(3, planes, channels, half, half)
    bilinear = functional.interpolate(one, scale_factor=2, mode="bilinear")
    work.check("bilinear", bilinear, lambda at: 0 * at + 3, ROUGH)
    work.check(
        "adaptive", functional.adaptive_avg_pool2d(one, 1), lambda at: 0 * at + 3, ROUGH
    )


@case(*FLOATS, tensors=2.2, each=((64,), (1000,), (50257,), (1 << 20,)), widest=4)
def _softmax(work: Work, columns: int) -> None:
    rows = work.rows(columns)
    x = work.full(2, rows, columns)
    x[:, 1] = 2 + math.log(columns)

    def share(at: Places) -> Any:
        return np.where(at % columns == 1, columns, 1) / (2 * columns - 1)

    work.check(
        f"softmax of {columns}",
        functional.softmax(x, -1),
        share,
        2 * ROUGH if work.itemsize == 2 else 1e-4,
    )


def sign(at: Places) -> Any:
    """Return -1 at even places and 1 at odd ones."""
    return np.where(at % 2, 1.0, -1.0)


@case(*FLOATS, tensors=2.5, each=((512,), (4096,)), widest=4)
def _norms_of_rows(work: Work, columns: int) -> None:
    rows = work.rows(columns)
    x = work.full(1, rows, columns)
    x[:, ::2] = -1
    work.check("layer_norm", functional.layer_norm(x, (columns,)), sign, 1e-2)
    work.check("rms_norm", functional.rms_norm(x, (columns,)), sign, 1e-2)


@case(*FLOATS, tensors=2.5, widest=4)
def _norms_of_channels(work: Work) -> None:
    images = work.rows(64 * 4096)
    x = work.full(1, images, 64, 4096)
    x[:, :, ::2] = -1
    of_batch = functional.batch_norm(x, None, None, training=True)
    work.check("batch_norm", of_batch, sign, 1e-2)
    work.check("group_norm", functional.group_norm(x, 8), sign, 1e-2)


@case(*FLOATS, tensors=4.2, widest=4)
def _norm_gradients(work: Work) -> None:
    columns = 1024
    rows = work.rows(columns)
    x = work.full(1, rows, columns)
    x[:, ::2] = -1
    x.requires_grad_()
    scale = work.full(1, columns).requires_grad_()
    result = functional.layer_norm(x, (columns,), scale, None)
    seed = work.full(1, rows, columns)
    of_x, of_scale = fw.autograd.grad([result], [x, scale], [seed])
    work.same("of x", np.abs(of_x[-3:].to("float32").numpy()).max() < 1e-2, 1)
    work.check("of scale", of_scale, lambda at: sign(at) * rows, ROUGH)


@case(*FLOATS, "float16", tensors=4.4, each=((0, 16, 128), (1, 0, 1024)))
def _attention(work: Work, batch: int, heads: int, length: int) -> None:
    width = 64
    both = work.rows(length * width)
    batch, heads = (max(1, both // 16), 16) if heads else (1, both)
    v = (
        work.pattern(batch, heads, 1, width)
        .expand(batch, heads, length, width)
        .contiguous()
    )
    q = work.full(1, batch, heads, length, width)
    result = functional.scaled_dot_product_attention(q, q, v)
    work.check(
        f"{batch} x {heads} heads of {length}",
        result,
        lambda at: mod(at // (length * width) * width + at % width),
        1e-2,
    )
    del q, v, result


@case(*FLOATS, tensors=2, widest=4)
def _random_numbers(work: Work) -> None:
    x = fw.rand(work.count, dtype=work.dtype, device=work.device)
    work.same("mean of rand", x.mean(dtype="float32").item(), 0.5, 1e-2)
    for place in work.borders():
        part = x[place : place + 2].to("float32").numpy()
        first = x[:2].to("float32").numpy()
        work.same("range", ((part >= 0) & (part <= 1)).all(), 1)
        if place and work.dtype == "float32":
            work.same("repeats", (part == first).all(), 0)
    middle = work.count // 2
    tail = x[middle : middle + 4096].to("float32").numpy()
    work.same(
        "different halves", (tail == x[:4096].to("float32").numpy()).mean() < 0.1, 1
    )
    del x
    x = fw.randn(work.count, dtype=work.dtype, device=work.device)
    part = x[-(1 << 16) :].to("float32").numpy()
    work.same("randn", abs(part.mean()) < 0.05 and abs(part.std() - 1) < 0.05, 1)
    kept = functional.dropout(
        fw.full((work.count,), 1, dtype=work.dtype, device=work.device), 0.5
    )
    part = kept[-(1 << 16) :].to("float32").numpy()
    work.same("dropout", abs((part == 2).mean() - 0.5) < 0.02, 1)


@case("float32", "bfloat16", tensors=2.5, others=1, each=((1000,), (50257,)), widest=4)
def _cross_entropy(work: Work, classes: int) -> None:
    rows = work.rows(classes)
    x = work.full(0, rows, classes).requires_grad_()
    labels = (fw.arange(rows, dtype="int32", device=work.device) % classes).to("int64")
    fw.eval(labels)
    loss = functional.cross_entropy(x, labels)
    work.same("loss", loss.item(), math.log(classes), 1e-2)
    (grad,) = fw.autograd.grad([loss], [x])

    def wanted(at: Places) -> Any:
        hit = at % classes == at // classes % classes
        return (1 / classes - hit) / rows

    work.check("gradient", grad, wanted, ROUGH)


@case("float32", tensors=5)
def _optimizers(work: Work) -> None:
    parameter = fw.nn.Parameter(work.full(1, work.count))
    parameter.grad = work.full(1, work.count)
    fw.optim.Adam([parameter], lr=0.25).step()
    work.check("Adam", parameter, lambda at: 0.75 + 0.0 * at, 1e-5)
    fw.optim.SGD([parameter], lr=0.25).step()
    work.check("SGD", parameter, lambda at: 0.5 + 0.0 * at, 1e-5)
    norm = fw.nn.utils.clip_grad_norm_([parameter], 1.0)
    work.same("norm", norm.item(), work.count**0.5, 1e-3)


@case("float32", tensors=4)
def _mean_squares(work: Work) -> None:
    x = work.pattern().requires_grad_()
    loss = functional.mse_loss(x, work.full(0, work.count))
    squares = (PERIOD - 1) * (2 * PERIOD - 1) / 6
    work.same("loss", loss.item(), squares, 1e-3)
    (grad,) = fw.autograd.grad([loss], [x])
    work.check("gradient", grad, lambda at: 2 * mod(at) / work.count, 1e-4)


@case("float32", tensors=5, widest=8)
def _fourier(work: Work) -> None:
    size = 512
    rows = work.rows(2 * size)
    x = work.full(1, rows, size)
    spectrum = fw.fft.rfft(x)
    bins = size // 2 + 1
    work.check(
        "constant", spectrum.real.contiguous(), lambda at: np.where(at % bins, 0, size)
    )
