"""What each format of text becomes: its structure survives as headings, rows and code."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_chunk import Quick

from evervec.errors import Permanent
from evervec.text.blocks import Kind
from evervec.text.chunk import ChunkRecipe, chunk
from evervec.text.code import code_blocks
from evervec.text.parse import PARSERS, Parsed, parse


def read(name: str, text: str) -> str:
    return parse(name, text.encode()).text


def chunks(parsed: Parsed, tokens: int = 32):
    recipe = ChunkRecipe(tokens_max=tokens)
    return list(chunk(parsed.text, kind=parsed.kind, tokens=Quick(), recipe=recipe))


RST = """
=====
Title
=====

With ``code``, :ref:`a place <x>` and `a link <http://x>`_. So::

    # no heading
    x = 1

.. note:: Look
   here.

Inner
-----

.. function:: foo(x)
   :noindex:

   Does it.

.. code-block:: python

   y = 2

=====  =====
A      B
=====  =====
1      two
=====  =====

+---+----+
| a | b  |
+===+====+
| 1 | x  |
|   | y  |
+---+----+

.. _target:
.. A comment
   of two lines.

.. [1] A footnote.

Inner two
---------

# is no heading here
"""


def test_restructured_text_keeps_headings_code_definitions_and_tables():
    assert read("a.rst", RST) == (
        "# Title\n\nWith `code`, a place and a link. So:\n\n```\n# no heading\nx = 1\n```\n\n"
        "Look\n\nhere.\n\n## Inner\n\n### foo(x)\n\nDoes it.\n\n```python\ny = 2\n```\n\n"
        "| A | B |\n| 1 | two |\n\n| a | b |\n| 1 | x y |\n\nA footnote.\n\n## Inner two\n\n"
        "\\# is no heading here"
    )


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_separator_of_a_table_is_found(mark):
    written = f'name{mark}price\n"Tea{mark} black"{mark}3\n\nCoffee{mark}"4,5"\n'

    text = read("a.csv", written)

    shown = f"Tea{mark} black".replace("|", "\\|").replace("\t", " ").replace("  ", " ")
    assert text == f"# name | price\n\n| {shown} | 3 |\n| Coffee | 4,5 |"


def test_every_group_of_rows_is_found_by_its_columns_and_a_new_row_moves_few_others():
    rows = [f"Item {n},{n * 7 % 100},somewhere {n * 31 % 17}" for n in range(200)]
    before = chunks(parse("a.csv", "\n".join(["name,price,place", *rows]).encode()))
    rows.insert(100, "New one,5,here")
    after = chunks(parse("a.csv", "\n".join(["name,price,place", *rows]).encode()))

    assert len(before) > 20
    assert {each.heading for each in before} == {"name | price | place"}
    assert len({each.text for each in after} - {each.text for each in before}) <= 3


@pytest.mark.parametrize("first", ["1,2", "a,a", "a,", "x" * 99 + ",b"])
def test_a_first_row_that_names_no_columns_is_a_row(first):
    assert read("a.csv", f"{first}\n3,4").startswith("| ")


def test_json_becomes_lines_of_names_and_values_under_headings():
    value = {"a": 1.50, "b": {"c": [1, 2], "d": {"e": True}}, "n": None, "empty": []}
    value["items"] = [{"x": "# z", "y": {"w": 1}}, {"x": "two"}]

    assert read("a.json", json.dumps(value)) == (
        "a: 1.5\n\n# b\n\nc: 1, 2\nd.e: true\n\n# items\n\nx: \\# z\ny.w: 1\n\nx: two"
    )
    assert read("a.json", "[1, 1e999, 12345678901234567890]") == "1, 1e999, 12345678901234567890"


def test_each_record_of_json_lines_has_its_names():
    assert (
        read("a.jsonl", '{"a": 1, "b": "x\\u2028y"}\n\n{"a": 2}\n') == "a: 1\nb: x\u2028y\n\na: 2"
    )


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.json", '{"a": 1', "'a.json' is no JSON: .* in line 1"),
        ("a.jsonl", '{"a": 1}\n{"a"\n', "'a.jsonl' is no JSON: .* in line 2"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.jsonl", "[" * 100_000, "nested too deeply"),
        ("a.ipynb", "[" * 100_000, "no list of cells"),
        ("a.ipynb", "{}", "no list of cells"),
        ("a.eml", "just a text", "no message"),
    ],
)
def test_what_is_damaged_is_refused_with_the_place_and_what_to_do(name, data, reason):
    with pytest.raises(Permanent, match=reason) as refused:
        parse(name, data.encode())
    assert refused.value.hint


def test_a_notebook_is_its_text_and_its_code_without_what_the_cells_put_out():
    cells = [
        {"cell_type": "markdown", "source": ["# Tea\n", "with milk"]},
        {"cell_type": "code", "source": "print(`1`)\n", "outputs": [{"data": {"image/png": "iV"}}]},
        {"cell_type": "raw", "source": ["  "]},
        "nonsense",
    ]
    notebook = {"cells": cells, "metadata": {"kernelspec": {"language": "python"}}}

    assert read("a.ipynb", json.dumps(notebook)) == (
        "# Tea\nwith milk\n\n```python\nprint(`1`)\n```"
    )


MAIL = """Subject: =?utf-8?q?Caf=C3=A9_at_nine?=
From: Ada <ada@example.org>
To: Bob <bob@example.org>
Date: Mon, 01 Jan 2024 10:00:00 +0000
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: multipart/alternative; boundary=y

