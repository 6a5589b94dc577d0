"""Bytes to text, whatever wrote them."""

import codecs
import re

from evervec.errors import Permanent

_MARKS = (
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE
)
_NO_CHARSET = frozenset(
    ["utf-8", "utf-7", "idna", "punycode", "unicode_escape", "raw-unicode-escape", "unicode-escape"]
)
"""What Python can decode but no page is written in, and what has been tried already."""
_LOOK = 4096
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\v\f\r\x1b") + b"\x7f"


def decode(name: str, data: bytes, *, html: bool = False) -> str:
    """Return the text of *data* with plain line ends; Permanent if it is no text.

    A byte order mark decides; then UTF-8 if it fits; then, in html, the charset it declares; then
    UTF-8 with some damage; then Windows-1252, which most of what is neither was written in.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _plain(_marked(name, data[len(mark) :], encoding))
    if _binary(data):
        raise Permanent(
            f"{name!r} holds binary data, not text",
            hint="leave it out of the collection, or save it as text in UTF-8",
        )
    return _plain(_unmarked(name, data, html=html))


def _marked(name: str, data: bytes, encoding: str) -> str:
    text = data.decode(encoding, "replace")
    if text.count("\ufffd") + text.count("\0") > max(4, len(text) // 20):
        raise Permanent(
            f"{name!r} begins like {encoding} text but holds binary data, not text",
            hint="leave it out of the collection, or save it as text in UTF-8",
        )
    return text


def _binary(data: bytes) -> bool:
    if b"\0" in data:
        return True
    head = data[: 1 << 16]
    return len(head) - len(head.translate(None, _CONTROL)) > max(4, len(head) // 50)


def _unmarked(name: str, data: bytes, *, html: bool) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    declared = _declared(data) if html else None
    if declared is not None:
        return data.decode(declared, "replace")
    # Letters of other encodings rarely look like those of UTF-8: where most do, a few are broken.
    damaged = data.decode("utf-8", "replace")
    lost = damaged.count("\ufffd")
    if lost < sum(not character.isascii() for character in damaged) - lost:
        return damaged
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError as error:
        raise Permanent(
            f"{name!r} is text in an encoding that is neither UTF-8 nor Windows-1252",
            hint="save it as UTF-8 (iconv -f SHIFT_JIS -t UTF-8, say), or leave it out",
        ) from error


def _declared(data: bytes) -> str | None:
    """Return the charset that an html page declares, if it can be that."""
    found = _CHARSET.search(data[:_LOOK])
    if found is None:
        return None
    try:
        name = codecs.lookup(found[1].decode("ascii")).name
        # UTF-16, say: had the page been written in it, its declaration would not be readable.
        readable = found[0].decode(name) == found[0].decode("ascii")
    except (LookupError, UnicodeError):
        return None
    return name if readable and name not in _NO_CHARSET else None


def _plain(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd")
