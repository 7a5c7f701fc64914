"""A state is written to a folder, and read into what there is."""

from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
import vkbackend.framework.distributed.checkpoint as dcp
from tests.rank_threads import as_threads
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication.group import Group


def test_what_is_written_is_read(tmp_path: Path) -> None:
    model = fw.nn.Linear(2, 1)
    weight = model.weight.detach().clone()
    state = {"model": model, "step": 3, "more": {"x": fw.ones(2)}}
    written = dcp.save(state, checkpoint_id=tmp_path / "a")
    assert written.state_dict_metadata["model.weight"] == (1, 2)
    reader = dcp.FileSystemReader(tmp_path / "a")
    assert reader.read_metadata() == written
    x = fw.zeros(2)
    with fw.no_grad():
        model.weight.zero_()
    other = {"model": model, "step": 0, "more": {"x": x}}
    dcp.load_state_dict(other, reader)
    assert (other["step"], x.tolist()) == (3, [1.0, 1.0])
    assert fw.equal(model.weight, weight)
    with pytest.raises(RuntimeError, match="'y' is not in what was written"):
        dcp.load({"step": 1, "y": x}, storage_reader=reader)
    dcp.load(
        {"y": x},
        storage_reader=reader,
        planner=dcp.DefaultLoadPlanner(allow_partial_load=True),
    )
    with pytest.raises(RuntimeError, match=r"'more.x' has shape \(3,\)"):
        dcp.load({"more": {"x": fw.ones(3)}}, checkpoint_id=tmp_path / "a")
    writer = dcp.FileSystemWriter(tmp_path / "a", overwrite=False)
    with pytest.raises(RuntimeError, match="overwrite is False"):
        dcp.save_state_dict(state, writer)
    with pytest.raises(ValueError, match="pass a folder"):
        dcp.save(state)
    assert dcp.async_save(state, checkpoint_id=tmp_path / "b").result() == written


def test_an_optimizer_is_read_beside_its_model(tmp_path: Path) -> None:
    model = fw.nn.Linear(2, 1)
    optimizer = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(fw.ones(1, 2)).sum().backward()
    optimizer.step()
    checkpoint = fw.distributed.checkpoint
    checkpoint.save({"model": model, "optim": optimizer}, checkpoint_id=tmp_path)
    reader = checkpoint.FileSystemReader(tmp_path)
    load = checkpoint.optimizer.load_sharded_optimizer_state_dict
    found = load(model.state_dict(), "optim", reader)["optim"]
    momentum = found["state"][0]["momentum_buffer"]
    assert fw.equal(momentum, optimizer.state_dict()["state"][0]["momentum_buffer"])
    with pytest.raises(KeyError, match="has no 'other'; it has model, optim"):
        load(model.state_dict(), "other", reader)


def test_several_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each has its parts, and another number of them reads them."""
    states = dcp.state_dict
    full = states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)

    def made(group: Group, seed: int) -> tuple[Any, Any]:
        fw.manual_seed(seed)
        model = fw.nn.FSDP(fw.nn.Linear(3, 5), group)
        optimizer = fw.optim.Adam(model.parameters())
        model(fw.ones(1, 3)).sum().backward()
        optimizer.step()
        return model, optimizer

    def save(group: Group) -> Any:
        model, optimizer = made(group, 0)
        own, moments = states.get_state_dict(model, optimizer)
        state = {"model": own, "optim": moments, "n": 1}
        dcp.save(state, checkpoint_id=tmp_path, process_group=group)
        return states.get_state_dict(model, optimizer, options=full)

    def load(group: Group) -> Any:
        model, optimizer = made(group, group.rank)
        own, moments = states.get_state_dict(model, optimizer)
        state: Any = {"model": own, "optim": moments, "n": 0}
        dcp.load(state, checkpoint_id=tmp_path, process_group=group)
        first = states.get_state_dict(model, optimizer, options=full)
        given = {"model_state_dict": {}, "optim_state_dict": {}}
        if group.rank == 0:
            given = {"model_state_dict": first[0], "optim_state_dict": first[1]}
        states.set_state_dict(model, optimizer, **given, options=full)
        again = states.get_state_dict(model, optimizer, options=full)
        return state["n"], first, again

    (model, optim), _ = as_threads(monkeypatch, 2).run(save)
    assert model["weight"].shape == optim["state"]["weight"]["exp_avg"].shape == (5, 3)
    for count, *found in as_threads(monkeypatch, 3).run(load):
        assert count == 1
        for other, moments in found:
            for name, value in model.items():
                assert fw.equal(other[name], value)
                for key in ("exp_avg", "exp_avg_sq"):
                    entry = optim["state"][name][key]
                    assert fw.equal(moments["state"][name][key], entry)
    assert set(dcp.FileSystemReader(tmp_path).read_metadata().state_dict_metadata)


def test_numbers_of_a_stages_parameters_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    states = dcp.state_dict
    layers = [[fw.nn.Linear(3, 3), fw.nn.Linear(3, 3)] for _ in range(2)]

    def work(group: Group) -> None:
        model = fw.nn.Pipeline(layers[group.rank], 1, group)
        optimizer = fw.optim.Adam(model.parameters())
        with pytest.raises(DistributedError, match=r"stage of a Pipeline"):
            dcp.save({"optim": optimizer}, checkpoint_id=tmp_path, process_group=group)
        named = states.get_optimizer_state_dict(model, optimizer)
        dcp.save({"optim": named}, checkpoint_id=tmp_path, process_group=group)

    as_threads(monkeypatch, 2).run(work)
