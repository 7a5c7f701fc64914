"""Vulkan drivers beside the installed one, fetched without changing the system.

A driver is unpacked from a Debian package into a private folder and chosen through the
environment, so several can be had on one machine:

=========== ================================================= ======================
name        what it is                                        where it comes from
=========== ================================================= ======================
system      whatever the loader finds                         installed
lavapipe    Mesa's software driver                            installed, or Debian
lavapipe25  the same, two years newer                         Debian's backports
swiftshader Google's software driver, with few features       Debian, in chromium-common
radv        Mesa's driver of AMD GPUs, to compile for them    Debian's backports
=========== ================================================= ======================

Command line: `python -m vkbackend.tools.drivers NAME` fetches the driver and prints the
environment to run with, so `env $(...) vulkaninfo` uses it.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vkbackend import config

MANIFEST_FOLDERS = (
    Path("/etc/vulkan/icd.d"),
    Path("/usr/local/share/vulkan/icd.d"),
    Path("/usr/share/vulkan/icd.d"),
)
# Mesa's package holds more than lavapipe; these are not wanted.
OTHER_DRIVERS = ("libvulkan_", "libVkLayer")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class DriverError(Exception):
    """A driver that cannot be fetched; the message says why."""


@dataclass(frozen=True)
class Driver:
    """A driver that Debian packages.

    Parameters
    ----------
    package : str
        The Debian package that holds it.
    suite : str
        Where the package is: the release's name plus this suffix.
    with_dependencies : bool
        Whether to fetch the libraries it needs too, where the machine lacks them.
    manifest : str
        Pattern of the manifest's name, to find it both installed and unpacked.
    """

    package: str
    suite: str
    with_dependencies: bool
    manifest: str


DRIVERS = {
    "lavapipe": Driver("mesa-vulkan-drivers", "", True, "lvp_icd*.json"),
    "lavapipe25": Driver("mesa-vulkan-drivers", "-backports", True, "lvp_icd*.json"),
    # Of the browser's package only one library is wanted, which needs libc alone.
    "swiftshader": Driver("chromium-common", "", False, "vk_swiftshader_icd.json"),
}
NAMES = ("system", *DRIVERS)
# Without a card it compiles and runs nothing, so that no test can be run on it.
COMPILERS = {
    "radv": Driver("mesa-vulkan-drivers", "-backports", True, "radeon_icd*.json"),
}


def environment(name: str) -> dict[str, str]:
    """Return the variables that make Vulkan use a driver; fetch it when needed.

    Parameters
    ----------
    name : str
        One of `NAMES`, or of `COMPILERS`.

    Returns
    -------
    dict of str to str
        What to add to the environment of a new process; nothing for ``system``.

    Raises
    ------
    DriverError
        If the driver is neither there nor to be had.
    """
    if name == "system":
        return {}
    driver = {**DRIVERS, **COMPILERS}[name]
    if not driver.suite:
        for folder in MANIFEST_FOLDERS:
            for manifest in sorted(folder.glob(driver.manifest)):
                return _variables(manifest)
    folder = config.cache_folder() / "drivers" / name
    try:
        if not folder.exists():
            _fetch(driver, folder)
    except (DriverError, OSError) as error:
        raise DriverError(f"{name}: cannot fetch the driver: {error}") from error
    return _variables(folder / "icd.json", libraries=folder / "lib")


def _variables(manifest: Path, libraries: Path | None = None) -> dict[str, str]:
    # Loaders before 1.3.207 know only the second name.
    found = {"VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest)}
    if libraries is not None:
        others = os.environ.get("LD_LIBRARY_PATH")
        found["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(libraries), others)))
    return found


def _fetch(driver: Driver, folder: Path) -> None:
    """Download, unpack, and keep the libraries and a manifest that names them."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise DriverError("it comes from a Debian package, and there is no apt here")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        unpacked = Path(scratch) / "unpacked"
        for package in _download(driver, Path(scratch)):
            _run("dpkg", "-x", str(package), str(unpacked))
        kept = Path(scratch) / "kept"
        _keep(driver, unpacked, kept, folder)
        try:
            kept.rename(folder)
        except OSError:
            # Another process may have been quicker, with the same content.
            if not folder.exists():
                raise


def _download(driver: Driver, scratch: Path) -> list[Path]:
    """Return the downloaded packages, from an apt state of our own."""
    for part in ("lists/partial", "cache/archives/partial"):
        (scratch / part).mkdir(parents=True)
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    sources = scratch / "sources.list"
    sources.write_text(_sources(release, driver.suite))
    private = (
        f"-oDir::Etc::SourceList={sources}",
        "-oDir::Etc::SourceParts=-",
        f"-oDir::State::Lists={scratch / 'lists'}",
        f"-oDir::Cache={scratch / 'cache'}",
        "-oDebug::NoLocking=1",
        "-oAPT::Sandbox::User=",
        "-qq",
    )
    _run("apt-get", *private, "update")
    archives = scratch / "cache" / "archives"
    wanted = driver.package + (f"/{release}{driver.suite}" if driver.suite else "")
    if driver.with_dependencies:
        how = ("--download-only", "--reinstall", "--yes", "--no-install-recommends")
        _run("apt-get", *private, "install", *how, wanted)
    else:
        _run("apt-get", *private, "download", wanted, folder=archives)
    return sorted(archives.glob("*.deb"))


def _sources(release: str, suite: str) -> str:
    """Return apt sources: the machine's own mirrors of Debian, and one more suite."""
    listed = _run(
        *("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"),
        "Identifier: Packages",
    )
    mirrors = {}
    for line in listed.splitlines():
        uri, distribution, component = line.split()
        if component == "main":
            mirrors[distribution] = uri
    if release not in mirrors:
        raise DriverError(f"the sources of apt name no mirror of release {release!r}")
    mirrors.setdefault(release + suite, mirrors[release])
    wanted = {release + end for end in ("", "-updates", "-security", suite)}
    return "".join(
        f"deb [signed-by={KEYRING}] {mirrors[distribution]} {distribution} main\n"
        for distribution in sorted(wanted & mirrors.keys())
    )


def _keep(driver: Driver, unpacked: Path, kept: Path, final: Path) -> None:
    """Copy the driver and what it links to, and a manifest with its final path."""
    found = next(unpacked.rglob(driver.manifest), None)
    if found is None:
        raise DriverError(f"{driver.package} holds no {driver.manifest}")
    manifest = json.loads(found.read_text())
    library = Path(manifest["ICD"]["library_path"]).name
    (kept / "lib").mkdir(parents=True)
    for file in unpacked.rglob("*.so*" if driver.with_dependencies else library):
        if file.name == library or not file.name.startswith(OTHER_DRIVERS):
            shutil.copy2(file, kept / "lib" / file.name, follow_symlinks=False)
    manifest["ICD"]["library_path"] = str(final / "lib" / library)
    (kept / "icd.json").write_text(json.dumps(manifest, indent=2) + "\n")


def _run(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "silence").splitlines()
        raise DriverError(f"{command[0]} failed ({done.returncode}): {said[-1]}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch one driver and print its environment."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=(*NAMES, *COMPILERS))
    chosen = parser.parse_args(arguments)
    try:
        variables = environment(chosen.name)
    except DriverError as error:
        print(error, file=sys.stderr)
        return 1
    for name, value in variables.items():
        print(f"{name}={value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
