"""Names that are not here can be imported, asked for, and raise when used."""

import pytest

from vkbackend.framework.base.absent import Absent, absent


def test_it_raises_when_it_is_made() -> None:
    nothing = absent("fx", "Nothing", "use something else.")
    assert not isinstance(1, nothing)
    assert issubclass(nothing, Absent)
    assert nothing.__doc__ == "Raise `NotImplementedError`: use something else."

    class Own(nothing):  # type: ignore[misc, valid-type]
        """A program's class of it."""

    for each in (nothing, Own):
        with pytest.raises(NotImplementedError, match=r"^fx.Nothing is not here: use"):
            each(1, a=2)
