"""Probes of this machine, run in a child process; results are ready for JSON."""

import ctypes
import dataclasses
import importlib.metadata
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vkbackend import NoVulkanError, config, disk_cache
from vkbackend import cuda as vkbackend_cuda
from vkbackend.atomic_file import UNFINISHED
from vkbackend.disk_cache import cache_file
from vkbackend.driver import cards, features, instance, physical_device
from vkbackend.shader.compiler import cached_module, compiler
from vkbackend.shader.pipeline_cache import damage
from vkbackend.vk import runtime

from . import requirements

Json = dict[str, Any]

# Files of a cache that are read to see whether they are whole.
_MAX_CHECKED = 2000
_NVIDIA = 0x10DE
_VENDORS = {
    0x1002: "AMD",
    0x8086: "Intel",
    0x13B5: "ARM",
    0x5143: "Qualcomm",
    0x106B: "Apple",
}


def loader() -> Json:
    """Return where the loader was found, its version and its layers."""
    opened = runtime.load()
    return {
        "name": opened.name,
        "path": opened.path(),
        "version": list(instance.loader_version()),
        "layers": instance.layer_names(),
    }


def hardware(root: str = "/") -> list[Json]:
    """Return the GPUs that the kernel (Linux) shows, whatever Vulkan makes of them."""
    found = []
    for node in sorted(Path(root, "sys/class/drm").glob("renderD*")):
        try:
            vendor = int((node / "device/vendor").read_text(), 16)
            device = int((node / "device/device").read_text(), 16)
        except (OSError, ValueError):
            continue
        # NVIDIA's own entries below tell more.
        if vendor in _VENDORS:
            name = f"{_VENDORS[vendor]} device {device:#06x}"
            path = Path(root, "dev/dri", node.name)
            found.append(_gpu(name, vendor, path))
    for card in sorted(Path(root, "proc/driver/nvidia/gpus").glob("*/information")):
        model = re.search(r"^Model:\s*(.+)$", card.read_text(), re.MULTILINE)
        name = model[1].strip() if model else "NVIDIA device"
        found.append(_gpu(name, _NVIDIA, Path(root, "dev/nvidiactl")))
    return found


def _gpu(name: str, vendor: int, node: Path) -> Json:
    return {
        "name": name,
        "vendor_id": vendor,
        "node": str(node),
        "exists": node.exists(),
        "accessible": os.access(node, os.R_OK | os.W_OK),
    }


def driver(manifest: str) -> Json:
    """Return what one driver offers; ask with no other driver in the environment."""
    said: Json = {"library": "", "api_version": "", "devices": [], "problem": ""}
    try:
        content = json.loads(Path(manifest).read_text(encoding="utf-8"))["ICD"]
        said["library"] = content["library_path"]
        said["api_version"] = content.get("api_version", "")
    except (OSError, ValueError, KeyError, TypeError) as error:
        said["problem"] = f"the manifest cannot be read: {error}"
        return said
    library = said["library"]
    if "/" in library:
        library = str(Path(manifest).parent / library)
    try:
        ctypes.CDLL(library)
    except OSError as error:
        said["problem"] = f"its library cannot be loaded: {error}"
        return said
    try:
        said["devices"] = [row.name for row in physical_device.devices()]
    except NoVulkanError:
        pass  # A driver without its hardware is not at fault.
    return said


def devices() -> Json:
    """Return every device as the library ranks them, and which one it takes."""
    said: Json = {"devices": [_device(row) for row in physical_device.devices()]}
    try:
        chosen = physical_device.choose()
        said["chosen"] = physical_device.devices().index(chosen)
        said["refusal"] = ""
    except NoVulkanError as error:
        said["chosen"] = None
        said["refusal"] = str(error)
    return said


