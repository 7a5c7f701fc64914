"""Interrupts a submission that another thread waits for, and prints what that got."""

import threading
import warnings

from vkbackend import open_device


def main() -> None:
    """Let `Queue.wait` of another thread find a number that the driver never gets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Software devices are slow.
        device = open_device()
    queue, functions = device.compute_queue, device.logical.functions
    buffer = device.allocate(400)
    batch = device.batch()
    batch.fill(buffer, 2)
    submit = functions.vkQueueSubmit2
    got: list[bool] = []

    def interrupted(*_: object) -> int:
        functions.vkQueueSubmit2 = submit
        raise KeyboardInterrupt

    number = queue.submitted + 1
    waiter = threading.Thread(target=lambda: got.append(queue.wait(number)))
    waiter.start()
    functions.vkQueueSubmit2 = interrupted
    try:
        batch.submit()
    except KeyboardInterrupt:
        got.append(queue.submitted == number)
    waiter.join()
    got.append(batch.point is None)
    device.close()
    print(*got)


if __name__ == "__main__":
    main()
