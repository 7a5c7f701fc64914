"""8-bit floats, beside PyTorch's: all codes, and the numbers halfway between them."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.float8 import FORMATS, decode_float8, encode_float8

CODES = np.arange(256, dtype=np.uint8)
NAMES = sorted(FORMATS)


def numbers(name: str) -> np.ndarray:
    """Return every number of a format, those halfway between and next to these."""
    every = torch.tensor(CODES).view(getattr(torch, name)).float().numpy()
    finite = np.unique(every[np.isfinite(every)])
    half = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    more = [0.0, -0.0, 1e-40, 1e30, -1e30, np.inf, -np.inf, 448, 464, 480, 248, 61440]
    near = [np.nextafter(half, np.float32(end)) for end in (-np.inf, np.inf)]
    return np.concatenate([finite, half, *near, np.array(more, np.float32)])


@pytest.mark.torch213
@pytest.mark.parametrize("name", NAMES)
def test_codes_are_as_in_torch(name: str) -> None:
    theirs = torch.tensor(CODES).view(getattr(torch, name)).float().numpy()
    np.testing.assert_array_equal(decode_float8(CODES, name), theirs)
    x = np.append(numbers(name), np.float32(np.nan))
    codes = torch.tensor(x).to(getattr(torch, name)).view(torch.uint8).numpy()
    np.testing.assert_array_equal(encode_float8(x, name), codes)


@pytest.mark.torch213
@pytest.mark.parametrize("name", NAMES)
def test_casts_are_as_in_torch(name: str, place: Device) -> None:
    ours, theirs = getattr(fw, name), getattr(torch, name)
    codes = fw.tensor(CODES, device=place).view(ours)
    assert codes.view(fw.uint8).tolist() == CODES.tolist()
    expected = torch.tensor(CODES).view(theirs)
    for kind in ("float32", "float16", "bfloat16"):
        wanted = expected.to(getattr(torch, kind)).float().numpy()
        found = codes.to(getattr(fw, kind)).float().numpy()
        np.testing.assert_array_equal(found, wanted)
        given = torch.tensor(numbers(name)).to(getattr(torch, kind))
        cast = fw.tensor(numbers(name), device=place).to(getattr(fw, kind)).to(ours)
        wanted = given.to(theirs).view(torch.uint8).numpy()
        np.testing.assert_array_equal(cast.view(fw.uint8).numpy(), wanted)
    # One kernel casts there and back: the rounding between stays.
    x = fw.tensor(numbers(name), device=place)
    wanted = (torch.tensor(numbers(name)).to(theirs).float() * 2).numpy()
    np.testing.assert_array_equal((x.to(ours).float() * 2).numpy(), wanted)


def test_they_are_stored_and_moved(place: Device) -> None:
    x = fw.tensor([[1.0, -2.0], [0.5, 448.0]], device=place).to(fw.float8_e4m3fn)
    for found, wanted in (
        (x.t().contiguous(), [[1, 0.5], [-2, 448]]),
        (fw.cat([x, x], 1)[0], [1, -2, 1, -2]),
        (x[fw.tensor([1, 0], device=place)], [[0.5, 448], [1, -2]]),
        (fw.full((2,), 3.0, dtype=x.dtype, device=place), [3, 3]),
        (x.clone().zero_(), [[0, 0], [0, 0]]),
    ):
        assert found.dtype is fw.float8_e4m3fn
        assert found.tolist() == wanted


def test_what_computes_refuses_them_by_name() -> None:
    x = fw.ones(2).to(fw.float8_e5m2)
    with pytest.raises(NotImplementedError, match="add: `x` is float8_e5m2"):
        x + x
    with pytest.raises(RuntimeError, match="float8_e5m2 and float32 are not promoted"):
        x + fw.ones(2)


@pytest.mark.parametrize("name", NAMES)
def test_limits_are_as_in_torch(name: str) -> None:
    assert repr(fw.finfo(getattr(fw, name))) == repr(torch.finfo(getattr(torch, name)))


def test_files_hold_them(tmp_path: object) -> None:
    x = fw.tensor([1.0, -448.0]).to(fw.float8_e4m3fn)
    for name in ("x.safetensors", "x.pt"):
        path = f"{tmp_path}/{name}"
        fw.save({"x": x}, path)
        found = fw.load(path)["x"]
        assert found.dtype is fw.float8_e4m3fn
        assert found.tolist() == [1, -448]
    theirs = torch.load(f"{tmp_path}/x.pt", weights_only=True)["x"]
    assert theirs.dtype is torch.float8_e4m3fn
    assert theirs.float().tolist() == [1, -448]
