"""Text to chunks: what they hold, what they never exceed, and what an edit leaves alone."""

import random
import re
import tracemalloc
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import evervec
from evervec.errors import ConfigError
from evervec.text.chunk import ALGORITHM, ChunkRecipe, chunk
from evervec.text.digest import text_digest

MODEL = Path(evervec.__file__).parent / "embedders" / "local" / "tokenizer.json"
SMALL = ChunkRecipe(tokens_max=32)


@cache
def tokenizer() -> Tokenizer:
    made = Tokenizer.from_file(str(MODEL))
    made.no_truncation()
    made.no_padding()
    return made


class WordPieces:
    """The tokenizer of the default model."""

    def token_ends(self, text):
        return [end for _, end in tokenizer().encode(text, add_special_tokens=False).offsets]

    def count_tokens(self, texts):
        return [len(made.ids) for made in tokenizer().encode_batch(list(texts))]


class Quick:
    """A tokenizer of words and marks that costs next to nothing."""

    def token_ends(self, text):
        return [found.end() for found in re.finditer(r"\w+|[^\w\s]", text)]

    def count_tokens(self, texts):
        return [2 + len(self.token_ends(text)) for text in texts]


def cut(text, *, kind="plain", tokens=None, recipe=None):
    recipe = recipe or ChunkRecipe()
    return list(chunk(text, kind=kind, tokens=tokens or Quick(), recipe=recipe))


def bare(text):
    return "".join(text.split())


PIECES = st.sampled_from(
    ["# A\n", "## B\n", "### C\n", "### D\n", "```\n", "# x\n", "- item\n", "| a | b |\n", "|-|-|\n",
     "\n", "\n\n", "    code\n", "> quote\n", "---\n", "===\n", "<div>\n", "<!-- c\n", "-->\n",
     "A sentence. ", "mr. x ", "word " * 9, "漢字。", "x" * 150, "\x00", "\u200d", "e\u0301", "\t",
     "\x1c", "\r"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=60).map("".join)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.sampled_from(["markdown", "plain"]), st.sampled_from([0, 5, 16]), st.booleans())
def test_chunks_hold_the_whole_text_within_the_limit(text, kind, overlap, context):
    recipe = ChunkRecipe(tokens_max=32, overlap=overlap, heading_context=context)

    chunks = cut(text, kind=kind, tokens=WordPieces(), recipe=recipe)

    assert all(text[part.start : part.end] == part.text for part in chunks)
    assert all(part.text.strip() for part in chunks)
    assert all(n <= 32 for n in WordPieces().count_tokens([part.embedded for part in chunks]))
    if not overlap:
        assert bare("".join(part.text for part in chunks)) == bare(text)
    assert chunks == cut(text, kind=kind, tokens=WordPieces(), recipe=recipe)


KINDS = ("plain", "code")
SHORT = st.lists(st.sampled_from(["word", "Two.", " ", "\t", "\n", "漢", "x" * 40]), max_size=30)


@settings(max_examples=150, deadline=None)
@given(SHORT.map("".join), st.sampled_from([0, 5]))
def test_a_short_text_without_headings_is_cut_alike_whatever_it_is_taken_for(text, overlap):
    """Plain texts that fit take a shorter way to the same chunks."""
    recipe = ChunkRecipe(tokens_max=32, overlap=overlap)
    plain, code = (cut(text, kind=kind, tokens=WordPieces(), recipe=recipe) for kind in KINDS)
    if len(plain) == 1:
        assert plain == code


@pytest.mark.parametrize("text", ["", " \n\t\n ", "\n" * 1000])
@pytest.mark.parametrize("kind", ["plain", "markdown"])
def test_a_blank_text_has_no_chunks(text, kind):
    assert cut(text, kind=kind) == []


def test_chunks_carry_the_headings_above_them():
    text = "# Guide\n\n## Install\n\nRun it.\n\n## Use\n\nSee `x`.\n\nAside\n-----\nMore.\n"

    found = [(part.heading, part.text) for part in cut(text, kind="markdown")]

    assert found == [
        ("Guide > Install", "# Guide\n\n## Install\n\nRun it."),
        ("Guide > Use", "## Use\n\nSee `x`."),
        ("Guide > Aside", "Aside\n-----\nMore."),
    ]


def test_headings_are_told_and_embedded_only_if_asked_for():
    (plain,) = cut("# A\n\nb", kind="markdown")
    (carrying,) = cut("# A\n\nb", kind="markdown", recipe=ChunkRecipe(heading_context=True))

    assert plain.heading == carrying.heading == "A"
    assert plain.embedded == "# A\n\nb"
    assert carrying.embedded == "A\n# A\n\nb"


def test_a_long_heading_leaves_room_for_the_text():
    text = f"# {'very ' * 200}long\n\n## Inner\n\n" + "word " * 100

    recipe = ChunkRecipe(tokens_max=32, heading_context=True)
    chunks = cut(text, kind="markdown", recipe=recipe)

    assert all(n <= 32 for n in Quick().count_tokens([part.embedded for part in chunks]))
    assert chunks[-1].heading == "Inner"


