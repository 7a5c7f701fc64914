"""The driver's pipeline cache, kept in a file for each device and driver version.

A file that is damaged or belongs to another driver is ignored with one warning, and a
folder that cannot be written costs build time only.
"""

import ctypes
import functools
import struct
import warnings

from vkbackend import config, disk_cache
from vkbackend.disk_cache import DIGEST_SIZE, cache_file, digest
from vkbackend.driver.device_info import DeviceInfo
from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.errors import VulkanError
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

# A session that is killed loses at most this many builds.
_SAVE_EVERY = 32

# Specification, VkPipelineCacheHeaderVersionOne: size, version, vendor, device, UUID.
_HEADER = struct.Struct("<IIII16s")


def damage(content: bytes, info: DeviceInfo) -> str:
    """Return what is wrong with a cache file, or an empty string.

    The file is a digest and the driver's data, whose header must name this device.
    Drivers check the header too, but some crash on damaged data behind it.
    """
    data = content[DIGEST_SIZE:]
    if content[:DIGEST_SIZE] != digest(data):
        return "its digest does not match"
    if len(data) < _HEADER.size:
        return "it is too short"
    _, version, vendor, device, uuid = _HEADER.unpack_from(data)
    if version != vk.VK_PIPELINE_CACHE_HEADER_VERSION_ONE:
        return f"it has header version {version}"
    if (vendor, device, uuid.hex()) != (
        info.vendor_id,
        info.device_id,
        info.pipeline_cache_uuid,
    ):
        return "it belongs to another device or driver"
    return ""


class PipelineCache:
    """A `VkPipelineCache` and its file."""

    def __init__(self, logical: LogicalDevice) -> None:
        self._logical = logical
        self._file = cache_file(logical.info)
        self._unsaved = 0
        data = self._read()
        info = runtime.make(
            vk.VkPipelineCacheCreateInfo, initialDataSize=len(data), pInitialData=data
        )
        self.handle = logical.create("PipelineCache", info, "pipelines")

    def _read(self) -> bytes:
        content = disk_cache.read(self._file)
        if content is None:
            return b""
        problem = damage(content, self._logical.info)
        if problem:
            _warn_once(
                f"pipeline cache: {self._file} is ignored: {problem};"
                f" it is written anew"
            )
            return b""
        return content[DIGEST_SIZE:]

    def built(self) -> None:
        """Note that a pipeline was built; save now and then."""
        self._unsaved += 1
        if self._unsaved >= _SAVE_EVERY:
            self._try_to_save()

    def _try_to_save(self) -> None:
        """Save; what the driver says against it is a warning, for only time is lost."""
        try:
            self.save()
        except VulkanError as error:
            _warn_once(f"pipeline cache: not saved: {error}")

    def save(self) -> None:
        """Write the file, so that a reader sees the old one or the whole new one."""
        self._unsaved = 0
        data = self._data()
        try:
            # Not durable: the digest tells what a power cut left.
            disk_cache.write(self._file, digest(data) + data)
        except OSError as error:
            _warn_once(
                f"pipeline cache: cannot write to {self._file.parent}:"
                f" {error.strerror}; pipelines are built anew each time; set"
                f" {config.CACHE.name}"
            )

    def _data(self) -> bytes:
        """Return what the driver wants to keep."""
        get = self._logical.functions.vkGetPipelineCacheData
        size = ctypes.c_size_t()
        device = self._logical.handle
        result = get(device, self.handle, ctypes.byref(size), None)
        runtime.check("vkGetPipelineCacheData", result)
        content = ctypes.create_string_buffer(max(1, size.value))
        result = get(device, self.handle, ctypes.byref(size), content)
        if result == vk.VK_INCOMPLETE:
            return b""
        runtime.check("vkGetPipelineCacheData", result)
        return content.raw[: size.value]

    def close(self) -> None:
        """Save if anything was built, and destroy the cache."""
        if self._unsaved:
            self._try_to_save()
        self._logical.destroy("PipelineCache", self.handle)


@functools.cache
def _warn_once(message: str) -> None:
    """Warn of something that costs time only, once per process."""
    warnings.warn(message, RuntimeWarning, stacklevel=4)
