"""An optional, lossy form of a text for matching across case, accents and punctuation."""

import unicodedata


def normalise(text: str | None) -> str:
    """Return *text* as lower-case letters and digits with single spaces between words.

    Accents go, everything that is neither a letter nor a digit becomes a space, and the
    result is trimmed. Doing it twice changes nothing.
    """
    if not text:
        return ""
    return " ".join("".join(map(_kept, unicodedata.normalize("NFD", text))).split())


def _kept(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Mn":
        return ""
    if category == "Nd":
        return character
    if category[0] != "L":
        return " "
    # Lower-casing may bring a mark of its own: U+0130 becomes an i and a dot above.
    lowered = unicodedata.normalize("NFD", character.lower())
    return "".join(part for part in lowered if unicodedata.category(part) != "Mn")