def test_a_hash_in_a_fence_is_no_heading_and_a_fence_that_fits_stays_whole():
    fence = "```sh\n# not a heading\n" + "run this now\n" * 4 + "```"
    text = "# A\n\n" + "Some words here. " * 8 + f"\n\n{fence}\n\n" + "Other words here. " * 8

    chunks = cut(text, kind="markdown", recipe=SMALL)

    assert {part.heading for part in chunks} == {"A"}
    assert any(fence in part.text for part in chunks)


def test_each_part_of_a_table_carries_the_names_of_its_columns():
    rows = "".join(f"| item {n} | {n * 7} euros | {n % 5} days |\n" for n in range(60))
    text = f"# Prices\n\nAll of them:\n\n| thing | costs | takes |\n|---|--:|--:|\n{rows}\nThe end."

    recipe = ChunkRecipe(tokens_max=64, heading_context=True)
    chunks = cut(text, kind="markdown", tokens=WordPieces(), recipe=recipe)

    assert len(chunks) > 10
    inside = [part for part in chunks if part.text.startswith("| item")]
    assert {part.heading for part in inside} == {"Prices > thing | costs | takes"}
    assert {part.heading for part in chunks if part not in inside} == {"Prices"}
    counts = WordPieces().count_tokens([part.embedded for part in chunks])
    assert all(count <= 64 for count in counts)


def test_a_table_is_cut_between_its_rows():
    rows = "".join(f"| {'word ' * 9}{n} | {n} |\n" for n in range(40))

    chunks = cut(
        f"| a | b |\n|---|---|\n{rows}", kind="markdown", recipe=ChunkRecipe(tokens_max=64)
    )

    assert all(part.text.startswith("|") and part.text.endswith("|") for part in chunks)


def test_long_names_of_columns_are_not_carried():
    header = "| " + " ".join(f"name{n}" for n in range(30)) + " | b |\n|---|---|\n"
    text = header + "| one | two |\n" * 60

    chunks = cut(text, kind="markdown", recipe=ChunkRecipe(tokens_max=64))

    assert {part.heading for part in chunks} == {""}


def test_the_sentences_of_scripts_without_spaces_stay_whole():
    sentences = [f"第{n}条の規定は、すべての利用者に等しく適用される。" for n in range(40)]

    chunks = cut("".join(sentences), tokens=WordPieces(), recipe=ChunkRecipe(tokens_max=64))

    assert len(chunks) > 10
    assert all(part.text.startswith("第") and part.text.endswith("。") for part in chunks)


def test_the_items_of_a_list_stay_whole():
    items = "".join(f"- item {n} goes on\n  in a second line, to its end {n}.\n" for n in range(40))

    chunks = cut(f"What to do:\n\n{items}", kind="markdown", recipe=ChunkRecipe(tokens_max=64))

    assert len(chunks) > 5
    assert all(part.text.endswith(".") for part in chunks)
    assert all(part.text.startswith(("- item", "What")) for part in chunks)


def test_front_matter_is_no_heading():
    text = "---\ntitle: A page\ntags: [one]\n---\n\n# Page\n\nWords.\n"

    assert [part.heading for part in cut(text, kind="markdown")] == ["", "Page"]


def test_small_neighbours_below_level_two_share_a_chunk():
    text = "## Q\n\nintro\n\n### One\n\nyes\n\n### Two\n\nno\n\n## R\n\nend"

    found = [(part.heading, part.text) for part in cut(text, kind="markdown")]

    assert found == [
        ("Q", "## Q\n\nintro"),
        ("Q", "### One\n\nyes\n\n### Two\n\nno"),
        ("R", "## R\n\nend"),
    ]


def test_sentences_stay_whole_and_abbreviations_do_not_end_them():
    sentence = "Dr. Ann Lee of Lee Inc. paid 3.5 euros to J. Poe, e.g. for tea in the old town."
    chunks = cut(" ".join([sentence] * 12), recipe=ChunkRecipe(tokens_max=64))

    assert len(chunks) > 2
    assert all(part.text.startswith("Dr.") and part.text.endswith("town.") for part in chunks)


def test_overlap_repeats_the_end_of_the_chunk_before():
    text = " ".join(f"w{n}" for n in range(300))

    chunks = cut(text, recipe=ChunkRecipe(tokens_max=50, overlap=8))

    shared = [last.end - part.start for last, part in pairwise(chunks)]
    assert all(20 < size < 45 for size in shared)


def test_what_is_repeated_counts_toward_the_limit():
    """A very long word costs next to nothing as a whole and much in parts, repeated ones too.

    The random texts had no word of characters that are several tokens each.
    """
    recipe = ChunkRecipe(tokens_max=32, overlap=16)

    chunks = cut("\ud169" * 250 + "end", tokens=WordPieces(), recipe=recipe)

    assert all(n <= 32 for n in WordPieces().count_tokens([part.embedded for part in chunks]))
    assert {at for part in chunks for at in range(part.start, part.end)} == set(range(253))


