"""What a user says a source is, written down and opened again."""

import pytest

from evervec import specs
from evervec.errors import ConfigError


@pytest.mark.parametrize(
    "spec",
    [
        specs.folder("notes"),
        specs.folder("notes", patterns=["*.pdf"], ignore=["/old"], file_bytes_max=5),
        specs.table("shop.db", "articles", key="id", where="price > 3", into="vector"),
    ],
)
def test_what_is_written_down_is_read_as_the_same(spec):
    assert specs.from_json(specs.to_json(spec)) == spec


def test_a_folder_registered_before_sizes_could_be_chosen_stays_equal():
    written = specs.to_json(specs.folder("notes"))

    assert "file_bytes_max" not in written
    assert specs.to_json(specs.from_json(written)) == written


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_that_no_file_has_is_refused(size):
    with pytest.raises(ConfigError, match=f"file_bytes_max is {size}"):
        specs.folder("notes", file_bytes_max=size)
