"""The exception tree, as its docstring draws it."""

import pytest

from vkbackend import errors


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.VulkanError, RuntimeError),
        (errors.OutOfDeviceMemory, MemoryError),
        (errors.DeviceLost, errors.VulkanError),
        (errors.NoVulkanError, RuntimeError),
        (errors.NoCompilerError, RuntimeError),
        (errors.ShaderError, ValueError),
        (errors.ArgumentError, ValueError),
    ],
)
def test_subclasses_what_users_catch(
    error: type[Exception], builtin: type[Exception]
) -> None:
    assert issubclass(error, builtin)
    assert issubclass(error, errors.Error)
    assert error.__name__ in (errors.__doc__ or "")


def test_result_is_kept() -> None:
    assert errors.DeviceLost("lost", -4).result == -4