def test_a_character_under_endless_marks_is_cut_all_the_same():
    """It is one character to a reader, and no bound on the marks is a bound on the chunk.

    The model's own tokenizer drops marks; others do not, and only the model's had such texts.
    """
    text = "word " * 9 + "a" + "\u0301" * 5000 + "\u200d" * 5000 + " end"

    chunks = cut(text, recipe=SMALL)

    assert all(n <= 32 for n in Quick().count_tokens([part.embedded for part in chunks]))
    assert bare("".join(part.text for part in chunks)) == bare(text)


VOCABULARY = [
    "".join(random.Random(n).choices("abcdefghijklmnop", k=n % 8 + 2)) for n in range(2000)
]


def text_of(shape, chance):
    words = chance.choices(VOCABULARY, k=6500)
    if shape == "words":
        return " ".join(words)
    if shape == "unbroken":
        return "".join(words)
    if shape == "repeated":
        return "the quick brown fox jumps over the lazy dog " * 900
    end = {"sentences": ". ", "paragraphs": ".\n\n", "lines": "\n"}[shape]
    return "".join(word + (end if chance.random() < 0.07 else " ") for word in words)


def edited(text, chance):
    """Insert, replace or delete one word somewhere, at the very start and end as well."""
    at = chance.choice([0, len(text) - 1, *(chance.randrange(len(text)) for _ in range(5))])
    word = re.compile(r"\S{1,8}\s*").search(text, at)
    start, end = word.span() if word else (at, at)
    new = chance.choice(VOCABULARY) + (" " if " " in text else "")
    return chance.choice(
        [
            text[:start] + new + text[start:],
            text[:start] + new + text[end:],
            text[:start] + text[end:],
        ]
    )


def changed(before, after):
    old = {text_digest(part.embedded) for part in before}
    return sum(text_digest(part.embedded) not in old for part in after)


@pytest.mark.parametrize(
    "shape", ["paragraphs", "sentences", "lines", "words", "unbroken", "repeated"]
)
def test_one_word_changes_at_most_three_chunks_of_a_long_text(shape):
    chance = random.Random(shape)
    text = text_of(shape, chance)
    before = cut(text)

    for _ in range(25):
        assert changed(before, cut(edited(text, chance))) <= 3

    with_overlap = ChunkRecipe(overlap=20)
    before = cut(text, recipe=with_overlap)
    for _ in range(5):
        assert changed(before, cut(edited(text, chance), recipe=with_overlap)) <= 4


def test_one_word_changes_at_most_three_chunks_by_the_models_own_tokens():
    chance = random.Random(5)
    text = text_of("words", chance)
    before = cut(text, tokens=WordPieces())

    for _ in range(4):
        assert changed(before, cut(edited(text, chance), tokens=WordPieces())) <= 3


def test_a_word_of_a_heading_changes_the_chunks_below_it_only_if_they_carry_it():
    """What is embedded is the heading and the text, so the promise of three is the text's."""
    text = "# Old title\n\n" + text_of("paragraphs", random.Random(3))
    carrying = ChunkRecipe(heading_context=True)

    def changes(recipe):
        renamed = cut(text.replace("Old", "New", 1), kind="markdown", recipe=recipe)
        return changed(cut(text, kind="markdown", recipe=recipe), renamed)

    assert changes(ChunkRecipe()) == 1
    assert changes(carrying) == len(cut(text, kind="markdown", recipe=carrying))


def test_memory_does_not_grow_with_the_text():
    text = text_of("words", random.Random(1)) * 50
    tracemalloc.start()
    try:
        for _ in chunk(text, kind="plain", tokens=Quick(), recipe=ChunkRecipe()):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 15 * len(text)


@pytest.mark.accepts("003-54")
@pytest.mark.parametrize(
    "options",
    [{"tokens_max": 31}, {"tokens_max": 10**6}, {"tokens_max": "9"}, {"tokens_max": True},
     {"overlap": -1}, {"overlap": 101}, {"heading_context": 1}, {"size": 3}],
)  # fmt: skip
def test_options_out_of_bounds_are_refused(options):
    """By their name, and in the same words whoever gives them."""
    ((name, _),) = options.items()
    with pytest.raises(ConfigError, match=name) as written:
        ChunkRecipe.from_json(options)
    if name == "size":
        return
    with pytest.raises(ConfigError) as built:
        ChunkRecipe(**options)
    assert str(built.value) == str(written.value)


def test_a_recipe_survives_being_stored_with_the_version_of_the_algorithm():
    recipe = ChunkRecipe(tokens_max=64, overlap=8, heading_context=True)

    assert ChunkRecipe.from_json(recipe.to_json()) == recipe
    assert recipe.to_json()["algorithm"] == ALGORITHM


def test_a_digest_is_sixteen_bytes_and_names_the_text():
    assert len(text_digest("a")) == 16
    assert text_digest("a") == text_digest("a") != text_digest("b")
