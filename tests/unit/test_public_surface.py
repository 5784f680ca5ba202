"""What `import jetspark` offers."""

from __future__ import annotations

import pytest

import jetspark


def test_every_public_name_can_be_imported() -> None:
    for name in jetspark.__all__:
        assert getattr(jetspark, name) is not None


def test_dir_lists_the_public_names() -> None:
    assert dir(jetspark) == sorted(jetspark.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = jetspark.nonsense
