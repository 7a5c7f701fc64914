"""EfficientNet/MobileNetV3-like: SE, hard-swish, depthwise, DropPath, round channels, EMA of timm, label smoothing, mixup, RandAug-free."""

import math
from collections import OrderedDict
from copy import deepcopy
from functools import partial
from typing import Callable, List, Optional

import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader, TensorDataset

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def _make_divisible(v: float, divisor: int, min_value: Optional[int] = None) -> int:
    if min_value is None:
        min_value = divisor
    new_v = max(min_value, int(v + divisor / 2) // divisor * divisor)
    if new_v < 0.9 * v:
        new_v += divisor
    return new_v


class ConvNormActivation(nn.Sequential):
    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size=3,
        stride=1,
        padding=None,
        groups=1,
        norm_layer=nn.BatchNorm2d,
        activation_layer=nn.ReLU,
        dilation=1,
        inplace=True,
    ):
        if padding is None:
            padding = (kernel_size - 1) // 2 * dilation
        layers = [
            nn.Conv2d(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                padding,
                dilation=dilation,
                groups=groups,
                bias=norm_layer is None,
            )
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            params = {} if inplace is None else {"inplace": inplace}
            layers.append(activation_layer(**params))
        super().__init__(*layers)
        self.out_channels = out_channels


class SqueezeExcitation(nn.Module):
    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., nn.Module] = nn.ReLU,
        scale_activation: Callable[..., nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = torch.nn.AdaptiveAvgPool2d(1)
        self.fc1 = torch.nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = torch.nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def _scale(self, input: torch.Tensor) -> torch.Tensor:
        scale = self.avgpool(input)
        scale = self.fc1(scale)
        scale = self.activation(scale)
        scale = self.fc2(scale)
        return self.scale_activation(scale)

    def forward(self, input):
        return self._scale(input) * input


def drop_path(
    x, drop_prob: float = 0.0, training: bool = False, scale_by_keep: bool = True
):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    if keep_prob > 0.0 and scale_by_keep:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class DropPath(nn.Module):
    def __init__(self, drop_prob: float = 0.0, scale_by_keep: bool = True):
        super(DropPath, self).__init__()
        self.drop_prob = drop_prob
        self.scale_by_keep = scale_by_keep

    def forward(self, x):
        return drop_path(x, self.drop_prob, self.training, self.scale_by_keep)

    def extra_repr(self):
        return f"drop_prob={round(self.drop_prob, 3):0.3f}"


class MBConv(nn.Module):
    def __init__(
        self,
        inp,
        oup,
        stride,
        expand,
        se=True,
        norm_layer=partial(nn.BatchNorm2d, eps=1e-3, momentum=0.01),
    ):
        super().__init__()
        self.use_res_connect = stride == 1 and inp == oup
        layers: List[nn.Module] = []
        hidden = _make_divisible(inp * expand, 4)
        if expand != 1:
            layers.append(
                ConvNormActivation(
                    inp,
                    hidden,
                    kernel_size=1,
                    norm_layer=norm_layer,
                    activation_layer=nn.SiLU,
                )
            )
        layers.append(
            ConvNormActivation(
                hidden,
                hidden,
                stride=stride,
                groups=hidden,
                norm_layer=norm_layer,
                activation_layer=nn.Hardswish,
            )
        )
        if se:
            layers.append(
                SqueezeExcitation(
                    hidden,
                    max(1, inp // 4),
                    activation=partial(nn.SiLU, inplace=True),
                    scale_activation=nn.Hardsigmoid,
                )
            )
        layers.append(
            ConvNormActivation(
                hidden, oup, kernel_size=1, norm_layer=norm_layer, activation_layer=None
            )
        )
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = DropPath(0.0)

    def forward(self, input):
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class Net(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                [
                    (
                        "stem",
                        ConvNormActivation(3, 8, stride=2, activation_layer=nn.SiLU),
                    ),
                    ("b1", MBConv(8, 8, 1, 1)),
                    ("b2", MBConv(8, 12, 2, 4)),
                    ("b3", MBConv(12, 12, 1, 4, se=False)),
                ]
            )
        )
        self.features.add_module(
            "top", ConvNormActivation(12, 24, kernel_size=1, activation_layer=nn.ReLU6)
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=0.0, inplace=True), nn.Linear(24, num_classes)
        )
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.ones_(m.weight)
                nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                init_range = 1.0 / math.sqrt(m.out_features)
                nn.init.uniform_(m.weight, -init_range, init_range)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        x = self.features(x)
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.classifier(x)


class ModelEma(nn.Module):
    def __init__(self, model, decay=0.9999, device=None):
        super().__init__()
        self.module = deepcopy(model)
        self.module.eval()
        self.decay = decay
        self.device = device
        if self.device is not None:
            self.module.to(device=device)

    def _update(self, model, update_fn):
        with torch.no_grad():
            for ema_v, model_v in zip(
                self.module.state_dict().values(), model.state_dict().values()
            ):
                if self.device is not None:
                    model_v = model_v.to(device=self.device)
                ema_v.copy_(update_fn(ema_v, model_v))

    def update(self, model):
        self._update(
            model, update_fn=lambda e, m: self.decay * e + (1.0 - self.decay) * m
        )

    def set(self, model):
        self._update(model, update_fn=lambda e, m: m)


