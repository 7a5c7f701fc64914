"""Ranks with parts of a model do the steps of one process with all of it."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.parallel_program import CASES, ROWS, batch, loss_of, make
from tests.framework.nn.test_data_parallel import train_alone
from tests.rank_processes import LONG, run_ranks
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.base.errors import DistributedError, GradError
from vkbackend.framework.communication.group import Group
from vkbackend.framework.distributed.fsdp import wrap
from vkbackend.framework.nn.fsdp.wrapper import chosen_modules

BLOCKS = (nn.Linear, nn.Conv2d, nn.TransformerEncoderLayer)


@pytest.mark.parametrize(
    ("name", "size", "reshard"),
    [
        *(("mlp", 1, None), ("mlp", 2, False), ("cnn", 2, None), ("gpt", 3, True)),
        *(pytest.param(each, 4, None, marks=pytest.mark.wide) for each in CASES),
        *(pytest.param(each, 5, False, marks=pytest.mark.wide) for each in CASES),
    ],
)
def test_bits_are_those_of_data_parallel(
    monkeypatch: pytest.MonkeyPatch, name: str, size: int, reshard: bool | None
) -> None:
    steps = 3
    models = [make(name, seed) for seed in range(size)]
    policy = (nn.TransformerEncoderLayer,) if name == "gpt" else BLOCKS

    def work(group: Group) -> tuple[Any, int]:
        model = nn.FSDP(
            models[group.rank],
            group,
            auto_wrap_policy=policy,
            reshard_after_forward=reshard,
        )
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(steps):
            x, y = batch(name, step, ROWS * size)
            part = slice(ROWS * group.rank, ROWS * (group.rank + 1))
            optimizer.zero_grad()
            loss_of(model, x[part], y[part]).backward()
            optimizer.step()
        own = sum(each.numel() for each in model.parameters())
        return model.state_dict(), own

    exact, _ = train_alone(name, size, steps, whole=False)
    expected = exact.state_dict()
    results = as_threads(monkeypatch, size, 4096).run(work)
    for state, _ in results:
        assert list(state) == list(expected)
        for key, value in expected.items():
            assert fw.equal(state[key], value), key
    count = sum(each.numel() for each in exact.parameters())
    assert sum(own for _, own in results) == count


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_steps_are_those_of_pytorch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """Its `DistributedDataParallel` and `fully_shard`, of two processes with gloo."""
    pytest.importorskip("torch.distributed.fsdp")
    size, steps = 2, 5
    models = [make("gpt", seed) for seed in range(size)]
    start = {key: value.numpy() for key, value in models[0].state_dict().items()}
    np.savez(tmp_path / "start.npz", **start)
    program = Path(__file__).with_name("torch_program.py")
    root = str(program.parents[4])
    started = [
        subprocess.Popen(
            [sys.executable, program, kind, str(rank), str(size), tmp_path, str(steps)],
            env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    for each in started:
        _, told = each.communicate(timeout=LONG)
        assert each.returncode == 0, told

    def work(group: Group) -> Any:
        model = nn.FSDP(
            models[group.rank], group, auto_wrap_policy=(nn.TransformerEncoderLayer,)
        )
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for step in range(steps):
            x, y = batch("gpt", step, ROWS * size)
            part = slice(ROWS * group.rank, ROWS * (group.rank + 1))
            optimizer.zero_grad()
            loss = loss_of(model, x[part], y[part])
            loss.backward()
            optimizer.step()
            losses.append(group.all_mean(loss.detach()).item())
        return losses, model.state_dict()

    end = np.load(tmp_path / "end.npz")
    for losses, state in as_threads(monkeypatch, size, 4096).run(work):
        np.testing.assert_allclose(losses, end["losses"], rtol=1e-5)
        assert {*state} == {*end} - {"losses"}
        for key, value in state.items():
            moved = np.abs(end[key] - start[key]).max()
            assert moved > 0 or key == "block.self_attn.in_proj_bias"
            np.testing.assert_allclose(
                value.numpy(), end[key], rtol=1e-4, atol=1e-6, err_msg=key
            )


def test_accumulation_clipping_and_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 2
    models = [make("mlp", 0) for _ in range(2 * size)]

    def train(model: nn.Module, group: Group | None, sharded: bool) -> Any:
        optimizer = fw.optim.AdamW(model.parameters(), lr=0.01)
        scaler = fw.GradScaler(init_scale=8.0)
        norms = []
        for step in range(2):
            x, y = batch("mlp", step, 8)
            rows = np.array_split(np.arange(8), 4)
            rank = group.rank if group else 0
            optimizer.zero_grad()
            with model.no_sync():
                at = rows[rank]
                scaler.scale(loss_of(model, x[at], y[at])).backward()
            at = rows[2 + rank]
            scaler.scale(loss_of(model, x[at], y[at])).backward()
            scaler.unscale_(optimizer)
            clip = model.clip_grad_norm_ if sharded else None
            if clip is None:
                parameters = list(model.parameters())
                norms.append(fw.optim.clip_grad_norm_(parameters, 0.1).item())
            else:
                norms.append(clip(0.1).item())
            scaler.step(optimizer)
            scaler.update()
        return norms, model.state_dict()

    def work(group: Group) -> Any:
        whole = nn.DataParallel(models[group.rank], group)
        parts = nn.FSDP(models[size + group.rank], group, auto_wrap_policy=nn.Linear)
        return train(whole, group, False), train(parts, group, True)

    for (norms, whole), (others, parts) in as_threads(monkeypatch, size).run(work):
        np.testing.assert_allclose(others, norms, rtol=1e-6)
        for key, value in parts.items():
            expected = whole[f"module.{key}"].numpy()
            np.testing.assert_allclose(value.numpy(), expected, rtol=1e-5, atol=1e-7)


class Odd(nn.Module):
    """Shared, frozen, unused, and other parameters than floats of one dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.last.weight = self.first.weight
        self.frozen = nn.Linear(3, 3).requires_grad_(False)
        self.unused = nn.Linear(3, 7)
        self.half = nn.Linear(3, 1).to(fw.float64)
        self.scale = nn.Parameter(fw.ones(()))

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        hidden = self.last(self.frozen(self.first(x)).tanh()) * self.scale
        return self.half(hidden.to(fw.float64))


def test_parameters_of_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    fw.manual_seed(0)
    whole = Odd()
    state = {key: value.clone() for key, value in whole.state_dict().items()}
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)

    def work(group: Group) -> Any:
        with fw.random.fork_rng():
            model = nn.FSDP(Odd(), group, auto_wrap_policy=nn.Linear)
        model.load_state_dict(state)
        model(fw.tensor(x[2 * group.rank : 2 * group.rank + 2])).mean().backward()
        with fw.no_grad():
            for each in model.parameters():
                if each.grad is not None:
                    each -= each.grad
        with model.state_dict_type("sharded"):
            assert model.state_dict()["scale"].shape == (1 - group.rank,)
        assert model.first.weight is model.last.weight
        return model.state_dict(), model(fw.tensor(x)).detach().numpy()

    results = as_threads(monkeypatch, 2).run(work)
    whole(fw.tensor(x)).mean().backward()
    with fw.no_grad():
        for each in whole.parameters():
            if each.grad is not None:
                each -= each.grad
    for found, out in results:
        np.testing.assert_allclose(out, whole(fw.tensor(x)).detach().numpy(), rtol=1e-5)
        for key, value in whole.state_dict().items():
            np.testing.assert_allclose(
                found[key].numpy(), value.numpy(), rtol=1e-5, atol=1e-6
            )


