import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

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


CLIENTS, ROUNDS = 64, 12
"""Clients at once, and how many texts each asks for, one after the other."""


def _resident(process: int) -> int:
    """Return the bytes of memory that a process has."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.wide
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_64_clients_lose_nothing_and_memory_is_bounded(folder: Path) -> None:
    """Each has all its texts, in the end; later rounds take no more memory."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-m", "vkbackend.tools.models", "serve", str(folder)]
    options = ["--device", "cpu", "--port", "0", "--length", "64", "--name", "it"]
    options += ["--batch", "8", "--pages", "24", "--queue", "24"]
    prompts = ["the", "cat", "sat", "on", "mat", "dog", "too", "and"]
    texts: dict[str, set[str]] = {prompt: set() for prompt in prompts}
    refused, sizes, health = 0, [], {}

    async def ask(client: Any, number: int, url: str) -> None:
        nonlocal refused
        prompt = prompts[number % len(prompts)]
        asked = {"model": "it", "prompt": prompt, "max_tokens": 12, "temperature": 0}
        streams = number % 3 == 0
        while True:
            answer = await client.post(url, json=asked | {"stream": streams})
            if answer.status_code == 200:
                break
            assert answer.json()["error"]["code"] == "queue_full"
            refused += 1
            await asyncio.sleep(0.05)
        if not streams:
            texts[prompt].add(answer.json()["choices"][0]["text"])
            return
        lines = [line[6:] for line in answer.text.splitlines() if line]
        assert lines.pop() == "[DONE]"
        parts = [json.loads(line)["choices"][0]["text"] for line in lines]
        texts[prompt].add("".join(parts))

    async def rounds(address: str, process: int) -> None:
        limits = httpx.Limits(max_connections=CLIENTS)
        async with httpx.AsyncClient(limits=limits, timeout=300) as client:
            for _ in range(ROUNDS):
                url = f"{address}/completions"
                await asyncio.gather(*(ask(client, n, url) for n in range(CLIENTS)))
                sizes.append(_resident(process))
            found = await client.get(f"{address.removesuffix('/v1')}/health")
            health.update(found.json())

    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        try:
            address = server.stderr.readline().decode().split()[2]
            asyncio.run(rounds(address, server.pid))
        finally:
            server.terminate()
            server.wait(60)
    # One greedy text for each prompt, however it was batched and streamed.
    assert [len(each) for each in texts.values()] == [1] * len(prompts)
    assert refused > 0
    assert (health["running"], health["waiting"]) == (0, 0)
    assert health["free_pages"] == health["pages"]
    # Python's own allocator settles in the first rounds.
    assert max(sizes[3:]) < max(sizes[:3]) + (16 << 20), sizes


def test_connections_are_kept_longer_than_clients_keep_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpx, uvicorn = pytest.importorskip("httpx"), pytest.importorskip("uvicorn")
    given: dict[str, Any] = {}

    def config(_: Any, **options: Any) -> Any:
        given.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn, "Config", config)
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        main(["serve", str(folder), "--device", "cpu"])
    assert given["timeout_keep_alive"] > httpx.Limits().keepalive_expiry


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
