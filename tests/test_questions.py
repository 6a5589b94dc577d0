"""The test set for search: each question's answer is where it should be, and gives nothing away."""

from pathlib import Path

import pytest
from benches.questions import test_set as made_of

MANUAL = Path(__file__).parent / "data" / "manual"


@pytest.fixture(scope="module")
def tests():
    return made_of(MANUAL, library=9, each=9)


def answers(tests, kind):
    return {
        one.text: " ".join(tests.pages[one.page][one.start : one.end].split())
        for one in tests.questions
        if one.kind == kind
    }


def test_a_heading_is_answered_by_its_own_text_and_stands_nowhere(tests):
    found = answers(tests, "heading")

    assert found["Boiling it quickly"].startswith("A lid keeps the steam inside")
    assert found["Water and heat"].endswith("in its order. ##")
    assert not any("Boiling it quickly" in page for page in tests.pages.values())


def test_the_questions_of_the_faq_are_asked(tests):
    (answer,) = answers(tests, "faq").values()

    assert answer.startswith("It stood too long")


def test_a_sentence_with_a_link_is_answered_where_the_link_leads_and_not_where_it_stands(tests):
    (one,) = [one for one in tests.questions if one.kind == "link"]

    assert one.text == (
        "How much it takes is explained under what a kettle needs in the other part."
    )
    assert one.source == "tutorial/water.html"
    assert answers(tests, "link")[one.text].startswith("About two thousand watts")


def test_a_term_is_answered_by_its_definition(tests):
    found = answers(tests, "term")

    assert found["infusion"] == (
        "infusion What hot water draws from leaves that lie in it for some minutes."
    )


def test_a_docstring_is_answered_by_the_entry_and_heads_share_what_stands_below_them(tests):
    found = answers(tests, "docstring")

    assert any(text.startswith("Recursively copy a directory tree") for text in found)
    assert any(
        "shutil.copyfolder(src) Takes everything below" in answer for answer in found.values()
    )
    assert not any("Removes" in one and "Takes" in one for one in found.values())
