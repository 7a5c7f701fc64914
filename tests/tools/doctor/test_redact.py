"""Paths of the user go, those of the system stay."""

import pytest

from vkbackend.tools.doctor.redact import hide, user_paths

PATHS = ("/home/jane doe", "/srv/work", "/usr", "/", "relative")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/usr/lib/libvulkan.so.1.3", "/usr/lib/libvulkan.so.1.3"),
        ("in /home/jane doe: no", "in <hidden>: no"),
        ("'/home/jane doe/acme/libx.so.1'", "'<hidden>/libx.so.1'"),
        ("/home/jane doe/acme/plan.txt", "<hidden>"),
        ("/srv/work-2/thing", "<hidden>"),
        ("/srv/work;/srv/work/icd.json", "<hidden>;<hidden>/icd.json"),
        ("/mnt/x/y.json: cannot open", "<hidden>/y.json: cannot open"),
        ("C:\\Users\\jane\\vulkan.dll", "<hidden>/vulkan.dll"),
        ("C:\\Windows\\vulkan-1.dll", "C:\\Windows\\vulkan-1.dll"),
        ("3 GB/s, and/or 1/2", "3 GB/s, and/or 1/2"),
        ("/dev/dri/renderD128", "/dev/dri/renderD128"),
    ],
)
def test_text(text: str, shown: str) -> None:
    assert hide(text, PATHS) == shown


def test_everything_is_looked_through() -> None:
    report = {"a": ["/srv/work/x", {"b": "/usr/x"}], "n": 3, "none": None, "yes": True}
    assert hide(report, PATHS) == {
        "a": ["<hidden>", {"b": "/usr/x"}],
        "n": 3,
        "none": None,
        "yes": True,
    }


def test_known_paths_are_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/jane doe")
    monkeypatch.setenv("VKBACKEND_CACHE", "/data/of jane")
    monkeypatch.setenv("PASSWORD", "/a/secret")
    assert {"/home/jane doe", "/data/of jane"} <= set(user_paths())
    assert "/a/secret" not in user_paths()
