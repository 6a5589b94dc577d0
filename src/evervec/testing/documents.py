"""Documents of each format, made by hand and in moments: for tests, and for what parsing costs.

What programs write has much more in it; the parts that carry text are these.
"""

import io
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape

_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def pdf(
    pages: Sequence[Sequence[str]],
    *,
    outline: Sequence[tuple[int, str]] = (),
    title: str = "",
    locked: bool = False,
) -> bytes:
    """Make a PDF of these lines of Latin text; *outline* names titles by page, the first is 0."""
    objects: dict[int, bytes] = {}
    kids = [10 + 2 * number for number in range(len(pages))]
    for kid, lines in zip(kids, pages, strict=True):
        shown = b"".join(b"(%s) Tj T*\n" % _quoted(line) for line in lines)
        drawn = zlib.compress(b"BT /F1 9 Tf 11 TL 40 800 Td\n" + shown + b"ET")
        objects[kid] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R>>>>>>" % (kid + 1)
        )
        objects[kid + 1] = b"<</Length %d/Filter/FlateDecode>>\nstream\n%s\nendstream" % (
            len(drawn),
            drawn,
        )
    first = 10 + 2 * len(pages)
    marks = [first + 1 + number for number in range(len(outline))]
    objects[1] = b"<</Type/Catalog/Pages 2 0 R%s>>" % (
        b"/Outlines %d 0 R" % first if marks else b""
    )
    objects[2] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (
        len(kids),
        b" ".join(b"%d 0 R" % kid for kid in kids),
    )
    objects[3] = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    objects[4] = b"<</Title(%s)>>" % _quoted(title)
    objects[5] = b"<</Filter/Standard/V 1/R 2/P -4/O(%s)/U(%s)>>" % (b"o" * 32, b"u" * 32)
    if marks:
        objects[first] = b"<</First %d 0 R/Last %d 0 R/Count %d>>" % (
            marks[0],
            marks[-1],
            len(marks),
        )
    for number, (mark, (page, name)) in enumerate(zip(marks, outline, strict=True)):
        after = b"/Next %d 0 R" % marks[number + 1] if number + 1 < len(marks) else b""
        objects[mark] = b"<</Title(%s)/Parent %d 0 R/Dest[%d 0 R/Fit]%s>>" % (
            _quoted(name),
            first,
            kids[page],
            after,
        )
    return _written(objects, locked=locked)


def _quoted(text: str) -> bytes:
    escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return escaped.encode("cp1252", "replace")


def _written(objects: Mapping[int, bytes], *, locked: bool) -> bytes:
    file = io.BytesIO(b"%PDF-1.4\n")
    file.seek(0, io.SEEK_END)
    places: dict[int, int] = {}
    for number, body in sorted(objects.items()):
        places[number] = file.tell()
        file.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = file.tell()
    file.write(b"xref\n0 1\n0000000000 65535 f \n")
    for number, place in places.items():
        file.write(b"%d 1\n%010d 00000 n \n" % (number, place))
    lock = b"/Encrypt 5 0 R/ID[(x)(x)]" if locked else b""
    file.write(b"trailer<</Size %d/Root 1 0 R/Info 4 0 R%s>>\n" % (max(places) + 1, lock))
    file.write(b"startxref\n%d\n%%%%EOF\n" % start)
    return file.getvalue()


def docx(blocks: Iterable[str | Sequence[Sequence[str]]], *, title: str = "") -> bytes:
    """Make a Word document: `# ` opens a heading, `- ` an item, a form feed a page; rows a table."""
    body = "".join(
        _word_paragraph(block) if isinstance(block, str) else _word_table(block) for block in blocks
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="H{level}"><w:name w:val="heading {level}"/></w:style>'
        for level in range(1, 7)
    )
    parts = {
        "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>',
        "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>',
        "word/_rels/document.xml.rels": _relations([("styles", "styles.xml")]),
    }
    return _package("word/document.xml", parts, title=title)


def _word_paragraph(block: str) -> str:
    broken = "<w:r><w:lastRenderedPageBreak/></w:r>" if block.startswith("\f") else ""
    block = block.lstrip("\f")
    level = len(block) - len(block.lstrip("#"))
    style = f'<w:pPr><w:pStyle w:val="H{level}"/></w:pPr>' if level else ""
    if block.startswith("- "):
        style = '<w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr>'
    text = escape(block.lstrip("#").removeprefix("- ").strip())
    return f"<w:p>{style}{broken}<w:r><w:t>{text}</w:t></w:r></w:p>"


