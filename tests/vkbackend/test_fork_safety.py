"""Locks of a forked child, while another thread of its parent holds all of them."""

import os
import re
import threading
from pathlib import Path

import pytest

import vkbackend
from tests.vkbackend.driver.test_instance import run_python
from vkbackend import fork_safety

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class Owner:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        fork_safety.renew(self, "lock", threading.Lock)


def test_a_child_has_another_lock() -> None:
    owner = Owner()
    with owner.lock:
        child = os.fork()
        if child == 0:
            os._exit(int(owner.lock.locked()))
        assert os.waitpid(child, 0)[1] == 0
        assert owner.lock.locked()


def test_an_owner_is_not_kept_alive() -> None:
    before = len(fork_safety._makers)
    owner = Owner()
    assert len(fork_safety._makers) == before + 1
    del owner
    assert len(fork_safety._makers) == before


def test_every_lock_that_lives_on_is_renewed() -> None:
    """One that is made without a line after it that renews it would be missed."""
    made = re.compile(r"(\w+) = threading\.R?Lock\(\)\n(.*\n?)")
    missed = [
        f"{path.name}: {name}"
        for path in Path(vkbackend.__file__).parent.rglob("*.py")
        for name, after in made.findall(path.read_text(encoding="utf-8"))
        if f'"{name}", threading.' not in after
    ]
    # Dropped as a whole, with the threads that use them.
    assert sorted(missed) == ["futures.py: _lock", "memcpy_threads.py: call"]


HELD = """
import contextlib, os, signal, threading, warnings
warnings.simplefilter("ignore")
import vkbackend
import vkbackend.framework as fw
from vkbackend import fork_safety, tuning_cache
from vkbackend.shader import compiler, glslang
SOURCE = "#version 460\\nlayout(local_size_x = 1) in; void main() {}"
device = fw.device(0)
host = fw.ones((3,), device="cpu")
x = fw.ones((1000,), device=device)
double = fw.jit(lambda a: a * 2)
for tensor in (host, x, x):
    double(tensor).numpy()
kept = tuning_cache.Verdicts(vkbackend.open_device(0).info, "1")
taken, done = threading.Event(), threading.Event()

def holds():
    with contextlib.ExitStack() as stack:
        stack.callback(glslang._calls.discard, 0)
        glslang._calls.add(0)
        for owner, makers in list(fork_safety._makers.items()):
            for name in makers:
                stack.enter_context(getattr(owner, name))
        taken.set()
        done.wait()

def autocast():
    with fw.autocast(fw.bfloat16):
        (host.reshape(1, 3) @ host.reshape(3, 1)).numpy()

refused = (
    lambda: double(x).numpy(),
    lambda: fw.jit(lambda a: a + 1)(x),
    x.numpy,
    lambda: (x + 1).numpy(),
    lambda: fw.rand((3,), device=device).numpy(),
    lambda: vkbackend.open_device(),
    lambda: compiler.compile_glsl(SOURCE + "// one", name="one"),
)
works = (
    lambda: fw.rand((3,), device="cpu").numpy(),
    lambda: double(host).numpy(),
    lambda: fw.jit(lambda a: a + 1)(host).numpy(),
    autocast,
    lambda: kept.keep("what", tuning_cache.Verdict("this")),
)
thread = threading.Thread(target=holds)
thread.start()
taken.wait()
child = os.fork()
if child == 0:
    # Ends a child that hangs; no outcome of one that does not depends on it.
    signal.alarm(120)
    status = 0
    for k, call in enumerate(refused):
        try:
            call()
            print("not refused:", k, flush=True)
        except (
            vkbackend.ArgumentError,
            vkbackend.NoVulkanError,
            vkbackend.NoCompilerError,
        ):
            pass
    for call in works:
        call()
    print("all", flush=True)
    os._exit(0)
status = os.waitpid(child, 0)[1]
done.set()
thread.join()
print(status)
"""


@pytest.mark.device
def test_a_child_never_waits_for_a_thread_that_it_has_not() -> None:
    done = run_python(HELD)
    assert (done.stdout, done.stderr, done.returncode) == ("all\n0\n", "", 0)
