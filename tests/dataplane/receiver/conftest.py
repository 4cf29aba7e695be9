from collections.abc import Iterator
from pathlib import Path

import pytest

from ...agent.network import Link


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    link = Link(tmp_path)
    try:
        link.make()
        yield link
    finally:
        link.remove()
