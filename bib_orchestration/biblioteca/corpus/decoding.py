"""From the bytes of a file to its text.

What does not belong here: what the text says (front_matter.py, documents.py).
"""

from __future__ import annotations

import codecs
import re

# Control characters that a text may hold before it is taken for a binary file.
STRAY_CONTROLS = 3
STRAY_CONTROLS_SHARE = 0.01

# C0 and DEL without tab, LF, FF and CR; each is one byte in UTF-8.
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\f\r"))
_NOT_ASCII = bytes(range(128, 256))
_BOM = "\ufeff"
# The longer mark first: UTF-32's begins with UTF-16's.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MIXED = "utf-8 with cp1252 bytes"
_ESCAPED_BYTES = re.compile("[\udc80-\udcff]+")


class UnreadableDocument(Exception):
    """There is no text to index in a file; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode(data: bytes) -> tuple[str, str]:
    """The text of a file, without its byte order mark, and the encoding that it was read in.

    In turn: UTF-16 and UTF-32 by their marks; UTF-8; UTF-8 in which fewer sequences are wrong than right
    (the wrong bytes are read as cp1252, as when two editors wrote one file); cp1252. The five bytes that
    cp1252 leaves undefined make a file unreadable. So do control characters that are no white space: more
    than 3 that are more than 1 % of the text, or a single NUL in what is not UTF-8.

    >>> decode(b"caf\\xc3\\xa9"), decode(b"caf\\xe9")
    (('café', 'utf-8'), ('café', 'cp1252'))

    Raises UnreadableDocument.
    """
    text, encoding = _decoded(data)
    encoded = text.encode()
    controls = len(encoded) - len(encoded.translate(None, _CONTROLS))
    if controls > STRAY_CONTROLS and controls > STRAY_CONTROLS_SHARE * len(text):
        raise UnreadableDocument(
            f"binary file: {controls:,} of {len(text):,} characters are control characters"
        )
    return text.lstrip(_BOM), encoding


def _decoded(data: bytes) -> tuple[str, str]:
    for mark, encoding in _WIDE_MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding), encoding
            except UnicodeDecodeError as error:
                raise UnreadableDocument(f"marked as {encoding}, but byte {error.start:,} is not") from None
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return _decoded_otherwise(data.removeprefix(codecs.BOM_UTF8))


def _decoded_otherwise(data: bytes) -> tuple[str, str]:
    if b"\0" in data:
        raise UnreadableDocument("binary file: not UTF-8, and holds NUL bytes")
    kept = data.decode("utf-8", "ignore")
    wrong_bytes = len(data) - len(kept.encode())
    right_characters = len(kept) - len(data.translate(None, _NOT_ASCII))
    if right_characters > wrong_bytes:
        # Surrogates stand for the bytes that are not UTF-8; they leave the text as cp1252.
        return _ESCAPED_BYTES.sub(_as_cp1252, data.decode("utf-8", "surrogateescape")), _MIXED
    try:
        return data.decode("cp1252"), "cp1252"
    except UnicodeDecodeError as error:
        byte = f"byte {error.start:,} (0x{data[error.start]:02x})"
        raise UnreadableDocument(f"unknown encoding: {byte} is neither UTF-8 nor cp1252") from None


def _as_cp1252(found: re.Match[str]) -> str:
    return found[0].encode("ascii", "surrogateescape").decode("cp1252", "replace")
