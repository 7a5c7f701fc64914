"""Exceptions of the device layer.

Error (Exception)
├── VulkanError (RuntimeError)         a Vulkan call failed; carries the VkResult
│   ├── OutOfDeviceMemory (MemoryError)
│   ├── DeviceLost
│   └── SubmissionOvertaken            a signal handler's submission came between
├── CudaError (RuntimeError)           a call of CUDA's failed; carries the CUresult
├── ReentrantError (RuntimeError)      a signal handler asks within a submission
├── NoVulkanError (RuntimeError)       no loader, no driver or no usable device
├── NoCompilerError (RuntimeError)     no GLSL compiler was found
├── ShaderError (ValueError)           GLSL that does not compile; bad SPIR-V
└── ArgumentError (ValueError)         bad kernel arguments, sizes or ranges

Every message is one sentence: where: what is wrong: the values; what would be right.
"""


class Error(Exception):
    """Base of everything the library raises on purpose."""


class VulkanError(Error, RuntimeError):
    """A Vulkan call that returned a failure code.

    Parameters
    ----------
    message : str
        The whole sentence, with the call, the result's name and its number.
    result : int, default 0
        The `VkResult`.
    """

    def __init__(self, message: str, result: int = 0) -> None:
        super().__init__(message)
        self.result = result


class OutOfDeviceMemory(VulkanError, MemoryError):
    """No device memory is left, also after pending frees were awaited and trimmed."""


class DeviceLost(VulkanError):
    """The device stopped answering; everything on it is gone."""


class SubmissionOvertaken(VulkanError):
    """Another submission was made within one, which was not sent and may be repeated.

    By a signal handler or a finalizer: they run in the thread that they interrupt.
    """


class CudaError(Error, RuntimeError):
    """A call of CUDA's driver that failed, or a driver that is not there.

    Parameters
    ----------
    message : str
        The whole sentence, with the call, the result's name and its number.
    result : int, default 0
        The `CUresult`; 0 if no call was made.
    """

    def __init__(self, message: str, result: int = 0) -> None:
        super().__init__(message)
        self.result = result


class ReentrantError(Error, RuntimeError):
    """A signal handler or a finalizer asks for what the call it interrupts is doing.

    Nothing is lost: what was asked for stays as it is, and can be asked for later.
    """


class NoVulkanError(Error, RuntimeError):
    """No Vulkan loader, driver or usable device; the message names the remedy."""


class NoCompilerError(Error, RuntimeError):
    """No GLSL compiler was found, or the one found is too old for a shader."""


class ShaderError(Error, ValueError):
    """A shader that does not compile, or SPIR-V that cannot be read."""


class ArgumentError(Error, ValueError):
    """A kernel argument, size or byte range that does not fit."""
