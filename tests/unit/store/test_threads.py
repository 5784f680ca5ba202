"""Work on the disk, and how its errors reach callers."""

import errno

from jetspark.store.threads import attempt


def test_work_that_succeeds_has_no_error() -> None:
    done: list[int] = []

    assert attempt(lambda: done.append(1)) is None
    assert done == [1]


def test_an_error_of_the_disk_is_returned_as_it_is() -> None:
    error = OSError(errno.ENOSPC, "No space left on device")

    def work() -> None:
        raise error

    assert attempt(work) is error


def test_any_other_error_is_returned_as_one_of_the_disk_with_its_cause() -> None:
    """A caller waits for the result, and the log needs the traceback."""
    error = ValueError("broken")

    def work() -> None:
        raise error

    found = attempt(work)

    assert found is not None
    assert (found.errno, found.__cause__) == (errno.EIO, error)
    assert "ValueError: broken" in str(found)
