r"""Fields to text: `'{title}\n\n{body}'`, or a list of fields with prefixes and a separator."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any, TypeAlias

from evervec.errors import ConfigError

Path: TypeAlias = tuple[str, ...]

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|\\[nt\\]")
_ESCAPES = {"{{": "{", "}}": "}", "\\n": "\n", "\\t": "\t", "\\\\": "\\"}
# A NUL ends a string in some models' tokenizers, and a lone surrogate cannot be encoded at all.
_UNFIT = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the structured form: an empty value brings neither *prefix* nor *suffix*."""

    path: str
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """Makes a document's text from its fields. Immutable and serialisable."""

    written: str | tuple[Field, ...]
    """As the user wrote it: a pattern, or fields."""
    separator: str = " "
    """Stands between fields that have a value; a pattern has no use for it."""
    _parts: tuple[str | Path, ...] = ()
    """A pattern's literals and paths, in order."""

    @classmethod
    def parse(cls, pattern: str) -> "Template":
        r"""Read `'{title}\n\n{meta.author}'`; `{{` and `}}` are literal braces.

        A shell hands over `\n` as two characters: `\n`, `\t` and `\\` mean what they look like.
        """
        parts: list[str | Path] = []
        position = 0
        for token in _TOKEN.finditer(pattern):
            parts.append(pattern[position : token.start()])
            position = token.end()
            if token[1] is not None:
                parts.append(_path(token[1], pattern))
            elif token[0] in _ESCAPES:
                parts.append(_ESCAPES[token[0]])
            else:
                raise ConfigError(
                    f"text {pattern!r} has a single {token[0]!r} at position {token.start()}",
                    hint=f"write {token[0] * 2!r} for a literal brace, or {{field}} for a field",
                )
        parts.append(pattern[position:])
        if not any(isinstance(part, tuple) for part in parts):
            raise ConfigError(
                f"text {pattern!r} names no field",
                hint="write the fields to embed in braces, for example '{title}\\n\\n{body}'",
            )
        return cls(pattern, _parts=tuple(part for part in parts if part))

    @classmethod
    def of_fields(
        cls, fields: Sequence[Field | Mapping[str, str]], *, separator: str | None = None
    ) -> "Template":
        """Join *fields* by *separator*; a blank one is one space, but line ends are not blank."""
        wanted = tuple(_field(field) for field in fields)
        if not wanted:
            raise ConfigError(
                "At least one field is required", hint='write [{"path": "title"}, {"path": "body"}]'
            )
        return cls(wanted, separator=separator if separator and separator.strip(" \t") else " ")

    @property
    def fields(self) -> tuple[str, ...]:
        """The top-level fields used, each once, in the order of their first use."""
        return tuple(dict.fromkeys(path[0] for path in self._paths()))

    def check(self, available: Collection[str]) -> None:
        """Raise ConfigError if a field is not among *available*."""
        for name in self.fields:
            if name in available:
                continue
            near = get_close_matches(name, available, n=3, cutoff=0.5)
            known = ", ".join(map(repr, near or sorted(available)[:20]))
            raise ConfigError(
                f"text uses the field {name!r}, which does not exist",
                hint=f"{'did you mean' if near else 'the fields are'} {known}{'?' if near else ''}",
            )

    def render(self, fields: Mapping[str, Any]) -> str:
        """Return the text of a document; empty if all its fields are, whatever the literals."""
        if isinstance(self.written, tuple):
            return self._joined(self.written, fields)
        shown = [
            part if isinstance(part, str) else _shown(_value(fields, part)) for part in self._parts
        ]
        values = (
            text for text, part in zip(shown, self._parts, strict=True) if isinstance(part, tuple)
        )
        return _fit("".join(shown)) if any(not _blank(value) for value in values) else ""

    def to_json(self) -> Any:
        """Return plain data from which `from_json` makes an equal template."""
        if isinstance(self.written, str):
            return self.written
        fields = [
            {"path": field.path, "prefix": field.prefix, "suffix": field.suffix}
            for field in self.written
        ]
        return {"separator": self.separator, "fields": fields}

    @classmethod
    def from_json(cls, recipe: Any) -> "Template":
        """Read what `to_json` wrote, or what a user wrote in its place; ConfigError if neither."""
        if isinstance(recipe, str):
            return cls.parse(recipe)
        if not isinstance(recipe, Mapping) or not isinstance(recipe.get("fields"), list):
            raise ConfigError(
                f"text is {recipe!r}, which is neither a pattern nor a list of fields",
                hint='write \'{title}\\n\\n{body}\' or {"fields": [{"path": "title"}]}',
            )
        separator = recipe.get("separator")
        if separator is not None and not isinstance(separator, str):
            raise ConfigError(f"separator is {separator!r}, not text")
        return cls.of_fields(recipe["fields"], separator=separator)

    def _paths(self) -> Sequence[Path]:
        if isinstance(self.written, tuple):
            return [tuple(field.path.split(".")) for field in self.written]
        return [part for part in self._parts if isinstance(part, tuple)]

    def _joined(self, wanted: tuple[Field, ...], fields: Mapping[str, Any]) -> str:
        shown = ((field, _shown(_value(fields, tuple(field.path.split("."))))) for field in wanted)
        texts = (field.prefix + text + field.suffix for field, text in shown if not _blank(text))
        return _fit(self.separator.join(texts))


def _path(written: str, where: str) -> Path:
    path = tuple(step.strip() for step in written.split("."))
    if not all(path):
        raise ConfigError(
            f"text {where!r} has the field {{{written}}}, which has no name",
            hint="write {field} or {field.inner}; literal braces are doubled: {{ }}",
        )
    return path


def _field(field: Any) -> Field:
    if isinstance(field, Field):
        return Field(".".join(_path(field.path, repr(field))), field.prefix, field.suffix)
    parts = field if isinstance(field, Mapping) else {"path": field}
    unknown = parts.keys() - {"path", "prefix", "suffix"}
    if unknown or not all(value is None or isinstance(value, str) for value in parts.values()):
        raise ConfigError(
            f"field {field!r} is not of the form path, prefix, suffix",
            hint='write {"path": "title", "prefix": "", "suffix": ""}',
        )
    path = ".".join(_path(parts.get("path") or "", repr(field)))
    return Field(path, parts.get("prefix") or "", parts.get("suffix") or "")


def _value(fields: Mapping[str, Any], path: Path) -> Any:
    value = fields.get(path[0])
    for step in path[1:]:
        value = _inside(value, step)
    return value


def _inside(value: Any, step: str) -> Any:
    """Go one step down; a column that holds JSON as text is opened on the way."""
    if isinstance(value, str | bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list | tuple) and step.isdecimal() and len(step) < 10:
        return value[int(step)] if int(step) < len(value) else None
    return None


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    if isinstance(value, list | tuple | set | frozenset):
        items = value if isinstance(value, list | tuple) else sorted(value, key=str)
        return ", ".join(chain.from_iterable(_texts(item) for item in items))
    return str(value)


def _texts(item: Any) -> Sequence[str]:
    """Return an item of a list as text, or nothing if it is empty."""
    text = _shown(item)
    return () if _blank(text) else (text,)


def _blank(text: str) -> bool:
    return not text or text.isspace()


def _fit(text: str) -> str:
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)
