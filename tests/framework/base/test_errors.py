"""The framework's exceptions are also what a Python user would catch."""

import pytest

from vkbackend import Error
from vkbackend.framework.base import errors


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.ShapeError, ValueError),
        (errors.ShapeError, RuntimeError),
        (errors.DTypeError, TypeError),
        (errors.DTypeError, RuntimeError),
        (errors.DTypeError, NotImplementedError),
        (errors.IndexDTypeError, IndexError),
        (errors.GradError, RuntimeError),
        (errors.DeviceMismatchError, RuntimeError),
        (errors.StateError, RuntimeError),
        (errors.FileFormatError, ValueError),
    ],
)
def test_each_is_a_builtin_too(
    error: type[Exception], builtin: type[Exception]
) -> None:
    assert issubclass(error, Error)
    assert issubclass(error, builtin)
    line = next(
        line for line in (errors.__doc__ or "").splitlines() if error.__name__ in line
    )
    assert builtin.__name__ in line.partition(")")[0]
