import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from vkbackend.tools.models.cli import main


def test_a_server_is_started_and_ended(folder: Path) -> None:
    """At the second signal, which does not wait for texts, clients are told."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-m", "vkbackend.tools.models", "serve", str(folder)]
    options = ["--device", "cpu", "--port", "0", "--length", "30000", "--name", "it"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        said = server.stderr.readline().decode().split()
        try:
            assert said[:2] == ["it", "at"]
            asked = {"model": "it", "prompt": "the cat", "max_tokens": 3}
            answer = httpx.post(f"{said[2]}/completions", json=asked, timeout=30)
            assert answer.json()["usage"]["completion_tokens"] <= 3
            # A greedy text of this model does not end by itself.
            asked |= {"max_tokens": 29_000, "stream": True, "temperature": 0}
            with httpx.stream("POST", f"{said[2]}/completions", json=asked) as parts:
                lines = parts.iter_lines()
                assert "choices" in next(lines)
                server.send_signal(signal.SIGINT)
                server.send_signal(signal.SIGTERM)
                *_, last = filter(None, lines)
            assert "WorkerClosedError" in last
        finally:
            server.terminate()
            server.wait(30)
        assert server.stderr.read() == b""
        assert server.returncode == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["--batch", "0"], "Engine: rows is 0; it must be at least 1"),
        (["--queue", "-1"], "queue is -1; it must be at least 0"),
        (["--tokens", "0"], "tokens is 0; it must be at least 1"),
    ],
)
def test_wrong_settings(
    folder: Path,
    settings: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("fastapi")
    assert main(["serve", str(folder), "--device", "cpu", *settings]) == 1
    assert capsys.readouterr().err == f"vkmodels serve: {message}\n"


def test_a_port_that_is_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fastapi")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", str(folder), "--device", "cpu", "--port", port]) == 1
    assert "in use" in capsys.readouterr().err


def test_a_missing_package(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", str(folder), "--device", "cpu"]) == 1
    assert "pip install 'vkbackend[serve]'" in capsys.readouterr().err
