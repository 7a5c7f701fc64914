"""The doctor as users run it: five situations, two kinds of text, nothing private."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vkbackend import config
from vkbackend.tools.doctor import cli

NO_TESTS = ("--json", "--no-tests")


def test_no_loader(doctor: Callable[..., Any]) -> None:
    told = doctor("--json", VKBACKEND_LOADER="/nowhere/libvulkan.so.1")
    assert told.status == 1
    assert told.report["diagnosis"]["situation"] == "no Vulkan loader"
    assert (
        "install the package libvulkan1" in told.problems["no Vulkan loader"]["advice"]
    )
    assert told.report["tests"] == []


@pytest.mark.device
def test_loader_without_drivers(doctor: Callable[..., Any]) -> None:
    nowhere = "/nowhere/icd.json"
    told = doctor("--json", VK_DRIVER_FILES=nowhere, VK_ICD_FILENAMES=nowhere)
    assert told.status == 1
    situation = "a Vulkan loader without a driver"
    assert told.report["diagnosis"]["situation"] == situation
    assert "mesa-vulkan-drivers" in told.problems[situation]["advice"]


@pytest.mark.wide
@pytest.mark.device
@pytest.mark.parametrize(
    ("name", "device"), [("lavapipe", "llvmpipe"), ("swiftshader", "SwiftShader")]
)
def test_software_only(
    name: str,
    device: str,
    doctor: Callable[..., Any],
    driver: Callable[[str], dict[str, str]],
) -> None:
    told = doctor("--json", **driver(name), VKBACKEND_DEVICE="")
    assert told.status == 0, told.text
    assert f"only a software device, {device}" in told.report["diagnosis"]["situation"]
    assert (
        "install your GPU's driver" in told.problems["only a software device"]["advice"]
    )
    statuses = {row["name"]: row["status"] for row in told.report["tests"]}
    assert set(statuses.values()) <= {"ok", "skipped"}
    assert statuses["arithmetic"] == "ok"
    skipped = {name for name, status in statuses.items() if status == "skipped"}
    assert ("64 bits" in skipped) == (name == "swiftshader")
    assert all(row["reason"] for row in told.report["tests"] if row["status"] != "ok")


@pytest.mark.device
def test_no_compiler(doctor: Callable[..., Any], tmp_path: Path) -> None:
    # A module without libraries hides the package, broken ones hide the system's.
    (tmp_path / "slangpy.py").touch()
    for name in ("libshaderc_shared.so.1", "libshaderc.so.1"):
        (tmp_path / name).write_text("no library")
    others = os.environ.get("LD_LIBRARY_PATH", "")
    libraries = f"{tmp_path}{os.pathsep}{others}".rstrip(os.pathsep)
    told = doctor(
        "--json",
        search=str(tmp_path),
        LD_LIBRARY_PATH=libraries,
        PATH=str(tmp_path),
        VKBACKEND_GLSLANG="",
    )
    assert told.status == 1
    assert told.report["diagnosis"]["situation"] == "no GLSL compiler"
    remedy = "pip install 'vkbackend[glslang]'"
    assert remedy in told.problems["no GLSL compiler"]["advice"]
    statuses = {row["name"]: row["status"] for row in told.report["tests"]}
    assert (statuses["copy"], statuses["arithmetic"]) == ("ok", "skipped")


@pytest.mark.device
def test_a_driver_that_crashes_is_named(
    doctor: Callable[..., Any], tmp_path: Path
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler to make a driver that crashes")
    source = tmp_path / "driver.c"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) void f(void) { abort(); }\n"
    )
    library = tmp_path / "libcrash.so"
    subprocess.run((compiler, "-shared", "-fPIC", source, "-o", library), check=True)
    manifest = tmp_path / "crash.json"
    content = {"library_path": str(library), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": content}))
    files = str(manifest)
    told = doctor(*NO_TESTS, VK_DRIVER_FILES=files, VK_ICD_FILENAMES=files)
    assert told.status == 1
    assert told.report["diagnosis"]["situation"] == "the drivers break Vulkan"
    assert "SIGABRT" in told.problems["a driver breaks"]["detail"]
    assert "update or remove crash.json" in told.problems["a driver breaks"]["advice"]


@pytest.mark.device
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_driver_that_hangs_is_named(
    doctor: Callable[..., Any], tmp_path: Path
) -> None:
    manifest = str(tmp_path / "hang.json")
    os.mkfifo(manifest)
    files = {"VK_DRIVER_FILES": manifest, "VK_ICD_FILENAMES": manifest}
    told = doctor(*NO_TESTS, "--limit", "2", **files)
    assert told.status == 1
    assert "hang.json" in told.problems["a driver breaks"]["advice"]
    assert "no answer in 2 s" in told.problems["a driver breaks"]["detail"]


@pytest.mark.device
def test_no_path_of_the_user_is_printed(
    doctor: Callable[..., Any], tmp_path: Path
) -> None:
    cache = str(tmp_path / "a cache of Jane")
    hidden = doctor("--no-tests", VKBACKEND_CACHE=cache)
    assert hidden.status == 0, hidden.text
    assert "Jane" not in hidden.text
    home = Path.home()
    # A user without a home has the root for it, which is part of every path.
    assert home == home.parent or str(home) not in hidden.text
    assert max(map(len, hidden.text.splitlines())) <= 80
    shown = doctor(*NO_TESTS, "--paths", VKBACKEND_CACHE=cache)
    assert shown.report["caches"]["value"]["folder"] == cache


@pytest.mark.device
def test_a_device_that_is_not_there(doctor: Callable[..., Any]) -> None:
    told = doctor(*NO_TESTS, "--device", "voodoo")
    assert told.status == 1
    situation = "the selected device cannot be used"
    assert told.report["diagnosis"]["situation"] == situation
    advice = told.problems[situation]["advice"]
    assert "give part of a name, or the number" in advice


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "soon"])
def test_a_limit_must_be_a_time(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--limit", limit])
    assert caught.value.code == 2
    assert "--limit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "variables", "coloured"),
    [("auto", {}, False), ("always", {}, True), ("never", {}, False)],
)
def test_colour(
    option: str,
    variables: dict[str, str],
    coloured: bool,
    report: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "gather", lambda options, progress: report)
    monkeypatch.delenv(config.VALIDATION.name, raising=False)
    assert cli.main(["--color", option]) == 0
    assert ("\033[" in capsys.readouterr().out) == coloured


def test_options_are_handed_on(
    report: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = []

    def gather(options: Any, progress: Any) -> dict[str, Any]:
        asked.append(options)
        return report

    monkeypatch.setattr(cli, "gather", gather)
    cli.main(["--device", "1", "--no-tests", "--limit", "5", "--json"])
    assert asked == [cli.Options("1", False, 5.0)]
    assert json.loads(capsys.readouterr().out)["diagnosis"]["works"] is True


def test_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(options: Any, progress: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "gather", interrupt)
    assert cli.main([]) == 130
