"""Parts of the ranks cover each tensor once, and lie as they say."""

import pytest

from vkbackend.framework.nn.fsdp.layout import ALIGNMENT, FlatLayout


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("sizes", [(), (1,), (0, 5), (64, 64), (100, 1, 37, 200)])
def test_parts_cover_tensors(sizes: tuple[int, ...], ranks: int) -> None:
    layout = FlatLayout(sizes, ranks)
    assert all(start % ALIGNMENT == 0 for start in layout.starts)
    for tensor, size in enumerate(sizes):
        spans = [layout.part(rank, tensor) for rank in range(ranks)]
        covered = [at for low, high in spans for at in range(low, high)]
        assert covered == list(range(size))
    at, found = 0, {}
    for rank in range(ranks):
        assert sum(count for _, count in layout.pieces(rank)) == layout.chunk
        for tensor, count in layout.pieces(rank):
            if tensor is not None:
                found.setdefault(tensor, []).append((at, count))
            at += count
    assert at == layout.total
    for tensor, spans in found.items():
        assert spans[0][0] == layout.starts[tensor]
        assert sum(count for _, count in spans) == sizes[tensor]
    whole = [each for each in layout.whole() if each[0] is not None]
    assert whole == [(k, size) for k, size in enumerate(sizes) if size]
    assert sum(count for _, count in layout.whole()) == layout.total
