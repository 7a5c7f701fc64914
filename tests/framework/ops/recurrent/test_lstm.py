"""Steps of an LSTM by NumPy are those that the recorded ops make."""

from tests.framework.ops.recurrent.twin import check_host_steps
from vkbackend.framework.ops.recurrent import lstm_steps


def test_host_steps_are_the_recorded_ones() -> None:
    check_host_steps(
        lambda mask, *given: lstm_steps(*given, None, mask),
        *[(4, 3, 20), (3, 5), (3, 5), (20, 5)],
    )
    check_host_steps(
        lambda mask, *given: lstm_steps(*given, mask),
        *[(4, 3, 20), (3, 2), (3, 5), (20, 2), (2, 5)],
    )
