"""Shared sections of docstrings: what is taken, where it goes, what is left alone."""

import inspect

import vkbackend.framework as fw
from vkbackend.framework.base.docstring import (
    cleaned,
    dtype_words,
    entries_of,
    section,
    shares_parameters,
    with_parameters,
)
from vkbackend.framework.dispatch.op import REGISTRY

SOURCE = """Return a sum.

Parameters
----------
x, y : Tensor
    Any dtype.
*rest : int
    More of them.

Raises
------
ShapeError
    If they do not broadcast.

Notes
-----
None."""


def source(x: object, y: object, *rest: int) -> None:
    pass


source.__doc__ = SOURCE


def test_a_clean_docstring_is_pythons() -> None:
    places = (fw, fw.nn, fw.nn.functional, fw.Tensor, fw.linalg, fw.fft)
    docs = {each.__doc__ for place in places for each in vars(place).values()}
    docs |= {each.function.__doc__ for each in REGISTRY.values()}
    docs |= {None, "", "  One line. ", "\n\n  First.\n\n    More.\n\n  Last.\n  "}
    for doc in docs:
        if doc is None or "\t" not in doc:
            assert cleaned(doc) == inspect.cleandoc(doc or "").strip()


def test_sections_end_at_the_next_one() -> None:
    assert section(SOURCE, "Raises") == "ShapeError\n    If they do not broadcast."
    assert section(SOURCE, "Notes") == "None."
    assert section(SOURCE, "Examples") == ""


def test_parameters_come_before_other_sections() -> None:
    doc = "Return it.\n\nRaises\n------\nShapeError"
    wanted = (
        "Return it.\n\nParameters\n----------\nx : int\n\nRaises\n------\nShapeError"
    )
    assert with_parameters(doc, "x : int") == wanted
    assert with_parameters(wanted, "y : int") == wanted.replace("x :", "y :")


def test_entries_are_known_by_their_names() -> None:
    found = entries_of(SOURCE)
    assert found == {
        ("x", "y"): " : Tensor\n    Any dtype.",
        ("*rest",): " : int\n    More of them.",
    }


def test_parameters_are_shared_by_name_and_in_order() -> None:
    @shares_parameters(source, other="y")
    def method(flag: bool, other: object, x: object, rest: int) -> None:
        """Change it.

        Parameters
        ----------
        flag : bool
        """

    assert inspect.getdoc(method) == (
        "Change it.\n\nParameters\n----------\nflag : bool\n"
        "other, x : Tensor\n    Any dtype.\nrest : int\n    More of them.\n\n"
        "Raises\n------\nShapeError\n    If they do not broadcast."
    )


def test_own_errors_are_kept() -> None:
    @shares_parameters(source)
    def method(x: object) -> None:
        """Change it.

        Raises
        ------
        TypeError
            Always.
        """

    doc = inspect.getdoc(method) or ""
    assert section(doc, "Raises") == "TypeError\n    Always."
    assert section(doc, "Parameters") == "x : Tensor\n    Any dtype."


def test_dtypes_have_words_where_all_of_a_kind_are_there() -> None:
    floats = (fw.float16, fw.bfloat16, fw.float32, fw.float64)
    assert dtype_words(floats) == "float"
    assert dtype_words((*floats, fw.complex64, fw.complex128)) == "float or complex"
    assert dtype_words((fw.bool, fw.float32)) == "bool or float32"
    assert dtype_words((fw.int8, fw.bool, *floats)) == "bool, int8 or float"
    assert dtype_words(()) == ""


def test_ops_of_one_tensor_name_their_dtypes() -> None:
    doc = inspect.getdoc(fw.exp) or ""
    assert section(doc, "Parameters").splitlines() == [
        "x : Tensor, any shape, float or complex",
        "    Integers and bools are converted to the default dtype.",
    ]
    doc = inspect.getdoc(fw.floor_) or ""
    assert section(doc, "Parameters") == "x : Tensor, any shape, integer or float"


def test_classes_take_no_errors_of_what_they_call_later() -> None:
    @shares_parameters(source)
    class Layer:
        """Changes it."""

        def __init__(self, x: object) -> None:
            pass

    doc = inspect.getdoc(Layer) or ""
    assert doc == "Changes it.\n\nParameters\n----------\nx : Tensor\n    Any dtype."