def _word_table(rows: Sequence[Sequence[str]]) -> str:
    cells = ("".join(f"<w:tc>{_word_paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"


def pptx(slides: Sequence[tuple[str, Sequence[str], str]]) -> bytes:
    """Make a presentation: of each slide its title, its lines, and the speaker's notes."""
    parts: dict[str, str] = {}
    shown: list[tuple[str, str]] = []
    for number, (title, lines, notes) in enumerate(slides, start=1):
        shapes = _shape("body", lines) + (_shape("title", [title]) if title else "")
        # Programs name the files in the order of making, not of showing.
        file = f"slide{len(slides) - number + 1}.xml"
        shown.append(("slide", f"slides/{file}"))
        parts[f"ppt/slides/{file}"] = _slide(shapes + _shape("sldNum", [str(number)]))
        if notes:
            parts[f"ppt/notesSlides/{file}"] = _slide(_shape("body", [notes]))
            parts[f"ppt/slides/_rels/{file}.rels"] = _relations(
                [("notesSlide", f"../notesSlides/{file}")]
            )
    ids = "".join(f'<p:sldId id="{n}" r:id="r{n}"/>' for n in range(len(slides)))
    parts["ppt/presentation.xml"] = (
        f'<p:presentation xmlns:p="{_SLIDES}" xmlns:r="{_OFFICE}"><p:sldIdLst>{ids}</p:sldIdLst>'
        "</p:presentation>"
    )
    parts["ppt/_rels/presentation.xml.rels"] = _relations(shown)
    return _package("ppt/presentation.xml", parts)


def _slide(shapes: str) -> str:
    return (
        f'<p:sld xmlns:p="{_SLIDES}" xmlns:a="{_DRAWING}"><p:cSld><p:spTree>{shapes}</p:spTree>'
        "</p:cSld></p:sld>"
    )


def _shape(holder: str, lines: Sequence[str]) -> str:
    text = "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in lines)
    place = f'<p:nvSpPr><p:nvPr><p:ph type="{holder}"/></p:nvPr></p:nvSpPr>'
    return f"<p:sp>{place}<p:txBody>{text}</p:txBody></p:sp>"


def xlsx(sheets: Mapping[str, Iterable[Sequence[object]]]) -> bytes:
    """Make a workbook. Numbers are cells of numbers, all else is text in the shared table."""
    strings: dict[str, int] = {}
    parts: dict[str, str] = {}
    for number, rows in enumerate(sheets.values()):
        written = "".join(_sheet_row(at, row, strings) for at, row in enumerate(rows, start=1))
        parts[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{_SHEET}"><sheetData>{written}</sheetData></worksheet>'
        )
    names = "".join(
        f'<sheet name="{escape(name)}" sheetId="{n + 1}" r:id="r{n}"/>'
        for n, name in enumerate(sheets)
    )
    parts["xl/workbook.xml"] = (
        f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>{names}</sheets></workbook>'
    )
    parts["xl/sharedStrings.xml"] = (
        f'<sst xmlns="{_SHEET}">'
        + "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
        + "</sst>"
    )
    parts["xl/styles.xml"] = (
        f'<styleSheet xmlns="{_SHEET}"><numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm"/>'
        '<numFmt numFmtId="165" formatCode="0.00 &quot;days&quot;"/></numFmts><cellXfs>'
        '<xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/>'
        "</cellXfs></styleSheet>"
    )
    related = [("worksheet", f"worksheets/sheet{n}.xml") for n in range(len(sheets))]
    related += [("sharedStrings", "sharedStrings.xml"), ("styles", "styles.xml")]
    parts["xl/_rels/workbook.xml.rels"] = _relations(related)
    return _package("xl/workbook.xml", parts)


def _sheet_row(at: int, row: Sequence[object], strings: dict[str, int]) -> str:
    cells = []
    for number, value in enumerate(row):
        place = f'r="{chr(65 + number)}{at}"' if number < 26 else ""
        if isinstance(value, bool):
            cells.append(f'<c {place} t="b"><v>{int(value)}</v></c>')
        elif isinstance(value, tuple):
            # A number in one of the styles above.
            cells.append(f'<c {place} s="{value[1]}"><v>{value[0]}</v></c>')
        elif isinstance(value, int | float):
            cells.append(f"<c {place}><v>{value!r}</v></c>")
        elif value:
            index = strings.setdefault(str(value), len(strings))
            cells.append(f'<c {place} t="s"><v>{index}</v></c>')
    return f'<row r="{at}">{"".join(cells)}</row>'


def _relations(related: Sequence[tuple[str, str]]) -> str:
    written = "".join(
        f'<Relationship Id="r{n}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(related)
    )
    return f'<Relationships xmlns="{_PACKAGE}">{written}</Relationships>'


def _package(main: str, parts: Mapping[str, str], *, title: str = "") -> bytes:
    related = [("officeDocument", main), ("core-properties", "docProps/core.xml")]
    core = (
        '<c:coreProperties xmlns:c="c" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>{escape(title)}</dc:title></c:coreProperties>"
    )
    return zipped({"_rels/.rels": _relations(related), "docProps/core.xml": core, **parts})


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    """Pack *parts*; XML gets its first line."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, part in parts.items():
            archive.writestr(name, _XML + part if isinstance(part, str) else part)
    return file.getvalue()