def _device(row: physical_device.PhysicalDevice) -> Json:
    info = row.info
    flags = [feature.flag for feature in features.FEATURES]
    have = {flag: flag in info.supported for flag in flags}
    for name in requirements.LOSSES.keys() - have.keys():
        have[name] = bool(getattr(info, name))
    fields = {field.name for field in dataclasses.fields(info)} - {"supported"}
    values = dataclasses.asdict(info)
    return {
        **{name: values[name] for name in sorted(fields)},
        "name": row.name,
        "score": row.score(),
        "lacks": row.missing(),
        "other_drivers": [
            {
                "driver": f"{other.info.driver_name} {other.info.driver_info}".strip(),
                "why_not": cards.why_not(other, row),
            }
            for other in row.others
        ],
        "features": dict(sorted(have.items())),
        "queue_families": [dataclasses.asdict(family) for family in row.families],
        "extensions": sorted(row.extensions),
    }


def glsl_compiler() -> Json:
    """Return the GLSL compiler that the library takes."""
    found = compiler()
    kind = type(found).__name__
    return {
        "name": found.name,
        "version": found.version,
        "path": found.path,
        "in_process": kind != "ExecutableCompiler",
        "validates": hasattr(found, "validate"),
    }


def extension(name: str) -> bool:
    """Return whether the compiler takes a shader that uses a GLSL extension."""
    (row,) = (row for row in requirements.EXTENSIONS if row.name == name)
    lines = ("#version 460", f"#extension {name} : require", row.declares)
    source = "\n".join((*lines, f"void main() {{ {row.use} }}", ""))
    words, _ = compiler().compile(source, (1, 6))
    return bool(words)


def caches() -> Json:
    """Return size and health of the caches on disk."""
    folder = config.cache_folder()
    spirv = sorted(folder.glob("spirv/*.spv"))
    pipelines = sorted(folder.glob("pipelines/*.bin"))
    verdicts = sorted(folder.glob("tuning/*.json"))
    damaged = 0
    for path in spirv[:_MAX_CHECKED]:
        content = disk_cache.read(path)
        damaged += content is None or cached_module(content, path.name) is None
    leftovers = folder.glob(f"*/{UNFINISHED}*")
    return {
        "folder": str(folder),
        "exists": folder.is_dir(),
        "unwritable": _unwritable(folder),
        "refused": disk_cache.untrusted_reason(folder),
        "spirv": {**_amount(spirv), "damaged": damaged},
        "pipelines": _amount(pipelines),
        "tuning": _amount(verdicts),
        "leftovers": sum(1 for _ in leftovers),
    }


def _amount(files: list[Path]) -> Json:
    return {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}


def _unwritable(folder: Path) -> str:
    """Return why nothing can be written to a folder, or an empty string."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def pipeline_cache() -> Json:
    """Return size and health of the pipeline cache of the device that is taken."""
    info = physical_device.choose().info
    content = disk_cache.read(cache_file(info))
    if content is None:
        return {"bytes": 0, "damage": ""}
    return {"bytes": len(content), "damage": damage(content, info)}


def processes() -> Json:
    """Return what there is to start several processes, without starting any."""
    beside = str(Path(sys.executable).parent)
    places = os.pathsep.join((beside, os.environ.get("PATH", os.defpath)))
    try:
        version = importlib.metadata.version("mpi4py")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    shared = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else None
    return {
        "mpi4py": version,
        "mpirun": shutil.which("mpirun", path=places) or "",
        "shared": shared,
    }


def cuda() -> Json:
    """Return whether cards of this machine can pull from each other by CUDA."""
    infos = [each.info for each in physical_device.devices()]
    obstacle = vkbackend_cuda.obstacle_among(infos)
    version = "" if obstacle else vkbackend_cuda.load().version
    return {"obstacle": obstacle, "version": version}


PROBES: dict[str, Callable[..., Any]] = {
    "loader": loader,
    "hardware": hardware,
    "driver": driver,
    "devices": devices,
    "compiler": glsl_compiler,
    "extension": extension,
    "caches": caches,
    "pipeline_cache": pipeline_cache,
    "processes": processes,
    "cuda": cuda,
}