class LabelSmoothingCrossEntropy(nn.Module):
    def __init__(self, smoothing=0.1):
        super().__init__()
        self.smoothing, self.confidence = smoothing, 1.0 - smoothing

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logprobs = F.log_softmax(x, dim=-1)
        nll_loss = -logprobs.gather(dim=-1, index=target.unsqueeze(1))
        nll_loss = nll_loss.squeeze(1)
        smooth_loss = -logprobs.mean(dim=-1)
        return (self.confidence * nll_loss + self.smoothing * smooth_loss).mean()


def one_hot(x, num_classes, on_value=1.0, off_value=0.0):
    x = x.long().view(-1, 1)
    return torch.full((x.size()[0], num_classes), off_value, device=x.device).scatter_(
        1, x, on_value
    )


def mixup_target(target, num_classes, lam=1.0, smoothing=0.0):
    off_value = smoothing / num_classes
    on_value = 1.0 - smoothing + off_value
    y1 = one_hot(target, num_classes, on_value=on_value, off_value=off_value)
    y2 = one_hot(target.flip(0), num_classes, on_value=on_value, off_value=off_value)
    return y1 * lam + y2 * (1.0 - lam)


class SoftTargetCrossEntropy(nn.Module):
    def forward(self, x, target):
        return torch.sum(-target * F.log_softmax(x, dim=-1), dim=-1).mean()


class RMSpropTF(torch.optim.Optimizer):
    """Epsilon inside the square root, as written by people."""

    def __init__(
        self, params, lr=1e-2, alpha=0.9, eps=1e-10, weight_decay=0, momentum=0.0
    ):
        defaults = dict(
            lr=lr, momentum=momentum, alpha=alpha, eps=eps, weight_decay=weight_decay
        )
        super().__init__(params, defaults)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("momentum", 0)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad
                if grad.is_sparse:
                    raise RuntimeError("RMSprop does not support sparse gradients")
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["square_avg"] = torch.ones_like(p)
                    if group["momentum"] > 0:
                        state["momentum_buffer"] = torch.zeros_like(p)
                square_avg = state["square_avg"]
                one_minus_alpha = 1.0 - group["alpha"]
                state["step"] += 1
                if group["weight_decay"] != 0:
                    grad = grad.add(p, alpha=group["weight_decay"])
                square_avg.add_(grad.pow(2) - square_avg, alpha=one_minus_alpha)
                avg = square_avg.add(group["eps"]).sqrt_()
                if group["momentum"] > 0:
                    buf = state["momentum_buffer"]
                    buf.mul_(group["momentum"]).addcdiv_(grad, avg)
                    p.add_(buf, alpha=-group["lr"])
                else:
                    p.addcdiv_(grad, avg, value=-group["lr"])
        return loss


def add_weight_decay(model, weight_decay=1e-5, skip_list=()):
    decay, no_decay = [], []
    for name, param in model.named_parameters():
        if not param.requires_grad:
            continue
        if param.ndim <= 1 or name.endswith(".bias") or name in skip_list:
            no_decay.append(param)
        else:
            decay.append(param)
    return [
        {"params": no_decay, "weight_decay": 0.0},
        {"params": decay, "weight_decay": weight_decay},
    ]


def train(steps):
    model = seeded(Net()).to(device, memory_format=torch.channels_last)
    ema = ModelEma(model, 0.9, device=device)
    x = torch.from_numpy(normal(12, 3, 10, 10))
    y = torch.from_numpy(integers(5, 12))
    loader = DataLoader(TensorDataset(x, y), batch_size=6)
    opt = RMSpropTF(add_weight_decay(model, 1e-4), lr=1e-3, momentum=0.9, eps=1e-3)
    sched = torch.optim.lr_scheduler.SequentialLR(
        opt,
        [
            torch.optim.lr_scheduler.LinearLR(opt, 0.1, total_iters=3),
            torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=7),
        ],
        milestones=[3],
    )
    crit = (
        LabelSmoothingCrossEntropy(),
        SoftTargetCrossEntropy(),
        nn.CrossEntropyLoss(label_smoothing=0.1),
    )
    results = []
    for epoch in range(steps // 2):
        for i, (bx, by) in enumerate(loader):
            bx, by = (
                bx.to(device).contiguous(memory_format=torch.channels_last),
                by.to(device),
            )
            lam = 0.7
            x_flipped = bx.flip(0).mul_(1.0 - lam)
            mixed = bx.mul(lam).add_(x_flipped)
            out = model(mixed)
            loss = (
                crit[0](out, by)
                + crit[1](out, mixup_target(by, 5, lam, 0.1))
                + crit[2](out, by)
            )
            opt.zero_grad()
            loss.backward(create_graph=False)
            opt.step()
            ema.update(model)
            results.append(loss.item())
        sched.step()
        results.append(max(g["lr"] for g in opt.param_groups))
    model.eval()
    with torch.inference_mode():
        a, b = model(x.to(device)), ema.module(x.to(device))
    acc = (a.argmax(1) == y.to(device)).float().mean()
    assert str(DropPath(0.1)) == "DropPath(drop_prob=0.100)"
    fused = deepcopy(model)
    for name, m in list(fused.named_modules()):
        if isinstance(m, ConvNormActivation) and isinstance(m[1], _BatchNorm):
            m[0] = nn.utils.fusion.fuse_conv_bn_eval(m[0], m[1])
            m[1] = nn.Identity()
    with torch.inference_mode():
        c = fused(x.to(device))
    return results + [a.sum().item(), b.sum().item(), c.sum().item(), acc.item()]
