"""Find the Vulkan loader, look up commands, check results, fill structures.

Importing this module opens no library; `load` does, on first use.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from vkbackend import config
from vkbackend.errors import DeviceLost, NoVulkanError, OutOfDeviceMemory, VulkanError

from . import generated as vk

LIBRARIES = {
    "win32": ("vulkan-1.dll",),
    "darwin": ("libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"),
}
LINUX_LIBRARIES = ("libvulkan.so.1", "libvulkan.so")
REMEDIES = {
    "win32": "install the graphics driver of your device, which brings the loader",
    "darwin": "install the packages vulkan-loader and molten-vk (Homebrew)",
}
LINUX_REMEDY = (
    "install the package libvulkan1 (Debian, Ubuntu), vulkan-loader (Fedora)"
    " or vulkan-icd-loader (Arch)"
)

Struct = TypeVar("Struct", bound=ctypes.Structure)
Handle: TypeAlias = ctypes.c_void_p | int  # VkInstance or VkDevice


class Functions:
    """Vulkan commands as attributes, looked up on first use and then kept.

    Commands that only record (`vkCmd*`) hold the interpreter lock, because they never
    block; all others release it.

    Parameters
    ----------
    owner : str
        Whose commands these are, for error messages.
    lookup : callable
        Takes a command's name, returns its address or None.
    """

    def __init__(self, owner: str, lookup: Callable[[bytes], int | None]) -> None:
        self._owner = owner
        self._lookup = lookup

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in vk.FUNCTIONS:
            raise AttributeError(
                f"{name}: not in the bindings; add it to tools/bindings/manifest.toml"
            )
        level, result, parameters = vk.FUNCTIONS[name]
        address = self._lookup(name.encode())
        if not address:
            raise VulkanError(
                f"{name}: the {self._owner} does not have this command of level"
                f" {level}; enable the extension or version that brings it"
            )
        prototype = ctypes.PYFUNCTYPE if name.startswith("vkCmd") else ctypes.CFUNCTYPE
        function: Callable[..., Any] = prototype(result, *parameters)(address)
        function.__name__ = name
        setattr(self, name, function)
        return function


class _SymbolInfo(ctypes.Structure):
    """The C library's `Dl_info`: what is known about an address."""

    _fields_ = (
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    )


