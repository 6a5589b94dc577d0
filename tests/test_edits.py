"""The edits that the benchmark of splitters draws: each changes what it says, and nothing else."""

import random

import pytest
from benches.edits import EDITS, drawn

PAGE = """# Page

Words at the beginning, enough of them to be called a paragraph by anybody who counts them.

## First

```sh
# no heading
```

A paragraph of the first section that is long enough to be deleted without leaving a hole behind.

## Second

More.

## Third

The end.
"""


def edited(what, seed):
    ((_, text),) = drawn([PAGE], EDITS[what], count=1, chance=random.Random(seed))
    return text


@pytest.mark.parametrize("seed", range(8))
def test_a_moved_section_is_all_there_in_another_order(seed):
    text = edited("one moved section", seed)

    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert sorted(headings) == ["## First", "## Second", "## Third"]
    assert headings != ["## First", "## Second", "## Third"]
    assert sorted(filter(None, text.split("\n"))) == sorted(filter(None, PAGE.split("\n")))


@pytest.mark.parametrize("seed", range(8))
def test_a_renamed_heading_is_a_heading_and_no_comment_in_code(seed):
    before, after = PAGE.splitlines(), edited("one renamed heading", seed).splitlines()

    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == 1
    assert changed[0][0].startswith("#")
    assert changed[0][0] != "# no heading"


def test_a_deleted_paragraph_is_one_of_the_long_ones():
    texts = {edited("one deleted paragraph", seed) for seed in range(12)}

    assert len(texts) == 2
    assert all("## First" in text and "# no heading" in text for text in texts)


def test_an_inserted_word_is_the_only_difference():
    text = edited("one inserted word", 1)

    assert text.replace("evergreen ", "", 1) == PAGE


def test_a_text_without_a_place_for_an_edit_is_left_to_others():
    both = drawn(["no heading here", PAGE], EDITS["one renamed heading"], count=3,
                 chance=random.Random(2))  # fmt: skip

    assert {number for number, _ in both} == {1}
