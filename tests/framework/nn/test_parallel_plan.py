"""Transformers divided among ranks are trained as whole ones."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from tests.rank_processes import run_ranks
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.base.errors import DistributedError, ShapeError
from vkbackend.framework.communication.group import Group
from vkbackend.framework.io.part_files import PartReader, write_parts
from vkbackend.framework.optim.divided_state import (
    gathered,
    load_model_state,
    load_optimizer_state,
    model_state,
    optimizer_state,
)

KILLED = Path(__file__).with_name("killed_program.py")

WIDTH, HEADS, STEPS = 8, 4, 3


class Attention(nn.Module):
    """Attention that takes the number of heads from the sizes of its layers."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH))
        self.q_norm = nn.RMSNorm(WIDTH // HEADS)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        layers = self.q_proj, self.k_proj, self.v_proj
        cut = *x.shape[:2], -1, WIDTH // HEADS
        q, k, v = (each(x).reshape(*cut).transpose(1, 2) for each in layers)
        found = nn.functional.scaled_dot_product_attention(
            self.q_norm(q), k, v, is_causal=True
        )
        out: fw.Tensor = self.o_proj(found.transpose(1, 2).reshape(*x.shape[:2], -1))
        return out


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.norm = nn.LayerNorm(WIDTH)
        self.gate_proj, self.up_proj = nn.Linear(WIDTH, 16), nn.Linear(WIDTH, 16)
        self.down_proj = nn.Linear(16, WIDTH, bias=False)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = x + self.attention(self.norm(x))
        gate = nn.functional.silu(self.gate_proj(x))
        out: fw.Tensor = x + self.down_proj(gate * self.up_proj(x))
        return out


def gpt(seed: int) -> nn.Module:
    with fw.random.fork_rng():
        fw.manual_seed(seed)
        layers = nn.Embedding(7, WIDTH), Block(), Block(), nn.Linear(WIDTH, 7)
        return nn.Sequential(*layers)


def train(model: nn.Module, optimizer: Any = None) -> list[float]:
    if optimizer is None:
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rng, losses = np.random.default_rng(0), []
    for _ in range(STEPS):
        x, y = (fw.tensor(rng.integers(0, 7, (2, 3))) for _ in range(2))
        optimizer.zero_grad()
        out = model(x)
        loss = nn.functional.cross_entropy(out.reshape(-1, 7), y.reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("size", [1, 2, pytest.param(4, marks=pytest.mark.wide)])
def test_transformer(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    models, alone = [gpt(seed) for seed in range(size)], gpt(0)

    def work(group: Group) -> Any:
        model = nn.tensor_parallel(models[group.rank], group)
        assert model[1].down_proj.weight.shape == (WIDTH, 16 // size)
        losses = train(model)
        return losses, nn.whole_state_dict(model)

    results = as_threads(monkeypatch, size, 4096).run(work)
    expected = train(alone)
    for losses, state in results:
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        assert [*state] == [*alone.state_dict()]
        for key, value in alone.state_dict().items():
            np.testing.assert_allclose(
                state[key].numpy(), value.numpy(), rtol=1e-3, atol=1e-6, err_msg=key
            )
            assert key.endswith("norm.weight") or fw.equal(
                state[key], results[0][1][key]
            )


def test_plans_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="fits no layer of Linear; give one"):
        nn.tensor_parallel(nn.Linear(1, 1))
    with pytest.raises(
        ValueError, match="kind 'rows'; it must be 'column', 'row', 'heads'"
    ):
        nn.tensor_parallel(nn.Linear(1, 1), plan={"*": "rows"})


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 16, dropout=0.0, batch_first=True
        )

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        out: fw.Tensor = self.layer(x, is_causal=True)
        return out


class WithTokens(nn.Module):
    """Tokens, a part of a model, and logits."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.tokens, self.inner = nn.Embedding(7, WIDTH), inner
        self.head = nn.Linear(WIDTH, 7)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        out: fw.Tensor = self.head(self.inner(self.tokens(x)))
        return out


def gpt2() -> nn.Module:
    sizes = {"vocab_size": 7, "n_embd": WIDTH, "n_layer": 2, "n_head": HEADS}
    config = {"model_type": "gpt2", "n_positions": 4, **sizes}
    model = fw.models.GPT2(fw.models.ModelConfig(config, "config.json"))
    for each in model.parameters():
        nn.init.normal_(each, std=0.4)
    return model


def phi3() -> nn.Module:
    sizes = {"vocab_size": 7, "hidden_size": 16, "intermediate_size": 12}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4}
    config = {"model_type": "phi3", "num_hidden_layers": 1, **sizes, **heads}
    settings = fw.models.ModelConfig(
        {**config, "max_position_embeddings": 8}, "config.json"
    )
    model = fw.models.Phi3(settings)
    for each in model.parameters():
        nn.init.normal_(each, std=0.4)
    return model


FUSED = {
    "gpt2": (gpt2, "transformer.h.0.attn.c_attn.weight"),
    "phi3": (phi3, "model.layers.0.self_attn.qkv_proj.weight"),
    "encoder": (lambda: WithTokens(Encoder()), "inner.layer.self_attn.in_proj_weight"),
}


def made(name: str, seed: int) -> nn.Module:
    with fw.random.fork_rng():
        fw.manual_seed(seed)
        return FUSED[name][0]()


@pytest.mark.parametrize(
    ("name", "size", "then"),
    [
        ("gpt2", 2, 1),
        ("phi3", 2, 4),
        ("encoder", 2, 1),
        *(
            pytest.param(name, size, then, marks=pytest.mark.wide)
            for name in FUSED
            for size, then in ((1, 4), (4, 2), (4, 1))
        ),
    ],
)
def test_fused_projections(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, size: int, then: int
) -> None:
    """Train, write a checkpoint, and go on from it with another number of ranks."""
    models, alone = [made(name, seed) for seed in range(max(size, then))], made(name, 0)
    whole_shape = alone.state_dict()[FUSED[name][1]].shape

    def optimizer_of(model: nn.Module) -> Any:
        return fw.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def save(group: Group) -> Any:
        model = nn.tensor_parallel(models[group.rank], group)
        fused = model.state_dict()[FUSED[name][1]]
        assert fused.numel() * size == whole_shape.numel()
        optimizer = optimizer_of(model)
        losses = train(model, optimizer)
        state = {
            "model": model_state(model),
            "optimizer": optimizer_state(model, optimizer),
        }
        write_parts(state, tmp_path, group)
        whole = nn.whole_state_dict(model)
        for key, each in gathered(state, group)["model"].items():
            assert fw.equal(each, whole[key]), key
        return losses, whole

    def load(group: Group) -> Any:
        model = nn.tensor_parallel(made(name, 5 + group.rank), group)
        optimizer, reader = optimizer_of(model), PartReader(tmp_path)
        load_model_state(model, reader, ("model",))
        load_optimizer_state(model, optimizer, reader, ("optimizer",))
        for key, each in nn.whole_state_dict(model).items():
            assert fw.equal(each, results[0][1][key]), key
        return train(model, optimizer), nn.whole_state_dict(model)

    results = as_threads(monkeypatch, size, 4096).run(save)
    optimizer = optimizer_of(alone)
    check(alone, train(alone, optimizer), results)
    results_after = as_threads(monkeypatch, then, 4096).run(load)
    check(alone, train(alone, optimizer), results_after)


def check(alone: nn.Module, expected: list[float], results: list[Any]) -> None:
    for losses, state in results:
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        assert [*state] == [*alone.state_dict()]
        for key, value in alone.state_dict().items():
            np.testing.assert_allclose(
                state[key].numpy(), value.numpy(), rtol=2e-3, atol=1e-4, err_msg=key
            )


def test_ranks_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other modules, plans and heads that ranks cannot divide, they say so."""

    def work(group: Group) -> None:
        layers = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2 + group.rank)
        model = nn.Sequential(*layers)
        with pytest.raises(DistributedError, match=r"rank 1 has 2\.weight: float32"):
            nn.tensor_parallel(model, group, {"0": "column", "1": "row"})
        plan = {"0": "column"} if group.rank else {"0": "column", "1": "row"}
        with pytest.raises(
            DistributedError, match="0 and 1 divide different layers: 1"
        ):
            nn.tensor_parallel(model, group, plan)
        assert type(model[0]) is nn.Linear
        wrong = nn.TransformerEncoderLayer(6, 3, 4)
        with pytest.raises(ShapeError, match="self_attn: num_heads is 3; it must be a"):
            nn.tensor_parallel(wrong, group)

    as_threads(monkeypatch, 2).run(work)


@pytest.mark.wide
@pytest.mark.device
@pytest.mark.parametrize("kind", ["pipeline", "tensor"])
@pytest.mark.parametrize("number", range(10))
def test_a_rank_is_killed_while_it_trains(
    monkeypatch: pytest.MonkeyPatch, kind: str, number: int
) -> None:
    """The others tell of it and end, and no shared pages are left."""
    monkeypatch.setenv("PYTHONPATH", str(KILLED.parents[3]))
    moment, size = 0.05 * 1.7**number, 2 + 2 * (number % 2)
    before, victim = set(os.listdir("/dev/shm")), number % size
    done = run_ranks(size, KILLED, kind, str(moment), str(victim))
    told = done.stdout + done.stderr
    assert f"launch: rank {victim} was killed by signal 9" in told
    for rank in set(range(size)) - {victim}:
        lines = [x for x in told.splitlines() if x.startswith(f"[{rank}] told")]
        assert len(lines) == 1, told
        reasons = f"rank {victim} was killed", "given up", "has failed before"
        assert [each for each in reasons if each in lines[0]], told
    left = {name for name in set(os.listdir("/dev/shm")) - before if "mpi" in name}
    assert left == set()


@pytest.mark.parametrize("name", ["gpt2", "phi3", "llama"])
def test_generation(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each rank's cache has the heads that it computes; texts are those of one."""

    def model_of(seed: int) -> Any:
        with fw.random.fork_rng():
            fw.manual_seed(seed)
            return small_llama() if name == "llama" else FUSED[name][0]()

    models, alone = [model_of(0) for _ in range(2)], model_of(0)
    tokens = fw.tensor([[1, 2], [4, 5]])
    wanted = fw.models.generate(alone, tokens, 2)

    def work(group: Group) -> Any:
        model = nn.tensor_parallel(models[group.rank], group)
        whole, own = (each.new_cache(1, 4) for each in (alone, model))
        assert own._keys[0].shape[1] * 2 == whole._keys[0].shape[1]
        return fw.models.generate(model, tokens, 2).tolist()

    assert as_threads(monkeypatch, 2, 4096).run(work) == [wanted.tolist()] * 2
