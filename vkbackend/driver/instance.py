"""The Vulkan instance: one per process, made when the first device is asked for.

With `VKBACKEND_VALIDATION` set, the Khronos validation layer is loaded and everything
it says is collected: `messages` returns it, `clear_messages` forgets it. Nothing is
printed.
"""

import ctypes
import os
import sys
import threading
from pathlib import Path

from vkbackend import config, fork_safety
from vkbackend.errors import NoVulkanError
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
API_VERSION = (1, 3)
OLDEST_LOADER = (1, 1)

_SEVERITIES = {
    vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT: "warning",
    vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT: "error",
}
_ICD_FOLDERS = (
    "/etc/vulkan/icd.d",
    "/usr/local/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
)

_messages: list[str] = []


def messages() -> tuple[str, ...]:
    """Return what the validation layer has said since the last `clear_messages`."""
    return tuple(_messages)


def clear_messages() -> None:
    """Forget the collected validation messages."""
    _messages.clear()


def _collect(
    severity: int,
    types: int,
    data: "ctypes._Pointer[vk.VkDebugUtilsMessengerCallbackDataEXT]",
    user: int | None,
) -> int:
    """Keep one message of the debug messenger; 0 lets the call go on."""
    identifier = data.contents.pMessageIdName or b"?"
    text = data.contents.pMessage or b""
    word = _SEVERITIES.get(severity, f"severity {severity}")
    _messages.append(
        f"{word} {identifier.decode(errors='replace')}: {text.decode(errors='replace')}"
    )
    return 0


# The layer may call it until the instance is gone, so it must never be collected.
_CALLBACK = vk.PFN_vkDebugUtilsMessengerCallbackEXT(_collect)


class Instance:
    """A Vulkan instance and its functions.

    Attributes
    ----------
    handle : int
        The `VkInstance`.
    functions : runtime.Functions
        Functions of the instance.
    validating : bool
        Whether the validation layer is loaded.
    debug_names : bool
        Whether objects can be given names (`VK_EXT_debug_utils` is on).
    """

    def __init__(self) -> None:
        self._global = runtime.load().functions
        found = loader_version()
        if found < OLDEST_LOADER:
            raise NoVulkanError(
                f"vkEnumerateInstanceVersion: the Vulkan loader is too old: version"
                f" {found}; {OLDEST_LOADER} or newer is needed"
            )
        self.validating = config.VALIDATION.enabled()
        extensions = {
            properties.extensionName.decode()
            for properties in runtime.enumerate_all(
                self._global.vkEnumerateInstanceExtensionProperties,
                None,
                struct=vk.VkExtensionProperties,
            )
        }
        if self.validating:
            self._check_layer()
        self.debug_names = self.validating and "VK_EXT_debug_utils" in extensions
        # The driver writes here, so that `close` finds what there is.
        self._cell = ctypes.c_void_p()
        self._messenger = ctypes.c_uint64()
        self._closed: list[None] = []
        try:
            self._create(extensions)
            assert self._cell.value is not None
            self.handle = self._cell.value
            self.functions = runtime.instance_functions(self.handle)
            if self.debug_names:
                self._create_messenger()
        except BaseException:
            self.close()
            raise

    def _check_layer(self) -> None:
        layers = layer_names()
        if VALIDATION_LAYER not in layers:
            raise NoVulkanError(
                f"{config.VALIDATION.name}: the layer {VALIDATION_LAYER} is not"
                f" installed: found {layers}; install the package"
                f" vulkan-validationlayers or unset {config.VALIDATION.name}"
            )

    def _create(self, offered: set[str]) -> None:
        """Create the instance; a missing driver becomes a NoVulkanError."""
        flags = 0
        wanted = []
        if "VK_KHR_portability_enumeration" in offered:
            wanted.append("VK_KHR_portability_enumeration")
            flags |= vk.VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
        if self.debug_names:
            wanted.append("VK_EXT_debug_utils")
        layers = [VALIDATION_LAYER] if self.validating else []
        application = runtime.make(
            vk.VkApplicationInfo,
            pApplicationName=b"vkbackend",
            pEngineName=b"vkbackend",
            apiVersion=API_VERSION[0] << 22 | API_VERSION[1] << 12,
        )
        info = runtime.make(
            vk.VkInstanceCreateInfo,
            pNext=self._debug_chain(),
            flags=flags,
            pApplicationInfo=application,
            enabledLayerCount=len(layers),
            ppEnabledLayerNames=layers,
            enabledExtensionCount=len(wanted),
            ppEnabledExtensionNames=wanted,
        )
        result = self._global.vkCreateInstance(
            ctypes.byref(info), None, ctypes.byref(self._cell)
        )
        if result:
            self._cell.value = None
        if result == vk.VK_ERROR_INCOMPATIBLE_DRIVER:
            raise no_driver("vkCreateInstance: VK_ERROR_INCOMPATIBLE_DRIVER (-9)")
        runtime.check("vkCreateInstance", result)

    def _debug_chain(self) -> ctypes.Structure | None:
        """Return what makes the layer report on the instance's own creation too."""
        if not self.debug_names:
            return None
        messenger = _messenger_info()
        if config.VALIDATION.choice() != "sync":
            return messenger
        features = runtime.make(
            vk.VkValidationFeaturesEXT,
            enabledValidationFeatureCount=1,
            pEnabledValidationFeatures=[
                vk.VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
            ],
        )
        return runtime.chain(messenger, features)

    def _create_messenger(self) -> None:
        result = self.functions.vkCreateDebugUtilsMessengerEXT(
            self.handle,
            ctypes.byref(_messenger_info()),
            None,
            ctypes.byref(self._messenger),
        )
        runtime.check("vkCreateDebugUtilsMessengerEXT", result)

    def close(self) -> None:
        """Destroy the messenger and the instance; nothing if that is done already."""
        if self._closed or not self._cell.value:
            return
        functions = runtime.instance_functions(self._cell.value)
        messenger, self._messenger = self._messenger, ctypes.c_uint64()
        if messenger.value:
            functions.vkDestroyDebugUtilsMessengerEXT(
                self._cell.value, messenger.value, None
            )
        # The call and the note that it was made: no signal comes in between.
        destroy = functions.vkDestroyInstance
        self._closed.extend(map(destroy, (self._cell.value,), (None,)))


