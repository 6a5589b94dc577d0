"""What is known of runs between blanks must be what the tokenizer itself says."""

from functools import cache
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Whitespace

from evervec.embedders.local import files
from evervec.embedders.local.runs import REMEMBERED, Runs
from evervec.embedders.local.tokens import Tokens


@cache
def tokenizer() -> Tokenizer:
    made = Tokenizer.from_str(files.tokenizer().decode())
    made.no_truncation()
    made.no_padding()
    return made


@cache
def runs() -> Runs:
    return Runs(tokenizer())


def told(text):
    encoding = tokenizer().encode(text, add_special_tokens=False)
    return list(accumulate((end for _, end in encoding.offsets), max))


def told_ids(text):
    return tokenizer().encode(text, add_special_tokens=False).ids


PIECES = st.sampled_from(
    ["word", "Word,", "`x_y`", " ", "\n", "\t", "\r\n", "\xa0", "\u2003", "\u3000", "e\u0301", "\u0301",
     "\u200d", "\x00", "\x1c", "\x85", "漢字。", "ที่", "İ", "ﬁ", "ß", "[CLS", "##ing", "x" * 120, "🙂",
     "don't", "http://a.b/c?d=e_f", "\ufffd", "\ufeff", "한국어"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES | st.text(max_size=6), max_size=40).map("".join))
def test_runs_have_the_tokens_of_the_text_and_they_end_where_its_own_do(text):
    if runs().able(text):
        assert runs().ends(text) == told(text)
        # From memory as well.
        ends, ids = runs().read(text)
        assert (ends, ids.tolist()) == (told(text), told_ids(text))
        assert runs().counts(["", text, text]) == [0, len(told(text)), len(told(text))]


def test_a_long_text_has_the_same_ends_in_all_its_windows():
    text = "Where the tokens end, naïvely or not; 漢字 too. " * 3000 + "x" * 200

    assert list(Tokens(files.tokenizer()).ends(text)) == told(text)
    assert Tokens(files.tokenizer()).count([text, "", text]) == [
        len(told(text)) + 2,
        2,
        len(told(text)) + 2,
    ]


def test_a_text_that_spells_a_special_token_is_read_as_a_whole():
    text = "before [SEP] after " * 200

    assert not runs().able(text)
    assert list(Tokens(files.tokenizer()).ends(text)) == told(text)
    assert Tokens(files.tokenizer()).count(["before", text]) == [3, len(told(text)) + 2]


def test_other_kinds_of_tokenizers_are_left_to_themselves():
    bytewise = Tokenizer(BPE())
    unparted = Tokenizer.from_str(files.tokenizer().decode())
    unparted.pre_tokenizer = Whitespace()

    assert runs().able("any text")
    assert not Runs(bytewise).able("any text")
    assert not Runs(unparted).able("any text")


def test_what_is_remembered_is_bounded_and_forgetting_harms_nothing():
    made = Runs(tokenizer())
    many = " ".join(f"w{number}" for number in range(REMEMBERED + 10))

    made.ends(many)

    assert made.ends("and then w5 again") == told("and then w5 again")
    assert made.ends("and then w5 again") == told("and then w5 again")