--y
Content-Type: text/html

<p>the html
--y
Content-Type: text/plain; charset=latin-1
Content-Transfer-Encoding: 8bit

See you, Zo\xeb.
# not a heading
--y--
--x
Content-Type: application/pdf
Content-Disposition: attachment; filename="menu of the day.pdf"

%PDF
--x--
"""


def test_a_message_says_who_wrote_when_about_what_and_names_what_hangs_on_it():
    parsed = parse("a.eml", MAIL.encode("latin-1"))

    assert parsed.text == (
        "# Café at nine\n\nFrom: Ada <ada@example.org>\nTo: Bob <bob@example.org>\n"
        "Date: Mon, 01 Jan 2024 10:00:00 +0000\n\nSee you, Zoë.\n\\# not a heading\n\n"
        "Attachments: menu of the day.pdf"
    )
    assert parsed.metadata["title"] == "Café at nine"
    assert parsed.metadata["from"] == "Ada <ada@example.org>"


def test_a_message_without_plain_text_is_read_from_its_html():
    mail = "Subject: Hi\nContent-Type: text/html; charset=nonsense\n\n<h2>Dear</h2><p>you"

    assert read("a.eml", mail) == "# Hi\n\n## Dear\n\nyou"


PYTHON = '''"""A module."""

import os

LIMIT = 3


@dataclass
class Queue:
    """Holds jobs."""

    size: int

    def put(self, job):
        self.size += 1

        return job


# Why this is so.
def main():
    pass


main()
'''
C = """/* Puts a job. */
static int put(struct queue *q, int job)
{
    if (job) {
        return call(job);
    }
    return 0;
}
"""
OTHERS = [
    (
        "a.ts",
        "export class Queue {\n  async put(job) {\n    x();\n  }\n}\n",
        "export class Queue > async put(job)",
    ),
    (
        "a.rs",
        "impl Queue {\n    pub fn put(&self) {\n        x();\n",
        "impl Queue > pub fn put(&self)",
    ),
    ("a.go", "func (q *Queue) Put(j Job) {\n\tx()\n}\n", "func (q *Queue) Put(j Job)"),
    ("a.sql", "create table job (\n  a integer\n);\n", "create table job"),
    ("a.toml", "[tool.ruff]\nline = 1\n", "tool.ruff"),
    ("a.yaml", "name: x\non:\n  push: 1\n", "name > on"),
    ("a.sh", "put() {\n  echo\n}\n", "put()"),
    ("a.c", C, "static int put(struct queue *q, int job)"),
]


def test_code_is_cut_at_definitions_and_found_by_their_names():
    found = chunks(parse("a.py", PYTHON.encode()), tokens=100)

    assert [(each.heading, each.text.splitlines()[0]) for each in found] == [
        ("", '"""A module."""'),
        ("class Queue", "@dataclass"),
        ("class Queue > def put(self, job)", "def put(self, job):"),
        ("", "# Why this is so."),
    ]
    assert found[-1].text.endswith("\n\nmain()")


@pytest.mark.parametrize(("name", "code", "heading"), OTHERS)
def test_definitions_are_seen_in_many_languages(name, code, heading):
    parsed = parse(name, code.encode())
    headings = [block.title for block in code_blocks(parsed.text) if block.kind is Kind.HEADING]

    assert parsed.kind == "code"
    assert " > ".join(headings) == heading


def test_prose_in_code_is_no_definition():
    text = '"""A long text.\n\nclass of things that are many (see below) in a line\nThe type of it.\n"""\n'

    assert {each.heading for each in chunks(parse("a.py", text.encode()))} == {""}


SUFFIXES = st.sampled_from(sorted(PARSERS))
PIECES = st.sampled_from(
    re.findall(
        r"\S+\s+",
        """
class A:
  def b(c) {
}
# x
a: 1
[s]
====
.. note:: x
::
   in
+--+
| a | b |
`x <y>`_ {"a": [1]}
" , === ===
Subject: x
Content-Type: multipart/mixed; boundary=z

--z
日本語。 שלום
""",
    )
)


@given(SUFFIXES, st.lists(PIECES, max_size=30))
def test_any_text_in_any_format_gives_chunks_that_hold_all_of_it_or_a_clear_refusal(suffix, pieces):
    try:
        parsed = parse(f"a{suffix}", "".join(pieces).encode())
    except Permanent:
        return
    held = "".join(each.text for each in chunks(parsed))
    assert "".join(held.split()) == "".join(parsed.text.split())
