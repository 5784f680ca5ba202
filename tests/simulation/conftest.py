"""The order of the campaigns."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with those that take long, so that the workers end at about the same time.

    They have more time than others before they are ended.
    """
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)
