"""Ordinary training steps, which `jit` has to replay without a warning."""

import argparse
import contextlib
import dataclasses
import enum
import functools
import itertools
import logging
import math
import operator
import types
import typing
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice

Step = Callable[[fw.Tensor], Any]

SIZE = 4
LOG = logging.getLogger("ordinary")


class Mode(enum.Enum):
    """What a head does."""

    SUM = "sum"
    MEAN = "mean"


@dataclasses.dataclass
class Config:
    """Options of a model."""

    width: int = SIZE
    scale: float = 0.5
    mode: Mode = Mode.MEAN
    rates: dict[str, float] = dataclasses.field(default_factory=lambda: {"a": 0.1})

    @property
    def inner(self) -> int:
        """Twice the width."""
        return 2 * self.width


class Block(nn.Module):
    """A residual block with options several attributes deep."""

    gain = 0.5

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.up = nn.Linear(config.width, config.inner)
        self.down = nn.Linear(config.inner, config.width)
        self.act = nn.GELU()
        self.options = types.SimpleNamespace(drop=types.SimpleNamespace(p=0.1))

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        y = self.down(self.act(self.up(x))) * self.config.scale * self.gain
        if self.training and self.options.drop.p > 0:
            y = y * (1 - self.options.drop.p)
        return x + y


class Net(nn.Module):
    """Blocks in a list, and a head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList([Block(config) for _ in range(2)])
        self.norm = nn.LayerNorm(config.width)
        self.heads = {Mode.SUM: fw.sum, Mode.MEAN: fw.mean}

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        for number, block in enumerate(self.blocks):
            x = block(x) / math.sqrt(number + 1)
        return self.heads[self.config.mode](self.norm(x), -1)


def timed(function: Step) -> Step:
    """Wrap a function as decorators do."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        LOG.debug("calls %s", function.__name__)
        return function(*args, **kwargs)

    return inner


@contextlib.contextmanager
def scope(name: str) -> Iterator[str]:
    """Name a part of a step."""
    LOG.info("enters %s", name)
    yield name


def training(gpu: GpuDevice) -> Step:
    """Return a step with a loss, clipping, an average and a scheduler."""
    config = Config()
    model = Net(config).to(gpu)
    average = [each.detach().clone() for each in model.parameters()]
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    schedule = optim.StepLR(optimizer, 3)
    arguments = argparse.Namespace(clip=1.0, ema=0.9, log_every=10)
    loss = nn.MSELoss()

    @timed
    def step(x: fw.Tensor) -> Any:
        optimizer.zero_grad()
        with scope("forward"):
            out = model(x)
        value = loss(out, fw.zeros_like(out))
        value.backward()
        optim.clip_grad_norm_(model.parameters(), arguments.clip)
        optimizer.step()
        schedule.step()
        with fw.no_grad():
            for old, new in zip(average, model.parameters()):
                old.mul_(arguments.ema).add_(new * (1 - arguments.ema))
        if arguments.log_every < 5:
            print(value.item())
        return {"loss": value.detach(), "out": out.detach()}

    return step


def scaled(gpu: GpuDevice) -> Step:
    """Return a step in 16 bits."""
    model = nn.Sequential(nn.Linear(SIZE, 8), nn.ReLU(), nn.Linear(8, 1)).to(gpu)
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = fw.GradScaler(init_scale=8.0)

    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        with fw.autocast(fw.float16):
            value = model(x).square().mean()
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        return value.detach()

    return step


class Runner:
    """A trainer that holds everything."""

    __slots__ = ("__dict__", "options", "table")

    def __init__(self, gpu: GpuDevice) -> None:
        self.model = nn.Sequential(OrderedDict(a=nn.Linear(SIZE, 2), b=nn.Tanh()))
        self.model.to(gpu)
        self.options = {"scale": 2.0, "names": ["a", "b"], "shape": (SIZE, 2)}
        self.table = np.linspace(0, 1, 1000)
        self.hooks: dict[str, list[Callable[[fw.Tensor], fw.Tensor]]]
        self.hooks = defaultdict(list)
        self.hooks["after"].append(operator.methodcaller("abs"))
        self.epoch = 0

    @functools.cached_property
    def factor(self) -> float:
        """Of the table."""
        return float(np.mean(self.table)) * self.options["scale"]  # type: ignore[operator]

    @staticmethod
    def names(options: dict[str, Any]) -> str:
        """Join names."""
        return "/".join(f"{each}" for each in sorted(options["names"]))

    def step(self, x: fw.Tensor) -> fw.Tensor:
        """Run the model."""
        y = self.model(x) * self.factor
        for hook in self.hooks["after"]:
            y = hook(y)
        return y * len(self.names(self.options))


def runner(gpu: GpuDevice) -> Step:
    """Return a method of an object that holds everything."""
    return Runner(gpu).step


def pure(_: GpuDevice) -> Step:
    """Return a function of what Python and NumPy have for computing."""
    point = namedtuple("point", "x y")(1.0, 2.0)
    half = functools.partial(operator.mul, 0.5)
    table = tuple(itertools.accumulate([1.0, 2.0, 3.0]))

    @functools.lru_cache
    def factorial(n: int) -> int:
        return math.prod(range(1, n + 1))

    def step(x: fw.Tensor) -> fw.Tensor:
        y = x * math.cos(point.x) + np.pi * half(point.y)
        y = y * functools.reduce(operator.add, table) / factorial(3)
        y = y + float(np.sqrt(2.0)) + int(np.prod(x.shape)) + np.float32(0.5)
        pairs = dict(zip(("a", "b"), itertools.repeat(2.0)))
        return y * sum(pairs.values()) + max(map(abs, table))

    return step


def generic(gpu: GpuDevice) -> Step:
    """Return a function with types, data classes and copies of options."""
    item = typing.TypeVar("item")

    class Box(typing.Generic[item]):
        def __init__(self, value: item) -> None:
            self.value = value

    config, box = Config(), Box(3.0)
    weight = nn.Parameter(fw.ones(SIZE, device=gpu))

    def step(x: fw.Tensor) -> fw.Tensor:
        own = dataclasses.replace(config, scale=config.scale * 2)
        fields = [each.name for each in dataclasses.fields(own)]
        options = {"p": getattr(own, "scale", 1.0), **own.rates}
        assert isinstance(x, fw.Tensor)
        assert hasattr(own, "mode")
        y = x * weight * options["p"] * options.get("a", 0.0) * len(fields)
        return y * box.value if own.mode is Mode.MEAN else y

    return step


def estimator(_: GpuDevice) -> Step:
    """Return a function that asks an object of an installed package."""
    from sklearn.linear_model import Ridge

    ridge = Ridge(alpha=2.0)
    return lambda x: x * ridge.alpha * ridge.get_params()["alpha"]


def many(gpu: GpuDevice) -> Step:
    """Return a function that names long containers."""
    samples = [{"id": number} for number in range(2000)]
    vocabulary = {f"word {number}": number for number in range(20000)}
    frozen = [fw.ones(SIZE, device=gpu) for _ in range(150)]
    return lambda x: x * len(samples) + vocabulary["word 7"] + frozen[149]


STEPS = [training, scaled, runner, pure, generic, estimator, many]
