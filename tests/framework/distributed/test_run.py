"""The launcher runs a script as the only process; several: `test_launcher`."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from vkbackend.framework.distributed.run import get_args_parser, main, run

SCRIPT = """
import json, os, sys
names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"
found = [os.environ[name] for name in names]
open(sys.argv[1], "w").write(json.dumps([found, sys.argv[2:]]))
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a script that writes its environment and ends with a status."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_the_script_is_the_only_process(script: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    options = ["--nproc_per_node=1", "--nnodes", "1", "--master-port", "1234"]
    main([*options, "--standalone", str(script), str(out), "0", "--lr=1"])
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found == [["0", "0", "1", "127.0.0.1", "1234"], ["0", "--lr=1"]]


def test_its_status_is_told(script: Path, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        main([str(script), str(tmp_path / "out.json"), "3"])


def test_several_machines_are_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"launch --hosts"):
        run(get_args_parser().parse_args(["--nnodes=1:4", "script.py"]))


def test_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def launch(command: list[str], count: int, variables: dict[str, str]) -> int:
        calls.append((command[-2:], count, "MASTER_ADDR" in variables, variables))
        return 3

    monkeypatch.setattr("vkbackend.framework.distributed.run.launch", launch)
    options = get_args_parser().parse_args(["--nproc-per-node=2", "script.py", "a"])
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        run(options)
    assert calls[0][:3] == (["script.py", "a"], 2, True)
    assert "RANK" not in calls[0][3]


def test_a_script_is_a_module_or_a_program() -> None:
    with pytest.raises(ValueError, match="one of them only"):
        main(["--module", "--no-python", "script"])
