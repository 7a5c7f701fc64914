from vkbackend.framework.ops.loss.linear_cross_entropy import chunk_rows


def test_rows_of_a_chunk_fall_with_the_classes() -> None:
    assert chunk_rows(1 << 15) == 2048
    assert chunk_rows(151936) == 256
    assert chunk_rows(1 << 30) == 256
    assert chunk_rows(0) == 1 << 26
