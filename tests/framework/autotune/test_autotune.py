"""Questions, settings and what they refuse."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend import Verdict, config
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base import trace_hooks
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, float16, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec

WHICH = "which?"


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from the environment's settings, with a cache of their own."""
    monkeypatch.setattr(autotune, "_settings", None)
    monkeypatch.setattr(autotune, "measured", [])
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    monkeypatch.delenv(config.AUTOTUNE.name, raising=False)


@pytest.mark.parametrize(
    ("value", "kept", "enabled"),
    [
        (None, True, False),
        ("kept", True, False),
        ("1", True, True),
        ("on", True, True),
        ("0", False, False),
        ("off", False, False),
        ("", False, False),
    ],
)
def test_environment(
    value: str | None, kept: bool, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv(config.AUTOTUNE.name, value)
    found = autotune.settings()
    assert (found.kept, found.enabled) == (kept, enabled)
    assert (found.budget, found.spent) == (autotune.BUDGET, 0.0)


def test_autotune_sets_what_it_says() -> None:
    fw.autotune(budget=3)
    found = autotune.settings()
    assert (found.enabled, found.kept, found.budget) == (True, True, 3.0)
    fw.autotune(False, kept=False)
    assert (found.enabled, found.kept) == (False, False)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"enabled": 1}, TypeError, "enabled is 1; it must be True or False"),
        ({"enabled": False, "kept": None}, TypeError, "kept is None; it must be True"),
        ({"budget": "1"}, TypeError, "budget is '1'; it must be a number"),
        ({"budget": True}, TypeError, "budget is True; it must be a number"),
        ({"budget": -1}, ValueError, "budget is -1; it must be at least 0 seconds"),
        ({"budget": float("nan")}, ValueError, "budget is nan; it must be at least"),
        ({"kept": False}, ValueError, "what is measured is kept"),
    ],
)
def test_autotune_refuses(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    before = vars(autotune.settings()).copy()
    with pytest.raises(error, match=f"^autotune: .*{text}"):
        fw.autotune(**arguments)
    assert vars(autotune.settings()) == before


def tuning_key(
    shape: tuple[int, ...], dtype: DType = float32, layout: Layout | None = None
) -> str:
    x = StridedSpec(shape, dtype, layout or Layout.contiguous(shape))
    return autotune.tuning_key_of("op", {"x": x}, {"tensors": ("x",), "scale": 0.5})


def test_questions_are_about_classes_of_shapes() -> None:
    assert tuning_key((4096, 768)) == "op x=float32[4096/64,1024/64]"
    # Rounded sizes that the same power of two divides are one class.
    assert tuning_key((4096,)) == tuning_key((4096 + 64,))
    assert tuning_key((4096,)) != tuning_key((4096 + 4,))
    assert tuning_key((4096,)) != tuning_key((8192,))
    assert tuning_key((4096,)) != tuning_key((4096,), float16)
    # Small ones are told apart.
    assert len({tuning_key((size,)) for size in range(18)}) == 18


def test_questions_are_about_what_layouts_allow() -> None:
    shape = (64, 64)
    whole = Layout.contiguous(shape)
    found = [
        tuning_key(shape),
        tuning_key(shape, layout=Layout(shape, (1, 64))),
        tuning_key(shape, layout=Layout(shape, (1, 67))),
        tuning_key(shape, layout=Layout(shape, (0, 1))),
        tuning_key(shape, layout=Layout(shape, whole.strides, 1)),
    ]
    assert len(set(found)) == 5
    moved = Layout(shape, whole.strides, 8)
    assert tuning_key(shape, layout=moved) == found[0]
    assert tuning_key(shape, layout=Layout(shape, (1, 128))) == found[1]


def test_questions_name_arguments_but_for_factors() -> None:
    def collected(**params: object) -> str:
        return autotune.tuning_key_of("op", {}, params)

    assert collected(mode="units") != collected(mode="")
    assert collected(dims=(0, 1)) == "op dims=(0,1)"
    assert collected(scale=0.5) == collected(scale=1) == collected(eps=0.25) == "op"


@pytest.mark.device
def test_choices(gpu: GpuDevice) -> None:
    info = gpu.gpu.info
    with autotune.collecting_keys() as collected:
        assert autotune.choice(info, WHICH) == autotune.DEFAULT
    assert list(collected) == [WHICH]
    generation = gpu.generation
    autotune.keep_result(info, WHICH, Verdict("other", {}))
    assert gpu.generation > generation
    with autotune.collecting_keys() as collected:
        assert autotune.choice(info, WHICH) == "other"
        with autotune.forced_candidate(WHICH, "third"):
            assert autotune.choice(info, WHICH) == "third"
            assert autotune.choice(info, "what?") == autotune.DEFAULT
    assert list(collected) == ["what?"]
    fw.autotune(False, kept=False)
    assert autotune.choice(info, WHICH) == autotune.DEFAULT
    fw.autotune(False)
    assert autotune.choice(info, WHICH) == "other"
    autotune.forget(info)
    assert autotune.choice(info, WHICH) == autotune.DEFAULT
    assert [row.tuning_key for row in autotune.measured] == [WHICH]


@pytest.mark.device
def test_a_verdict_for_the_default_changes_no_schedule(gpu: GpuDevice) -> None:
    generation = gpu.generation
    autotune.keep_result(gpu.gpu.info, WHICH, Verdict(autotune.DEFAULT, {}))
    assert gpu.generation == generation


@pytest.mark.device
def test_when_measuring_must_wait(gpu: GpuDevice) -> None:
    device = gpu.gpu
    assert not autotune.measures(device)
    fw.autotune()
    assert autotune.measures(device)
    generation = autotune.generation(gpu)
    assert generation > 0
    with autotune.paused():
        assert not autotune.measures(device)
        # What is scheduled now is found again only while measuring has to wait.
        assert autotune.generation(gpu) < 0
    with fw.profile(device.name):
        assert not autotune.measures(device)

    class Trace:
        pass

    with trace_hooks.listening(Trace()):  # type: ignore[arg-type]  # hears nothing
        assert not autotune.measures(device)
        others: list[bool] = []
        thread = threading.Thread(
            target=lambda: others.append(autotune.measures(device))
        )
        thread.start()
        thread.join()
        assert others == [True]
    fw.autotune(budget=0)
    assert not autotune.measures(device)


@pytest.mark.device
def test_another_version_of_the_candidates_has_no_verdicts(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    autotune.keep_result(info, WHICH, Verdict("other", {}))
    monkeypatch.setattr(autotune, "VERSION", autotune.VERSION + 1)
    assert autotune.choice(info, WHICH) == autotune.DEFAULT


def test_the_switch_is_read_late(tmp_path: Path) -> None:
    program = (
        "import os, vkbackend.framework as fw\n"
        "from vkbackend.framework.autotune import autotune\n"
        f"os.environ['{config.AUTOTUNE.name}'] = '1'\n"
        "print(autotune.settings().enabled)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=dict(os.environ),
        timeout=300,
    )
    assert done.stdout == "True\n"