class Loader:
    """An opened Vulkan loader.

    Parameters
    ----------
    name : str
        File name or path to open.

    Attributes
    ----------
    functions : Functions
        The commands that need no instance.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        library = ctypes.CDLL(name)
        find = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
        self._instance_address = find(("vkGetInstanceProcAddr", library))
        self._device_address = find(("vkGetDeviceProcAddr", library))
        self.functions = Functions(
            "loader", functools.partial(self._instance_address, None)
        )

    def path(self) -> str:
        """Return the file that was opened; only its name where no one can tell."""
        find = getattr(ctypes.pythonapi, "dladdr", None)
        found = _SymbolInfo()
        if find is None or not find(self._device_address, ctypes.byref(found)):
            return self.name
        return os.path.realpath(os.fsdecode(found.dli_fname))

    def instance_functions(self, instance: Handle) -> Functions:
        """Return the commands of an instance and its physical devices."""
        return Functions(
            "instance", functools.partial(self._instance_address, instance)
        )

    def device_functions(self, device: Handle) -> Functions:
        """Return the commands of a device, its queues and its command buffers."""
        return Functions("device", functools.partial(self._device_address, device))


def load() -> Loader:
    """Return the Vulkan loader, opening it on first use.

    Raises
    ------
    NoVulkanError
        If no loader can be opened; the message names the package to install.
    """
    remedy = REMEDIES.get(sys.platform, LINUX_REMEDY)
    chosen = config.LOADER.read()
    if chosen:
        return _load((chosen,), f"correct or unset {config.LOADER.name}, or {remedy}")
    return _load(LIBRARIES.get(sys.platform, LINUX_LIBRARIES), remedy)


@functools.cache
def _load(names: tuple[str, ...], remedy: str) -> Loader:
    failures = []
    for name in names:
        try:
            return Loader(name)
        # What the system says of a name that is no text cannot be read either.
        except (OSError, AttributeError, UnicodeError) as error:
            failures.append(f"{name} ({error})")
    raise NoVulkanError(
        f"Vulkan loader: cannot be opened: tried {'; '.join(failures)}; {remedy}"
    )


def instance_functions(instance: Handle) -> Functions:
    """Return the commands of an instance and its physical devices."""
    return load().instance_functions(instance)


def device_functions(device: Handle) -> Functions:
    """Return the commands of a device, its queues and its command buffers."""
    return load().device_functions(device)


def check(call: str, result: int, detail: str = "") -> None:
    """Raise the error that a result stands for; only VK_SUCCESS passes.

    The few codes that tell of more than success, as VK_TIMEOUT, are looked at before
    where they may come; anywhere else they would pass for work that is done.

    Parameters
    ----------
    call : str
        The command that gave the result.
    result : int
        The `VkResult`.
    detail : str, default ""
        The values that matter and what would be right.

    Raises
    ------
    OutOfDeviceMemory
        For VK_ERROR_OUT_OF_DEVICE_MEMORY.
    DeviceLost
        For VK_ERROR_DEVICE_LOST.
    VulkanError
        For every other result.
    """
    if result == vk.VK_SUCCESS:
        return
    name = vk.RESULT_NAMES.get(result, "unknown VkResult")
    message = f"{call}: {name} ({result})"
    if detail:
        message = f"{message}: {detail}"
    if result == vk.VK_ERROR_OUT_OF_DEVICE_MEMORY:
        raise OutOfDeviceMemory(message, result)
    if result == vk.VK_ERROR_DEVICE_LOST:
        raise DeviceLost(message, result)
    raise VulkanError(message, result)


def make(struct_type: type[Struct], **members: Any) -> Struct:
    """Return a structure with `sType` and the given members filled in.

    The structure keeps alive what its pointers refer to. A pointer member takes None,
    a structure, a ctypes array, bytes, a string, or a sequence, which becomes an array;
    a void pointer takes an address too.

    Parameters
    ----------
    struct_type : type
        The structure to build.
    **members
        Values by member name; members not named are zero.

    Raises
    ------
    TypeError
        If the structure has no member of a given name.
    """
    struct = struct_type()
    if struct_type in vk.STRUCTURE_TYPES:
        struct.sType = vk.STRUCTURE_TYPES[struct_type]
    types = _member_types(struct_type)
    for name, value in members.items():
        if name not in types:
            raise TypeError(
                f"{struct_type.__name__}: no such member: {name};"
                f" it has {', '.join(types)}"
            )
        setattr(struct, name, _convert(value, types[name]))
    return struct


def chain(first: Struct, *others: ctypes.Structure) -> Struct:
    """Link structures through `pNext` and return the first, which keeps the rest."""
    structs: tuple[ctypes.Structure, ...] = (first, *others)
    for i in reversed(range(len(others))):
        structs[i].pNext = _convert(structs[i + 1], ctypes.c_void_p)
    return first


def enumerate_all(
    function: Callable[..., Any], *arguments: Any, struct: type[Any]
) -> list[Any]:
    """Return all that a command lists, asking for the count first.

    Parameters
    ----------
    function : callable
        A command whose last two parameters are a count and an array.
    *arguments
        Its parameters before these two.
    struct : type
        The array's element type: a structure or a handle.
    """
    while True:
        count = ctypes.c_uint32()
        check(function.__name__, function(*arguments, ctypes.byref(count), None) or 0)
        array = (struct * count.value)()
        if struct in vk.STRUCTURE_TYPES:
            for element in array:
                element.sType = vk.STRUCTURE_TYPES[struct]
        result = function(*arguments, ctypes.byref(count), array) or 0
        if result != vk.VK_INCOMPLETE:
            check(function.__name__, result)
            return list(array[: count.value])


@functools.cache
def _member_types(struct_type: type[ctypes.Structure]) -> dict[str, Any]:
    return {field[0]: field[1] for field in struct_type._fields_}


def _convert(value: Any, member_type: Any) -> Any:
    """Return what to assign to a member; ctypes then keeps it alive."""
    if isinstance(value, str):
        value = value.encode()
    if value is None or isinstance(value, int):
        return value
    if member_type is ctypes.c_void_p:
        if isinstance(value, bytes):
            value = ctypes.create_string_buffer(value, len(value))
        return ctypes.cast(ctypes.pointer(value), ctypes.c_void_p)
    if not issubclass(member_type, ctypes._Pointer):
        return value
    element = member_type._type_
    if isinstance(value, element):
        return ctypes.pointer(value)
    if isinstance(value, bytes):
        count = len(value) // ctypes.sizeof(element)
        return (element * count).from_buffer_copy(value)
    if isinstance(value, Sequence):
        items = [v.encode() if isinstance(v, str) else v for v in value]
        return (element * len(items))(*items)
    return value
