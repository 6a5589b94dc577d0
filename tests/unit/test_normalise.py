"""The optional normaliser: lower-case words without accents and punctuation."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evervec.text.normalise import normalise
from evervec.text.template import Template


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ""),
        ("", ""),
        ("   ", ""),
        ("\t\n\r", ""),
        ("Hello", "hello"),
        ("HELLO World", "hello world"),
        ("already lower", "already lower"),
        ("niño cañón", "nino canon"),
        ("café crème", "cafe creme"),
        ("ÀÉÎÕÜ", "aeiou"),
        ("cafe\u0301", "cafe"),
        ("hello, world!", "hello world"),
        ("a-b_c/d", "a b c d"),
        ("!!!", ""),
        ("a   b\t\nc", "a b c"),
        ("  trimmed  ", "trimmed"),
        ("room 101", "room 101"),
        ("1.5-02/25", "1 5 02 25"),
        ("İstanbul", "istanbul"),
        ("漢字 kana", "漢字 kana"),
    ],
)
def test_a_text_is_reduced_to_its_words(text, expected):
    assert normalise(text) == expected


@given(st.text())
def test_normalising_twice_changes_nothing_and_leaves_letters_digits_and_single_spaces(text):
    once = normalise(text)

    assert normalise(once) == once
    assert once == once.strip()
    assert "  " not in once
    assert all(mark == " " or unicodedata.category(mark)[0] in "LN" for mark in once)


@pytest.mark.accepts("000-04")
@pytest.mark.parametrize("fields", [{}, {"other": "x"}, {"title": None}])
def test_a_document_without_the_wanted_fields_has_no_text(fields):
    template = Template.of_fields([{"path": "title"}])

    assert normalise(template.render(fields)) == ""