def _messenger_info() -> ctypes.Structure:
    return runtime.make(
        vk.VkDebugUtilsMessengerCreateInfoEXT,
        messageSeverity=sum(_SEVERITIES),
        messageType=vk.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT
        | vk.VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        pfnUserCallback=_CALLBACK,
    )


def loader_version() -> tuple[int, int, int]:
    """Return the Vulkan version of the loader."""
    version = ctypes.c_uint32()
    result = runtime.load().functions.vkEnumerateInstanceVersion(ctypes.byref(version))
    runtime.check("vkEnumerateInstanceVersion", result)
    return (
        version.value >> 22 & 0x7F,
        version.value >> 12 & 0x3FF,
        version.value & 0xFFF,
    )


def layer_names() -> list[str]:
    """Return the names of the instance layers that are installed."""
    rows = runtime.enumerate_all(
        runtime.load().functions.vkEnumerateInstanceLayerProperties,
        struct=vk.VkLayerProperties,
    )
    return sorted(row.layerName.decode() for row in rows)


def driver_files() -> list[str]:
    """Return the driver manifests (ICD files) that the loader can see."""
    chosen = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if chosen:
        return chosen.split(os.pathsep)
    return sorted(
        str(path) for folder in _driver_folders() for path in folder.glob("*.json")
    )


def _driver_folders() -> list[Path]:
    """Return where the loader looks for manifests: the system's and the user's."""
    user = (
        os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"),
        os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"),
    )
    return [*map(Path, _ICD_FOLDERS), *(Path(base, "vulkan/icd.d") for base in user)]


def no_driver(where: str) -> NoVulkanError:
    """Return the error for a loader that finds no driver or no device."""
    files = driver_files()
    looked = ", ".join(files) if files else "none in " + ", ".join(_ICD_FOLDERS)
    return NoVulkanError(
        f"{where}: the Vulkan loader works but no driver offers a device: driver"
        f" files {looked}; install your GPU's driver, or the package"
        f" mesa-vulkan-drivers for a software device"
    )


_lock = threading.Lock()
fork_safety.renew(sys.modules[__name__], "_lock", threading.Lock)
_current: Instance | None = None
_creating = False
_forked = False


def instance() -> Instance:
    """Return the process's instance; the first call makes it.

    Raises
    ------
    NoVulkanError
        If there is no loader or no driver, or in a forked child of a process that has
        used Vulkan: drivers do not survive a fork, some hang parent and child.
    """
    global _current, _creating
    with _lock:
        if _forked:
            raise NoVulkanError(
                "Vulkan: cannot be used in a forked child once the parent has used it:"
                f" process {os.getpid()}; start it with multiprocessing's `spawn`"
            )
        if _current is None:
            try:
                _creating = True
                _current = Instance()
            finally:
                _creating = False
        return _current


def close() -> None:
    """Destroy the process's instance; its devices must be closed already."""
    global _current
    with _lock:
        if _current is not None:
            _current.close()
            _current = None


def forget() -> None:
    """Drop the instance without destroying it: in a forked child."""
    global _current, _forked
    # The parent's thread that makes one may hold locks of the loader and the drivers.
    _forked = _forked or _creating or _current is not None
    _current = None
