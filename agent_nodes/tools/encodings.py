"""How a text file is encoded: UTF-8, with or without a mark, or UTF-16 where a mark says so."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

HEAD_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class Encoding:
    """``mark`` stands in front of the text. ``decode`` and ``encode`` give the bytes back as they were: those that are
    no UTF-8 are lone surrogates in between."""

    name: str
    codec: str
    mark: bytes

    def decode(self, data: bytes) -> str:
        """Raises ``UnicodeDecodeError`` for damaged UTF-16."""
        return data[len(self.mark) :].decode(self.codec, self._errors)

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.codec, self._errors)

    @property
    def _errors(self) -> str:
        return "surrogateescape" if self.codec == "utf-8" else "surrogatepass"


UTF8 = Encoding("UTF-8", "utf-8", b"")
UTF8_MARKED = Encoding("UTF-8", "utf-8", codecs.BOM_UTF8)
UTF16 = (Encoding("UTF-16", "utf-16-le", codecs.BOM_UTF16_LE), Encoding("UTF-16", "utf-16-be", codecs.BOM_UTF16_BE))


def encoding_of(data: bytes) -> Encoding:
    """By its start. What only begins like UTF-16 but is no text in it counts as UTF-8."""
    if data.startswith(codecs.BOM_UTF8):
        return UTF8_MARKED
    for encoding in UTF16:
        if data.startswith(encoding.mark):
            head = data[len(encoding.mark) : HEAD_BYTES]
            text = head.decode(encoding.codec, "replace")
            # A character may be cut at the end of the head.
            return UTF8 if "\x00" in text or "\ufffd" in text[:-1] else encoding
    return UTF8
