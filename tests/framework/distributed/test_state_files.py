"""A state is written to a folder, and read into what there is."""

from pathlib import Path

import pytest

import vkbackend.framework as fw
import vkbackend.framework.distributed.checkpoint as dcp


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
