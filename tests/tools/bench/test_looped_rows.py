"""Long rows: both ways agree, the generated one is generated, and the table."""

import json
from typing import Any

import numpy as np
import pytest

from vkbackend.tools.bench import looped_rows


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("name", looped_rows.PAIRS)
def test_both_ways_agree(name: str, strided: bool) -> None:
    pair = looped_rows.PAIRS[name]
    if strided > pair.strided:
        pytest.skip("it takes rows along the last dimension")
    own, plain = looped_rows.sides(pair, 40, 3, "float32", strided, "cpu")
    (mine,), (other,) = own(), plain()
    doubled = 2 if name in ("sum", "amax") else 1
    np.testing.assert_allclose(mine.numpy() * doubled, other.numpy(), 1e-5, 1e-5)


def test_the_table(place: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--only", "logsumexp", "--dtype", "float32", "--columns", "64"]
    options += ["--elements", "640", "--rounds", "1", "--device", place.name]
    assert looped_rows.main(options) == 0
    _, heading, contiguous, strided, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["op", "rows", "dtype", "64"]
    assert [row.split()[1] for row in (contiguous, strided)] == [
        "contiguous",
        "strided",
    ]
    for line in map(json.loads, lines):
        assert (line["rows"], line["columns"]) == (10, 64)
        assert line["own_kernels"] != line["generated_kernels"]
