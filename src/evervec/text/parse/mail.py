"""Messages: who wrote when about what, the text itself, and what hangs on it."""

from email import message_from_bytes
from email.message import EmailMessage, MIMEPart
from email.policy import default

from evervec.errors import Permanent
from evervec.text.parse import markup
from evervec.text.parse.decode import decode
from evervec.text.parse.html import html_to_markdown
from evervec.text.parse.parsed import Parsed

_SHOWN = ("From", "To", "Cc", "Date")


def parse_mail(name: str, data: bytes) -> Parsed:
    if not data.strip():
        return Parsed("", "markdown")
    message = message_from_bytes(data, policy=default)
    told = {header: _line(message, header) for header in ("Subject", *_SHOWN)}
    if not any(told.values()) or not isinstance(message, EmailMessage):
        raise Permanent(
            f"{name!r} is no message: it has no subject, sender or date",
            hint="save it from the mail program as .eml, or rename it to .txt",
        )
    parts = [markup.heading(told["Subject"], 1)] if told["Subject"] else []
    parts.append("\n".join(f"{header}: {told[header]}" for header in _SHOWN if told[header]))
    parts.append(_text(name, message))
    attached = [attachment.get_filename() or "" for attachment in message.iter_attachments()]
    if any(attached):
        parts.append(
            "Attachments: " + ", ".join(" ".join(each.split()) for each in attached if each)
        )
    metadata = {"title": told["Subject"], "from": told["From"], "date": told["Date"]}
    return Parsed(
        "\n\n".join(part for part in parts if part),
        "markdown",
        {key: value for key, value in metadata.items() if value},
    )


def _line(message: object, header: str) -> str:
    found = message.get(header) if isinstance(message, EmailMessage) else None
    return " ".join(str(found or "").split())


def _text(name: str, message: EmailMessage) -> str:
    body = message.get_body(preferencelist=("plain", "html"))
    if body is None:
        return ""
    text = _content(name, body)
    if body.get_content_subtype() == "html":
        return html_to_markdown(text)[0]
    return markup.literal(text.strip("\n"))


def _content(name: str, body: MIMEPart) -> str:
    raw = body.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    try:
        # The charset that it declares, if it is one and if it fits.
        return data.decode(body.get_content_charset() or "").replace("\r\n", "\n")
    except (LookupError, UnicodeError):
        return decode(name, data, html=body.get_content_subtype() == "html") if data else ""
