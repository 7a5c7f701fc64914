"""Arguments of the functions of layers and losses, by name; see `calls`."""

from __future__ import annotations

from dataclasses import replace

from .calls import products
from .forms import Call, Given, Make, ShapeClass, call, first, whole


def _images(form: ShapeClass) -> tuple[int, int, int, int] | None:
    """Return batch, channels, height and width."""
    return {
        "contiguous": form.pick((32, 64, 56, 56), (2, 16, 28, 28)),
        "tiny": (1, 4, 8, 8),
        "odd": form.pick((7, 13, 61, 67), (3, 5, 17, 19)),
        "batched": form.pick((256, 128, 14, 14), (8, 16, 8, 8)),
    }.get(form.name)


def _volume(shape: tuple[int, int, int, int], dims: int) -> tuple[int, ...]:
    """Return the shape of signals, images or volumes of about as many elements."""
    batch, channels, height, width = shape
    if dims == 1:
        return batch, channels, height * width
    return (
        (batch, channels, height, width) if dims == 2 else (*shape[:2], 4, *shape[2:])
    )


def _conv(dims: int, transposed: bool = False) -> Make:
    """Return the entry of a convolution with kernels of 3."""

    def make(form: ShapeClass) -> Call | None:
        shape = _images(form)
        if shape is None:
            return None
        groups = 4 if form.name == "batched" else 1
        count = shape[1]
        outputs = 2 * count if form.name == "odd" else count
        whole_one = outputs if transposed else count
        rest = count if transposed else outputs
        weight = (rest, whole_one // groups, *(3,) * dims)
        return call(
            Given(_volume(shape, dims)),
            Given(weight, seed=1),
            Given((outputs,), seed=2),
            padding=1,
            groups=groups,
            **({"stride": 2} if transposed else {}),
        )

    return make


def _pool(dims: int, *arguments: object, **keywords: object) -> Make:
    """Return the entry of a pooling, or of what takes the like."""

    def make(form: ShapeClass) -> Call | None:
        if (shape := _images(form)) is None:
            return None
        return call(Given(_volume(shape, dims)), *arguments, **keywords)

    return make


def _norm(*names: str, leading: tuple[object, ...] = (), **keywords: object) -> Make:
    """Return the entry of a normalization by channels; `names` are vectors of them."""

    def make(form: ShapeClass) -> Call | None:
        if (shape := _images(form)) is None:
            return None
        vectors = {
            name: Given((shape[1],), 0.5, 1.5, seed=seed)
            for seed, name in enumerate(names, 1)
        }
        return call(Given(shape), *leading, **vectors, **keywords)

    return make


def _rows(bias: bool) -> Make:
    """Return the entry of a normalization of rows."""

    def make(form: ShapeClass) -> Call | None:
        if form.name in ("long", "columns", "broadcast"):
            return None
        width = form.shape[-1:]
        vectors = [Given(width, 0.5, 1.5, seed=seed) for seed in range(1, 2 + bias)]
        return call(first(form), width, *vectors)

    return make


def _classes(logs: bool = False) -> Make:
    """Return the entry of a loss over logits and labels."""

    def make(form: ShapeClass) -> Call | None:
        if len(form.shape) != 2 or form.name in ("broadcast", "columns"):
            return None
        rows, classes = form.shape
        return call(
            replace(first(form), low=-3 if logs else None, high=0 if logs else None),
            whole(rows, below=classes),
        )

    return make


def _projected_classes(form: ShapeClass) -> Call | None:
    """Return rows, the weights that make logits of them, and labels."""
    if form.name in ("broadcast", "columns"):
        return None
    rows, inner, classes = products(form)
    weights = Given((classes, inner), -0.1, 0.1, seed=1)
    return call(Given((rows, inner)), weights, whole(rows, below=classes))


def _loss(low: float | None = None, high: float | None = None) -> Make:
    """Return the entry of a loss over predictions and targets of one shape."""
    return lambda form: (
        None
        if form.name in ("broadcast", "batched")
        else call(
            Given(form.shape, low, high, None, first(form).layout),
            Given(form.shape, low, high, seed=1),
        )
    )


def _signs(count: int) -> Make:
    """Return the entry of a ranking loss of several inputs and targets of one sign."""

    def make(form: ShapeClass) -> Call | None:
        if len(form.shape) != 2 or form.name == "broadcast":
            return None
        given = [Given(form.shape, seed=seed) for seed in range(count)]
        return call(*given, Given(form.shape, 1, 1.001, seed=count))

    return make


def _triple(form: ShapeClass) -> Call | None:
    if len(form.shape) != 2 or form.name == "broadcast":
        return None
    return call(*(Given(form.shape, seed=seed) for seed in range(3)))


def _pair(form: ShapeClass) -> Call | None:
    if len(form.shape) != 2 or form.name == "broadcast":
        return None
    return call(*(Given(form.shape, seed=seed) for seed in range(2)))


def _attention(form: ShapeClass) -> Call | None:
    sizes = {
        "contiguous": form.pick((4, 16, 1024, 1024, 64), (1, 4, 64, 64, 32)),
        "tiny": (1, 2, 8, 8, 16),
        "odd": form.pick((3, 5, 333, 555, 80), (1, 3, 33, 55, 24)),
        "rows": form.pick((4, 32, 1, 4096, 128), (1, 4, 1, 256, 32)),
        "batched": form.pick((256, 12, 197, 197, 64), (8, 3, 37, 37, 16)),
    }.get(form.name)
    if sizes is None:
        return None
    batch, heads, queries, keys, width = sizes
    others = [Given((batch, heads, keys, width), seed=seed) for seed in (1, 2)]
    return call(Given((batch, heads, queries, width)), *others)


def _ctc(form: ShapeClass) -> Call | None:
    if form.name not in ("contiguous", "tiny"):
        return None
    steps, batch, classes, length = (
        (16, 2, 8, 4)
        if form.name == "tiny"
        else form.pick((128, 32, 64, 24), (32, 4, 16, 6))
    )
    return call(
        Given((steps, batch, classes), -4, -1),
        Given((batch, length), 1, classes, "int64"),
        (steps,) * batch,
        (length,) * batch,
    )


def _grid(form: ShapeClass) -> Call | None:
    if (shape := _images(form)) is None:
        return None
    return call(
        Given(shape), Given((shape[0], *shape[2:], 2), seed=1), align_corners=False
    )


def _sampler(form: ShapeClass) -> Call | None:
    """Return the arguments of `grid_sampler`: bilinear, with zeros outside."""
    if (found := _grid(form)) is None:
        return None
    return call(*found.args, 0, 0, False)


def _affine(form: ShapeClass) -> Call | None:
    if (shape := _images(form)) is None:
        return None
    return call(Given((shape[0], 2, 3)), shape, False)


def _time_first(form: ShapeClass) -> Call | None:
    """Return the arguments of `conv_tbc`: steps, batch, channels."""
    if (shape := _images(form)) is None:
        return None
    batch, channels, height, width = shape
    return call(
        Given((height * width, batch, channels)),
        Given((3, channels, channels), seed=1),
        Given((channels,), seed=2),
        1,
    )


def _unpool(dims: int) -> Make:
    """Return the entry of what puts the largest of windows of 2 back."""

    def make(form: ShapeClass) -> Call | None:
        if (shape := _images(form)) is None:
            return None
        volume = _volume(shape, dims)
        places = Given(volume, 0, 2**dims, "int64", kind="places")
        return call(Given(volume), places, 2)

    return make


def _groups(form: ShapeClass) -> Call | None:
    """Return rows of groups, and their matrices; a batch is given without ends."""
    sizes = {
        "contiguous": form.pick((8, 8192, 1024, 1024), (4, 256, 64, 64)),
        "tiny": (2, 32, 16, 16),
        "rows": form.pick((64, 65536, 128, 128), (8, 1024, 32, 32)),
        "batched": form.pick((64, 512, 256, 512), (4, 32, 32, 32)),
    }.get(form.name)
    if sizes is None:
        return None
    count, rows, inner, columns = sizes
    matrices = Given((count, inner, columns), seed=1)
    if form.name == "batched":
        return call(Given((count, rows, inner)), matrices)
    return call(
        Given((rows, inner)),
        matrices,
        offs=Given((count,), 0, rows, "int32", kind="ends"),
    )


def _heads(form: ShapeClass) -> Call | None:
    """Return the arguments of `multi_head_attention_forward` of a sequence itself."""
    sizes = {
        "contiguous": form.pick((512, 16, 512, 8), (32, 2, 32, 4)),
        "tiny": (8, 2, 16, 2),
        "odd": form.pick((333, 7, 480, 6), (33, 3, 24, 3)),
        "batched": form.pick((64, 256, 256, 4), (8, 16, 16, 2)),
    }.get(form.name)
    if sizes is None:
        return None
    steps, batch, width, heads = sizes
    x = Given((steps, batch, width))
    weights = Given((3 * width, width), -0.1, 0.1, seed=1), Given((3 * width,), seed=2)
    out = Given((width, width), -0.1, 0.1, seed=3), Given((width,), seed=4)
    return call(
        *(x, x, x, width, heads, *weights, None, None, False, 0.0, *out),
        need_weights=False,
    )


def _labels(form: ShapeClass) -> Call | None:
    """Return the arguments of `multilabel_margin_loss`: some classes of each row."""
    if (found := _pair(form)) is None or form.name == "columns":
        return None
    some = Given(form.shape, 0, min(form.shape[-1], 4), "int64", kind="labels")
    return call(found.args[0], some)


def _channels_quantized(form: ShapeClass) -> Call | None:
    if (shape := _images(form)) is None:
        return None
    scales = Given(shape[1:2], 0.05, 0.2, "float32", seed=1)
    return call(Given(shape), scales, whole(shape[1], below=5, dtype="int32"), 1, 0, 9)


def _columns(form: ShapeClass) -> Call | None:
    """Return the arguments of what folds columns of patches."""
    if (shape := _images(form)) is None:
        return None
    batch, channels, height, width = shape
    return call(Given((batch, channels * 9, height * width)), shape[2:], 3, padding=1)


def _logits(form: ShapeClass) -> Call | None:
    if len(form.shape) != 2 or form.name in ("broadcast", "columns"):
        return None
    return call(first(form), Given(form.shape, 0.1, 0.9, seed=1))


LAYERS: dict[str, Make] = {
    **{f"conv{dims}d": _conv(dims) for dims in (1, 2, 3)},
    **{f"conv_transpose{dims}d": _conv(dims, True) for dims in (1, 2, 3)},
    **{f"avg_pool{dims}d": _pool(dims, 2) for dims in (1, 2, 3)},
    **{f"max_pool{dims}d": _pool(dims, 2) for dims in (1, 2, 3)},
    **{f"max_pool{dims}d_with_indices": _pool(dims, 2) for dims in (2, 3)},
    **{f"lp_pool{dims}d": _pool(dims, 2.0, 2) for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": _pool(dims, 5) for dims in (1, 2, 3)},
    **{f"adaptive_max_pool{dims}d": _pool(dims, 5) for dims in (1, 2, 3)},
    **{f"adaptive_max_pool{dims}d_with_indices": _pool(dims, 5) for dims in (1, 2, 3)},
    "fractional_max_pool2d": _pool(2, 2, 3),
    "fractional_max_pool2d_with_indices": _pool(2, 2, 3),
    "fractional_max_pool3d": _pool(3, 2, (2, 3, 3)),
    "fractional_max_pool3d_with_indices": _pool(3, 2, (2, 3, 3)),
    **{f"dropout{dims}d": _pool(dims) for dims in (1, 2, 3)},
    "feature_dropout": _pool(2, 0.5, True),
    "feature_alpha_dropout": _pool(2, 0.5, True),
    "alpha_dropout": lambda form: call(first(form), 0.5, True),
    "local_response_norm": _pool(2, 3),
    "interpolate": _pool(2, scale_factor=2),
    "upsample": _pool(2, scale_factor=2),
    "upsample_nearest": _pool(2, scale_factor=2),
    "upsample_bilinear": _pool(2, scale_factor=2),
    "unfold": _pool(2, 3, padding=1),
    "im2col": _pool(2, 3, padding=1),
    "fold": _columns,
    "col2im": _columns,
    "grid_sample": _grid,
    "grid_sampler": _sampler,
    "affine_grid": _affine,
    "affine_grid_generator": _affine,
    "conv_tbc": _time_first,
    **{f"max_unpool{dims}d": _unpool(dims) for dims in (1, 2, 3)},
    "grouped_mm": _groups,
    "multi_head_attention_forward": _heads,
    "elu": lambda form: call(first(form), 0.5),
    "multilabel_margin_loss": _labels,
    "fake_quantize_per_tensor_affine": lambda form: call(first(form), 0.1, 5, 0, 9),
    "fake_quantize_per_channel_affine": _channels_quantized,
    "batch_norm": _norm("weight", "bias", leading=(None, None), training=True),
    "instance_norm": _norm(),
    "group_norm": lambda form: (
        None
        if (found := _norm("weight", "bias")(form)) is None
        else Call((*found.args, 1 if form.name == "odd" else 4), found.keywords)
    ),
    "layer_norm": _rows(True),
    "rms_norm": _rows(False),
    "prelu": lambda form: call(first(form), Given((1,), seed=1)),
    "glu": lambda form: call(first(form)) if not form.shape[-1] % 2 else None,
    "threshold": lambda form: call(first(form), 0.1, 0.5),
    "softmax": lambda form: call(first(form), -1),
    "log_softmax": lambda form: call(first(form), -1),
    "softmin": lambda form: call(first(form), -1),
    "cross_entropy": _classes(),
    "linear_cross_entropy": _projected_classes,
    "nll_loss": _classes(True),
    "multi_margin_loss": _classes(),
    "binary_cross_entropy": _loss(0.1, 0.9),
    "binary_cross_entropy_with_logits": _logits,
    "multilabel_soft_margin_loss": _logits,
    "mse_loss": _loss(),
    "l1_loss": _loss(),
    "smooth_l1_loss": _loss(),
    "huber_loss": _loss(),
    "kl_div": _loss(0.1, 0.9),
    "poisson_nll_loss": _loss(0.1, 0.9),
    "soft_margin_loss": _loss(),
    "gaussian_nll_loss": lambda form: (
        None
        if (found := _loss()(form)) is None
        else call(*found.args, Given(form.shape, 0.1, 1, seed=2))
    ),
    "hinge_embedding_loss": _signs(1),
    "margin_ranking_loss": _signs(2),
    "cosine_embedding_loss": lambda form: (
        None
        if (found := _pair(form)) is None
        else call(*found.args, Given(form.shape[:1], 1, 1.001, seed=2))
    ),
    "triplet_margin_loss": _triple,
    "cosine_similarity": _pair,
    "pairwise_distance": _pair,
    "normalize": lambda form: call(first(form)) if len(form.shape) > 1 else None,
    "scaled_dot_product_attention": _attention,
    "ctc_loss": _ctc,
}
