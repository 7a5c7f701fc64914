"""Limits of processor time that hold on machines slower than the one they are of.

Figures are of two cores of an AMD EPYC (family 25) with CPython 3.11, 2026-11-22.
"""

UNIT_SECONDS = 0.0055
"""What `pace` takes there."""

PACE = """
def pace():
    begin = time.thread_time()
    counts = {}
    for number in range(40000):
        key = str(number % 997)
        counts[key] = counts.get(key, 0) + len(key)
    return time.thread_time() - begin
"""
"""Defines `pace`, the seconds that a piece of plain Python takes; needs `time`."""


def scaled(seconds: float, unit: float) -> float:
    """Return what took `seconds` here as seconds of that machine.

    Parameters
    ----------
    seconds : float
        Measured by a process.
    unit : float
        What `pace` returned there. A machine quicker than that one changes nothing.
    """
    return seconds / max(1.0, unit / UNIT_SECONDS)
