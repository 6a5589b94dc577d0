"""A shop, a model and a place for the state."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tour.shop import Shop

from evervec.testing.embedder import HashEmbedder


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop.db")
    yield shop
    shop.close()


@pytest.fixture
def model() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "evervec.db"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder
