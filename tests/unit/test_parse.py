"""Files to text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evervec.errors import Permanent
from evervec.text.parse import PARSERS, Parsed, parse

NAMES = st.sampled_from(["a.md", "a.txt", "a.html", "a.log", "noext", "a.pdf"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_a_text_is_read_whatever_its_encoding(encoding):
    assert parse("a.txt", "Crème brûlée: “fine”".encode(encoding)).text == "Crème brûlée: “fine”"


def test_a_broken_byte_does_not_make_other_letters_of_what_is_utf_8():
    """The damage was taken for Windows-1252, and every other letter was read as two."""
    data = "größer als Müll, schöner".encode() + "ü".encode()[:1]

    assert parse("a.md", data).text == "größer als Müll, schöner\ufffd"


@pytest.mark.parametrize("encoding", ["shift-jis", "euc-jp", "big5", "gbk", "koi8-r"])
def test_a_text_in_an_unknown_encoding_is_refused_or_at_least_no_control_characters(encoding):
    """It was read as Latin-1 before: a text of control characters, searchable and wrong."""
    text = "Привет, мир" if encoding == "koi8-r" else "日本中文漢字" * 5
    try:
        read = parse("a.txt", text.encode(encoding)).text
    except Permanent:
        return
    assert not any("\x7f" <= character < "\xa0" for character in read)


def test_the_refusal_of_an_unknown_encoding_says_what_to_do():
    with pytest.raises(Permanent, match="neither UTF-8 nor Windows-1252") as refused:
        parse("a.txt", "日本語のテキスト。".encode("shift-jis"))
    assert "iconv" in str(refused.value.hint)


def test_line_ends_become_newlines():
    assert parse("a.md", b"a\r\nb\rc\n").text == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.md", "markdown"),
        ("A.MARKDOWN", "markdown"),
        ("a.txt", "plain"),
        ("Makefile", "plain"),
        ("a.py", "code"),
        ("a.YML", "code"),
        ("a.htm", "markdown"),
    ],
)
def test_the_suffix_tells_the_kind(name, kind):
    assert parse(name, b"x").kind == kind


@pytest.mark.parametrize("data", [b"a\0b", bytes(range(1, 32)) * 9, b"\xff\xfe" + b"\0" * 99])
def test_binary_data_is_refused_with_its_reason(data):
    with pytest.raises(Permanent, match="binary data, not text"):
        parse("notes.txt", data)


def test_a_format_without_parser_is_refused_by_its_suffix():
    with pytest.raises(Permanent, match=r"'paper\.xyz' is a PDF document.*'\.xyz'"):
        parse("paper.xyz", b"%PDF-1.7 text")


def test_html_becomes_text_with_its_structure():
    page = b"""<html><head><title>Tea &amp; cake</title><style>p{}</style></head><body>
    <nav>menu</nav><h1>How <b>to</b></h1><p>First, <a href="x">boil</a>
    water&nbsp;&eacute;.</p><ul><li><p>one</p></li><li>two<ol><li>inner</li></ol></li></ul>
    <pre><code>if x:

    # not a heading
    y()</code></pre>
    <table><tr><th>A</th><th>B</th></tr><tr><td>1|2</td><td><p>3</p><p>4</p></td></tr></table>
    <script>alert(1)</script>end</body></html>"""

    parsed = parse("a.html", page)

    assert parsed.metadata == {"title": "Tea & cake"}
    assert parsed.text == (
        "# How to\n\nFirst, boil water\xa0é.\n\n- one\n- two\n  1. inner\n\n"
        "```\nif x:\n\n    # not a heading\n    y()\n```\n\n"
        "| A | B |\n| --- | --- |\n| 1\\|2 | 3 4 |\n\nend"
    )


@pytest.mark.parametrize(
    ("charset", "expected"),
    [("koi8-r", "Мир"), ("utf-16", "íÉÒ"), ("nonsense", "íÉÒ"), ("rot13", "íÉÒ")],
)
def test_html_is_read_in_the_charset_it_declares_if_it_can_be(charset, expected):
    page = f"<meta charset={charset}>".encode() + "Мир".encode("koi8-r")

    assert parse("a.html", page).text == expected


def test_deeply_nested_html_is_read():
    assert parse("a.html", b"<div>" * 5000 + b"deep" + b"<ul><li>" * 500).text.startswith("deep")


def test_every_parser_takes_an_empty_file():
    assert all(parse(f"a{suffix}", b"").text == "" for suffix in PARSERS)


@given(NAMES, st.binary(max_size=300))
def test_any_bytes_give_text_or_a_clear_refusal(name, data):
    try:
        parsed = parse(name, data)
    except Permanent:
        return
    assert isinstance(parsed, Parsed)
    parsed.text.encode()


TAGS = st.sampled_from(
    [
        "<p>",
        "</p>",
        "<ul>",
        "<ol>",
        "<li>",
        "</ul>",
        "<table>",
        "<tr>",
        "<td>",
        "</td>",
        "</table>",
        "<pre>",
        "</pre>",
        "<h2>",
        "</h2>",
        "<br>",
        "a",
        "&lt;",
        "<div>",
        "</div>",
        "<script>",
        "<!--",
        "-->",
        "<svg>",
        "<template>",
        "<meta",
        "charset=utf-7>",
        "ÿ",
        "+",
        "|",
    ]
)


@given(st.lists(TAGS, max_size=40))
def test_any_html_gives_text(tags):
    parse("a.html", "".join(tags).encode("latin-1")).text.encode()
