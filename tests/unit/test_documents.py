"""PDF, Word, presentations and workbooks: their structure, their pages, and what is wrong with some."""

import io
import zipfile
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evervec.errors import Permanent
from evervec.parsing import ParserProcess
from evervec.testing import documents
from evervec.text.parse import Parsed, parse


@pytest.fixture(scope="module")
def parsers() -> Iterator[ParserProcess]:
    made = ParserProcess()
    yield made
    made.close()


def pages_of(parsed: Parsed) -> list[str]:
    ends = [*parsed.pages[1:], len(parsed.text)]
    return [parsed.text[a:b].strip() for a, b in zip(parsed.pages, ends, strict=True)]


def refusal(name: str, data: bytes) -> str:
    with pytest.raises(Permanent) as refused:
        parse(name, data)
    assert refused.value.hint
    return str(refused.value.args[0])


PDF = documents.pdf(
    [
        ["1.2 One cup (of tea)", "at caf\xe9 nine", "The Next", "Part", "# no heading"],
        [],
        ["the end"],
    ],
    outline=[(0, "One Cup (of Tea)"), (0, "The next part"), (2, "Not there")],
    title="About tea",
)
DOCX = documents.docx(
    [
        "# Tea",
        "A text # of it",
        "- one",
        "- two",
        "\f## Milk",
        [["Kind", "Cups"], ["Black", "2|3"]],
        "# שלום 日本語 & <more>",
    ],
    title="About tea",
)
PPTX = documents.pptx(
    [("Tea", ["hot", "black"], "Smile now"), ("", ["No title here"], ""), ("Third", [], "")]
)
XLSX = documents.xlsx(
    {
        "Prices": [
            ["name", "price", "since", "sold"],
            ["Tea", 0.1 + 0.2, (29221, 1), True],
            [],
            ["Milk", 12345678901, (29221.5, 2), False],
            ["", "", (0.5, 1), (2.5, 3)],
        ],
        "Empty": [],
        "Bare": [[1, 2], [3, 4]],
    }
)
GOOD = {"a.pdf": PDF, "a.docx": DOCX, "a.pptx": PPTX, "a.xlsx": XLSX}


def test_a_pdf_keeps_its_pages_and_has_headings_where_its_outline_names_them():
    parsed = parse("a.pdf", PDF)

    assert pages_of(parsed) == [
        "# 1.2 One cup (of tea)\n\nat café nine\n\n# The Next Part\n\n\\# no heading",
        "",
        "the end",
    ]
    assert parsed.kind == "markdown"
    assert parsed.metadata == {"title": "About tea"}


def test_a_pdf_without_an_outline_is_plain_text():
    parsed = parse("a.pdf", documents.pdf([["# one"], ["two"]]))

    assert (parsed.kind, pages_of(parsed)) == ("plain", ["# one", "two"])


def test_a_word_document_keeps_headings_lists_tables_and_pages():
    parsed = parse("a.docx", DOCX)

    assert pages_of(parsed) == [
        "# Tea\n\nA text # of it\n\n- one\n- two",
        "## Milk\n\n| Kind | Cups |\n| --- | --- |\n| Black | 2\\|3 |\n\n# שלום 日本語 & <more>",
    ]
    assert parsed.metadata == {"title": "About tea"}


def test_a_word_document_that_nobody_laid_out_has_no_pages():
    assert parse("a.docx", documents.docx(["one", "two"])).pages == ()


def test_a_presentation_is_read_in_the_order_it_is_shown_with_a_heading_for_each_slide():
    assert pages_of(parse("a.pptx", PPTX)) == [
        "# Tea\n\nhot\n\nblack\n\nSmile now",
        "# No title here",
        "# Third",
    ]


def test_a_workbook_keeps_its_sheets_and_columns_and_shows_numbers_as_people_see_them():
    more = "| Milk | 12345678901 | 1980-01-01 12:00:00 | false |\n|  |  | 12:00:00 | 2.5 |"

    assert pages_of(parse("a.xlsx", XLSX)) == [
        "# Prices\n\n## name | price | since | sold\n\n| Tea | 0.3 | 1980-01-01 | true |\n" + more,
        "# Empty",
        "# Bare\n\n| 1 | 2 |\n| 3 | 4 |",
    ]


@pytest.mark.parametrize("name", GOOD)
def test_the_process_answers_what_the_parser_finds(name, parsers):
    assert parsers.parse(name, GOOD[name]) == parse(name, GOOD[name])


def test_a_scan_says_that_it_holds_no_text():
    assert "holds no text: its 2 pages are pictures" in refusal("a.pdf", documents.pdf([[], []]))


OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100)
LOCKED = OLD + "EncryptedPackage".encode("utf-16-le")


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.pdf", documents.pdf([["x"]], locked=True)), ("a.docx", LOCKED), ("a.xlsx", LOCKED)],
)
def test_a_password_is_said(name, data):
    assert refusal(name, data) == f"{name!r} is protected by a password"


def test_a_part_of_an_archive_that_is_locked_is_said():
    file = io.BytesIO(DOCX)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("more", "x")
        archive.infolist()[-1].flag_bits |= 1

    assert "protected by a password" in refusal("a.docx", file.getvalue())


def test_a_document_of_the_old_format_is_named_as_such():
    assert "format before 2007" in refusal("a.docx", OLD)


def bomb(*, entries: int = 1, size: int = 10, claims: int | None = None) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(entries):
            archive.writestr(f"part{number}", bytes(size))
        if claims is not None:
            archive.infolist()[0].file_size = claims
    return file.getvalue()


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bomb(size=20_000_000), "times its size"),
        (bomb(entries=10_001), "has 10,001 parts"),
        (bomb(claims=2_000_000_000), "unpacks to 2,000,000,000 bytes"),
    ],
)
def test_a_zip_bomb_is_refused_before_anything_is_unpacked(name, data, reason):
    assert reason in refusal(name, data)


