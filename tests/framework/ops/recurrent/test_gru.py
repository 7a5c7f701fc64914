"""Steps of a GRU by NumPy are those that the recorded ops make."""

from tests.framework.ops.recurrent.twin import check_host_steps
from vkbackend.framework.ops.recurrent import gru_steps


def test_host_steps_are_the_recorded_ones() -> None:
    check_host_steps(
        lambda mask, *given: gru_steps(*given, mask),
        *[(4, 3, 15), (3, 5), (15, 5), (15,)],
    )
    check_host_steps(
        lambda mask, *given: gru_steps(*given, None, mask),
        *[(4, 3, 15), (3, 5), (15, 5)],
    )