def test_lower_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Watching(nn.Linear):
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            seen.append((x.dtype, self.weight.dtype))
            return super().forward(x)

    def work(group: Group) -> Any:
        fw.manual_seed(0)
        model = nn.FSDP(
            Watching(2, 2), group, param_dtype=fw.bfloat16, reduce_dtype=fw.float32
        )
        model(fw.ones(1, 2)).float().sum().backward()
        return [(each.dtype, each.grad.dtype) for each in model.parameters()]

    group = fw.distributed.init()
    assert set(work(group)) == {(fw.float32, fw.float32)}
    assert seen == [(fw.bfloat16, fw.bfloat16)]


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_blocks(monkeypatch: pytest.MonkeyPatch, reentrant: bool) -> None:
    from vkbackend.framework.utils.checkpoint import checkpoint

    class Block(nn.Sequential):
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            inner = super().forward
            return checkpoint(inner, x, use_reentrant=reentrant)

    def made() -> nn.Module:
        fw.manual_seed(0)
        blocks = [Block(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)) for _ in range(2)]
        return nn.Sequential(nn.Linear(3, 3), *blocks)

    plain, x = made(), fw.ones(2, 3)
    plain(x).sum().backward()
    model = nn.FSDP(made(), fw.distributed.init(), auto_wrap_policy=Block)
    for outer in (False, True):
        model.zero_grad()
        run = partial(checkpoint, model, use_reentrant=False) if outer else model
        run(x).sum().backward()
        for own, right in zip(model.parameters(), plain.parameters()):
            np.testing.assert_allclose(
                own.grad.numpy(), right.grad.numpy().reshape(-1), rtol=1e-5
            )


def test_whole_parameters_within_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        fw.manual_seed(0)
        model = nn.FSDP(nn.Sequential(nn.Linear(3, 5)), group)
        with model.summon_full_params():
            assert model[0].weight.shape == (5, 3)
            model[0].weight.fill_(2.0)
        return model.state_dict()["0.weight"].tolist()

    for found in as_threads(monkeypatch, 3).run(work):
        assert found == [[2.0] * 3] * 5


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    group = fw.distributed.init()
    model = nn.FSDP(nn.Linear(2, 2), group)
    with pytest.raises(ValueError, match="the Linear is divided already"):
        nn.fully_shard(model.module, group)
    with pytest.raises(ValueError, match="auto_wrap_policy is 'all'; it must be"):
        nn.FSDP(nn.Linear(2, 2), group, auto_wrap_policy="all")
    with pytest.raises(ValueError, match="auto_wrap_policy fits no module within"):
        nn.FSDP(nn.Linear(2, 2), group, auto_wrap_policy=nn.Conv2d)
    with pytest.raises(ValueError, match="'local' is no kind"):
        with model.state_dict_type("local"):
            pass
    loss = model(fw.ones(1, 2)).sum()
    weight = model.module.weight
    with fw.no_grad():
        weight += 1
    with pytest.raises(GradError, match="were changed in place after the"):
        loss.backward()
    kept = []
    model.module.register_forward_pre_hook(lambda own, _: kept.append(own.weight))
    with fw.no_grad():
        model(fw.ones(1, 2))
    with pytest.raises(RuntimeError, match=r"\(Linear\) are divided among"):
        kept[0].numpy()
    out = model(fw.ones(1, 2, requires_grad=True)).sum()
    with pytest.raises(NotImplementedError, match="create_graph is True"):
        fw.autograd.grad(out, [model.module.weight], create_graph=True)

    def work(group: Group) -> None:
        layers = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
        made = nn.FSDP(layers, group, auto_wrap_policy="children")
        made[group.rank](fw.ones(1, 1))

    for error in as_threads(monkeypatch, 2).run(work, keep=True):
        assert isinstance(error, DistributedError)
        assert "unit 0 (Linear)" in str(error)
        assert "unit 1 (Linear)" in str(error)


def test_policies() -> None:
    layers = nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.Tanh()), nn.Linear(9, 9))
    big = partial(wrap.size_based_auto_wrap_policy, min_num_params=50)
    custom = wrap.CustomPolicy(lambda each: isinstance(each, nn.Tanh))
    assert chosen_modules(layers, big) == [layers[1]]
    assert chosen_modules(layers, custom) == [layers[0][1]]
    assert chosen_modules(layers, wrap.ModuleWrapPolicy([nn.Linear])) == [
        layers[0][0],
        layers[1],
    ]
    assert chosen_modules(layers, "children") == [layers[0], layers[1]]
    assert set(chosen_modules(layers, nn.Linear)) == {layers[0][0], layers[1]}


@pytest.mark.wide
@pytest.mark.device
def test_replayed_in_processes() -> None:
    done = run_ranks(2, Path(__file__).with_name("fsdp_program.py"))
    told = done.stdout + done.stderr
    for rank in range(2):
        assert f"[{rank}] rank {rank} is right" in done.stdout, told
    assert done.returncode == 0, told