def changed(document: bytes, part: str, text: str | bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(document)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return documents.zipped({**parts, part: text if isinstance(text, bytes) else text.encode()})


def test_a_bomb_that_lies_about_its_size_yields_no_more_than_it_said():
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(DOCX)) as old, zipfile.ZipFile(file, "w", 8) as new:
        for name in old.namelist():
            if name != "word/document.xml":
                new.writestr(name, old.read(name))
        new.writestr("word/document.xml", bytes(20_000_000))
        new.infolist()[-1].file_size = 100

    assert "'a.docx' is damaged" in refusal("a.docx", file.getvalue())


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><x>&b;</x>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'


@pytest.mark.parametrize("text", [LAUGHS, OUTSIDE])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.docx", "word/document.xml"),
        ("a.docx", "_rels/.rels"),
        ("a.pptx", "ppt/slides/slide1.xml"),
        ("a.xlsx", "xl/sharedStrings.xml"),
    ],
)
def test_xml_with_entities_is_refused(name, part, text):
    assert "declares a document type" in refusal(name, changed(GOOD[name], part, text))


def test_a_text_that_an_older_program_would_show_instead_is_not_read_twice():
    word = '<w:document xmlns:w="w" xmlns:m="m"><w:body><w:p><w:r><w:t>once</w:t></w:r>'
    word += "<m:Fallback><w:p><w:r><w:t>again</w:t></w:r></w:p></m:Fallback></w:p></w:body></w:document>"

    assert parse("a.docx", changed(DOCX, "word/document.xml", word)).text == "once"


def test_how_a_word_is_spoken_is_no_part_of_it():
    strings = '<sst xmlns="x"><si><t>東京</t><rPh><t>トウキョウ</t></rPh></si></sst>'

    text = parse(
        "a.xlsx", changed(documents.xlsx({"A": [["x"]]}), "xl/sharedStrings.xml", strings)
    ).text

    assert text == "# A\n\n| 東京 |"


def test_a_missing_library_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pypdfium2", None)
    with pytest.raises(Permanent, match="pypdfium2 is not installed") as refused:
        parse("a.pdf", PDF)
    assert "pip install pypdfium2" in str(refused.value.hint)


def test_a_sheet_of_a_million_rows_is_refused_with_the_limit_and_bounded_memory(parsers):
    """It holds 200 million characters, from 30 MB of XML; nothing of it is kept half-read."""
    rows = "".join(f'<row><c t="s"><v>{n % 1000}</v></c></row>' for n in range(1_000_000))
    book = documents.xlsx({"Many": [["x"]]})
    book = changed(
        book, "xl/worksheets/sheet0.xml", f"<worksheet><sheetData>{rows}</sheetData></worksheet>"
    )
    strings = "".join(f"<si><t>{n:0200}</t></si>" for n in range(1000))
    book = changed(book, "xl/sharedStrings.xml", f"<sst>{strings}</sst>")

    with pytest.raises(Permanent, match="holds more than 50,000,000 characters of text"):
        parsers.parse("a.xlsx", book)


def test_cells_far_apart_cost_no_more_than_a_row_may():
    row = '<row><c r="XFD1"><v>1</v></c><c r="ZZZ1"><v>2</v></c><c r="A1"><v>3</v></c></row>'
    sheet = f"<worksheet><sheetData>{row}</sheetData></worksheet>"
    book = changed(documents.xlsx({"A": [["x"]]}), "xl/worksheets/sheet0.xml", sheet)

    assert len(parse("a.xlsx", book).text) < 100_000


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_a_file_that_was_cut_off_is_read_or_refused_with_what_to_do(name, share):
    data = GOOD[name]
    told = ""
    try:
        parse(name, data[: int(len(data) * share)])
    except Permanent as refused:
        told = str(refused)
    assert not told or (told.startswith(repr(name)) and "\n  " in told)


@given(st.sampled_from(sorted(GOOD)), st.data())
@settings(max_examples=200, deadline=None)
def test_any_damage_gives_text_or_a_clear_refusal(name, data):
    damaged = bytearray(GOOD[name])
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        parsed = parse(name, bytes(damaged))
    except Permanent:
        return
    assert list(parsed.pages) == sorted(parsed.pages)
    assert max(parsed.pages, default=0) <= len(parsed.text)


TAGS = st.sampled_from(
    [
        "p",
        "r",
        "t",
        "tbl",
        "tr",
        "tc",
        "sp",
        "txBody",
        "row",
        'c r="B2" t="s"',
        "c",
        "v",
        "is",
        "si",
    ]
)
XML = st.recursive(
    st.sampled_from(
        ["a b", "7", "&amp;", "<lastRenderedPageBreak/>", '<pStyle val="H1"/>', "<ilvl/>"]
    ),
    lambda inner: st.tuples(TAGS, st.lists(inner, max_size=4)).map(
        lambda made: f"<{made[0]}>{''.join(made[1])}</{made[0].split()[0]}>"
    ),
)
PARTS = {
    "a.docx": "word/document.xml",
    "a.pptx": "ppt/slides/slide1.xml",
    "a.xlsx": "xl/worksheets/sheet0.xml",
}


@given(st.sampled_from(sorted(PARTS)), st.lists(XML, max_size=6))
@settings(max_examples=300, deadline=None)
def test_any_order_of_elements_gives_a_text(name, elements):
    parsed = parse(name, changed(GOOD[name], PARTS[name], f"<x>{''.join(elements)}</x>"))

    assert list(parsed.pages) == sorted(parsed.pages)
