"""One fork server for all tests of a process."""

from collections.abc import Iterator

import pytest
from tests.crash.history import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running
