"""The zip archives that office documents are: bounded before anything is unpacked, read as streams.

XML is read by events and never built into a tree. A document type, with which entities would come,
is refused: no office program writes one.
"""

import io
import posixpath
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any, TypeAlias
from xml.parsers import expat
from zlib import error as ZlibError  # noqa: N812 - an exception

from evervec.errors import Permanent

ENTRIES_MAX = 10_000
UNPACKED_BYTES_MAX = 1_000_000_000
RATIO_MAX = 200
"""Of unpacked to packed; sheets of one number over and over come to some 100."""
RATIO_FROM_BYTES = 10_000_000
"""Less than this harms nobody, however well it was packed."""

_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_UNREADABLE = (
    zipfile.BadZipFile,
    ZlibError,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    struct.error,
)
"""What the library raises of archives that are none, depending on where they are not."""
_FEED = 1 << 16

Attributes: TypeAlias = Mapping[str, str]
Start: TypeAlias = Callable[[str, Attributes], None]
End: TypeAlias = Callable[[str], None]
Said: TypeAlias = Callable[[str], None]


class Package:
    """An office document's parts."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        if data.startswith(_OLD):
            raise self._old(data)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _UNREADABLE as error:
            raise self._damaged(str(error)) from error
        self._check()
        self._parts = set(self._zip.namelist())

    def _old(self, data: bytes) -> Permanent:
        if _ENCRYPTED in data:
            return Permanent(
                f"{self.name!r} is protected by a password",
                hint="save it without one, or leave it out in .evervecignore",
            )
        return Permanent(
            f"{self.name!r} is an office document of the format before 2007",
            hint="save it in the present format (.docx, .pptx, .xlsx)",
        )

    def _damaged(self, why: str) -> Permanent:
        return Permanent(
            f"{self.name!r} is damaged: {why[:200]}",
            hint="open it in its program and save it anew; it is tried again when it changes",
        )

    def _check(self) -> None:
        """Refuse a bomb by what the archive itself declares; no entry yields more than that."""
        entries = self._zip.infolist()
        unpacked = sum(entry.file_size for entry in entries)
        packed = sum(entry.compress_size for entry in entries)
        if len(entries) > ENTRIES_MAX:
            why = f"has {len(entries):,} parts, more than {ENTRIES_MAX:,}"
        elif unpacked > UNPACKED_BYTES_MAX:
            why = f"unpacks to {unpacked:,} bytes, more than {UNPACKED_BYTES_MAX:,}"
        elif unpacked > RATIO_FROM_BYTES and unpacked > RATIO_MAX * max(packed, 1):
            why = f"unpacks to {unpacked // max(packed, 1):,} times its size"
        elif any(entry.flag_bits & 1 for entry in entries):
            raise Permanent(
                f"{self.name!r} is protected by a password",
                hint="save it without one, or leave it out in .evervecignore",
            )
        else:
            return
        raise Permanent(
            f"{self.name!r} {why}: it may be made to do harm",
            hint="leave it out in .evervecignore, or split it if it is what it seems",
        )

    def __contains__(self, part: str) -> bool:
        return part in self._parts

    def related(self, part: str) -> dict[str, tuple[str, str]]:
        """Return what *part* refers to: by its id, the kind and the part."""
        folder, file = posixpath.split(part)
        found: dict[str, tuple[str, str]] = {}

        def start(tag: str, attributes: Attributes) -> None:
            if tag == "Relationship" and attributes.get("TargetMode") != "External":
                target = posixpath.normpath(
                    posixpath.join("/", folder, attributes.get("Target", ""))
                )
                kind = attributes.get("Type", "").rpartition("/")[2]
                found[attributes.get("Id", "")] = kind, target.lstrip("/")

        relations = posixpath.join(folder, "_rels", f"{file}.rels")
        if relations in self:
            self.read(relations, start=start)
        return found

    def main(self) -> str:
        """Return the part that everything else hangs on."""
        for kind, target in self.related("").values():
            if kind == "officeDocument" and target in self:
                return target
        raise self._damaged("it has no main part")

    def properties(self) -> dict[str, str]:
        """Return the document's title and author, as far as it has them."""
        names = {"title": "title", "creator": "author"}
        told: dict[str, str] = {}
        inside = [""]

        def start(tag: str, _attributes: Attributes) -> None:
            inside[0] = names.get(tag, "")

        def said(text: str) -> None:
            if inside[0]:
                told[inside[0]] = told.get(inside[0], "") + text

        def end(_tag: str) -> None:
            inside[0] = ""

        for kind, target in self.related("").values():
            if kind == "core-properties" and target in self:
                self.read(target, start=start, end=end, said=said)
        return {name: shown for name, text in told.items() if (shown := " ".join(text.split()))}

    def read(
        self, part: str, *, start: Start, end: End | None = None, said: Said | None = None
    ) -> None:
        for _ in self.reading(part, start=start, end=end, said=said):
            pass

    def reading(
        self, part: str, *, start: Start, end: End | None = None, said: Said | None = None
    ) -> Iterator[None]:
        """Go through a part's XML; stop after each stretch, so that what it brought can be taken."""
        parser = _parser(self.name, start, end, said)
        try:
            with self._zip.open(part) as file:
                while data := _next(file):
                    parser.Parse(data, False)
                    yield
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise self._damaged(f"{part}: {error}") from error
        except _UNREADABLE as error:
            raise self._damaged(f"{part}: {error}") from error
        finally:
            with suppress(AttributeError):
                parser.StartElementHandler = parser.EndElementHandler = None
        yield


def _next(file: IO[bytes]) -> bytes:
    return file.read(_FEED)


def _parser(name: str, start: Start, end: End | None, said: Said | None) -> expat.XMLParserType:
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    local: dict[str, str] = {}

    def started(tag: str, attributes: dict[str, str]) -> None:
        known = local.get(tag)
        if known is None:
            known = local[tag] = tag.rpartition("}")[2]
        start(known, attributes)

    def ended(tag: str) -> None:
        if end is not None:
            end(local.get(tag, ""))

    def refuse(*_declared: Any) -> None:
        raise Permanent(
            f"{name!r} declares a document type, which no office program does",
            hint="leave it out in .evervecignore, or open it in its program and save it anew",
        )

    parser.StartElementHandler = started
    parser.EndElementHandler = ended if end is not None else None
    parser.CharacterDataHandler = said
    parser.StartDoctypeDeclHandler = refuse
    return parser


def attribute(attributes: Attributes, name: str) -> str:
    """Return an attribute whatever namespace it stands in; empty if it is not there."""
    if name in attributes:
        return attributes[name]
    return next((value for key, value in attributes.items() if key.endswith("}" + name)), "")
