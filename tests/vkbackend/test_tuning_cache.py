"""Verdicts on disk: kept, shared, and ignored where they do not belong."""

import dataclasses
import json
import threading
import warnings
from pathlib import Path

import pytest

import vkbackend
from vkbackend import Verdict, Verdicts, config, verdict_file
from vkbackend.tuning_cache import _warn_once

pytestmark = pytest.mark.device

SEEN = Verdict("second", {"first": 2.0, "second": 1.5}, "first")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    _warn_once.cache_clear()


@pytest.fixture
def info(device: vkbackend.Device) -> vkbackend.DeviceInfo:
    return device.info


def test_kept_and_found_again(info: vkbackend.DeviceInfo, tmp_path: Path) -> None:
    first = Verdicts(info, "1")
    assert first.get("which?") is None
    assert not first.file.exists()
    first.keep("which?", SEEN)
    second = Verdicts(info, "1")
    assert (len(second), second.get("which?")) == (1, SEEN)
    assert second.rows() == {"which?": SEEN}
    assert first.file.is_relative_to(tmp_path)
    content = json.loads(first.file.read_text(encoding="utf-8"))
    assert content["device"] == info.name
    assert content["verdicts"]["which?"]["choice"] == "second"


def test_processes_add_to_each_other(info: vkbackend.DeviceInfo) -> None:
    one, other = Verdicts(info, "1"), Verdicts(info, "1")
    one.keep("a", SEEN)
    other.keep("b", SEEN)
    assert set(Verdicts(info, "1").rows()) == {"a", "b"}


def test_threads_lose_nothing(info: vkbackend.DeviceInfo) -> None:
    table = Verdicts(info, "1")

    def keep(start: int) -> None:
        for number in range(start, start + 10):
            table.keep(str(number), SEEN)

    threads = [threading.Thread(target=keep, args=(10 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Verdicts(info, "1")) == 40


def test_forgotten(info: vkbackend.DeviceInfo) -> None:
    table = Verdicts(info, "1")
    table.forget()
    table.keep("which?", SEEN)
    table.forget()
    assert table.get("which?") is None
    assert not table.file.exists()


def test_another_device_driver_or_version_has_none(info: vkbackend.DeviceInfo) -> None:
    Verdicts(info, "1").keep("which?", SEEN)
    assert len(Verdicts(info, "2")) == 0
    for change in (
        {"driver_version": info.driver_version + 1},
        {"device_id": info.device_id + 1},
        {"pipeline_cache_uuid": "0" * 32},
        # In the same file, but not by this driver.
        {"driver_info": info.driver_info + "-next"},
    ):
        assert len(Verdicts(dataclasses.replace(info, **change), "1")) == 0
    assert len(Verdicts(info, "1")) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[1, 2]",
        b"[" * 100_000,
        b'{"version": "1"}',
        b"null",
    ],
)
def test_damaged_files_count_as_empty(
    content: bytes, info: vkbackend.DeviceInfo
) -> None:
    file = verdict_file(info)
    file.parent.mkdir()
    file.write_bytes(content)
    table = Verdicts(info, "1")
    assert len(table) == 0
    table.keep("which?", SEEN)
    assert Verdicts(info, "1").get("which?") == SEEN


@pytest.mark.parametrize(
    "row",
    [
        None,
        3,
        {},
        {"choice": 1, "seconds": {}},
        {"choice": "second"},
        {"choice": "second", "seconds": {"second": "quick"}},
    ],
)
def test_a_row_that_is_no_verdict_is_left_out(
    row: object, info: vkbackend.DeviceInfo
) -> None:
    table = Verdicts(info, "1")
    table.keep("which?", SEEN)
    content = json.loads(table.file.read_text(encoding="utf-8"))
    content["verdicts"]["broken?"] = row
    table.file.write_text(json.dumps(content), encoding="utf-8")
    assert set(Verdicts(info, "1").rows()) == {"which?"}


def test_a_folder_that_cannot_be_written_is_said_once(
    info: vkbackend.DeviceInfo, tmp_path: Path
) -> None:
    (tmp_path / "tuning").write_bytes(b"")
    table = Verdicts(info, "1")
    with pytest.warns(RuntimeWarning, match="verdicts: cannot write to"):
        table.keep("a", SEEN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.keep("b", SEEN)
    assert table.get("b") == SEEN
