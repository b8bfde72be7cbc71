"""What the bytes of a picture say about it, without decoding it: kind, size in pixels, whole or cut off."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

PNG, JPEG, GIF, WEBP = "image/png", "image/jpeg", "image/gif", "image/webp"
SENDABLE = (PNG, JPEG, GIF, WEBP)
"""The kinds that every service reads."""

_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
_HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})  # JPEG markers that stand alone
_NO_FRAME = frozenset({0xC4, 0xC8, 0xCC})  # among the JPEG markers C0 to CF those that start no frame


class BrokenPicture(Exception):
    """The text says what is wrong, as the end of a sentence about the picture."""


@dataclass(frozen=True, slots=True)
class Header:
    """``still`` is how many bytes the first picture of a GIF takes when more follows, else None."""

    width: int
    height: int
    animated: bool = False
    still: int | None = None


def image_kind(head: bytes) -> str | None:
    """The kind of picture that starts with ``head`` (its first 64 bytes are enough); None for anything else."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if head.startswith(b"\xff\xd8\xff"):
        return JPEG
    # These six letters may begin a text too, but there no control characters stand where the size has its high bytes.
    if head.startswith((b"GIF87a", b"GIF89a")) and head[7:8] < b" " and head[9:10] < b" ":
        return GIF
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    if head[:2] == b"BM" and head[6:10] == bytes(4) and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "image/bmp"
    if head.startswith((b"II*\x00", b"MM\x00*")):
        return "image/tiff"
    return _boxed_kind(head)


def _boxed_kind(head: bytes) -> str | None:
    brands = head[8 : int.from_bytes(head[:4], "big")] if head[4:8] == b"ftyp" else b""
    if b"avif" in brands or b"avis" in brands:
        return "image/avif"
    return "image/heic" if brands[:4] in _HEIC else None


def read_header(data: bytes, kind: str) -> Header:
    """The header of a picture of one of the kinds in :data:`SENDABLE`, the whole of which is ``data``.

    Raises :class:`BrokenPicture` when it is cut off or its structure is damaged.
    """
    try:
        header = _READERS[kind](data)
    except IndexError as error:
        raise BrokenPicture("is cut off") from error
    if not header.width or not header.height:
        raise BrokenPicture("has no size")
    return header


def _png(data: bytes) -> Header:
    view, at = memoryview(data), 8
    width = height = 0
    while True:
        length, name = int.from_bytes(_take(data, at, 4), "big"), _take(data, at + 4, 4)
        if at == 8 and name != b"IHDR":
            raise BrokenPicture("is damaged: it does not begin with its header")
        end = at + 12 + length
        checksum = int.from_bytes(_take(data, end - 4, 4), "big")
        # A small first letter marks what a reader may ignore.
        if name[:1].isupper() and zlib.crc32(view[at + 4 : end - 4]) != checksum:
            raise BrokenPicture(f"is damaged: wrong checksum at byte {at:,}")
        if name == b"IHDR":
            width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        if name == b"IEND":
            return Header(width, height)
        at = end


def _jpeg(data: bytes) -> Header:
    at, header = 2, None
    while True:
        if data[at] != 0xFF:
            raise BrokenPicture(f"is damaged at byte {at:,}")
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
            continue
        if marker in _BARE:
            at += 2
            continue
        if marker == 0xD9 or (marker == 0xDA and header is None):
            raise BrokenPicture("is damaged: it holds no picture")
        if marker == 0xDA:
            if data.rfind(b"\xff\xd9") < at:
                raise BrokenPicture("is cut off")
            return header or Header(0, 0)
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME and header is None:
            sizes = _take(data, at + 5, 4)
            header = Header(int.from_bytes(sizes[2:], "big"), int.from_bytes(sizes[:2], "big"))
        at += 2 + int.from_bytes(_take(data, at + 2, 2), "big")


def _gif(data: bytes) -> Header:
    screen = _take(data, 6, 7)
    at = 13 + _gif_colours(screen[4])
    at, mark = _gif_next(data, at)
    if mark != 0x2C:
        raise BrokenPicture("is damaged: it holds no picture")
    still = _gif_blocks(data, at + 11 + _gif_colours(data[at + 9]))
    width, height = int.from_bytes(screen[:2], "little"), int.from_bytes(screen[2:4], "little")
    try:
        alone = _gif_next(data, still)[1] == 0x3B
    except IndexError:  # what follows the first picture is not needed
        alone = False
    return Header(width, height, not alone, None if alone else still)


def _gif_next(data: bytes, at: int) -> tuple[int, int]:
    """Where the next picture or the end is, and its mark."""
    while data[at] == 0x21:
        at = _gif_blocks(data, at + 2)
    return at, data[at]


def _gif_blocks(data: bytes, at: int) -> int:
    """The place behind a chain of blocks, each with its length in front."""
    while length := data[at]:
        at += 1 + length
    return at + 1


def _gif_colours(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _webp(data: bytes) -> Header:
    if int.from_bytes(_take(data, 4, 4), "little") + 8 > len(data):
        raise BrokenPicture("is cut off")
    name, body = data[12:16], _take(data, 20, 10)
    if name == b"VP8X":
        width, height = (int.from_bytes(body[at : at + 3], "little") + 1 for at in (4, 7))
        return Header(width, height, bool(body[0] & 0x02))
    if name == b"VP8L" and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        return Header((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if name == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(body[at : at + 2], "little") & 0x3FFF for at in (6, 8))
        return Header(width, height)
    raise BrokenPicture("is damaged: it does not begin with its header")


def _take(data: bytes, at: int, count: int) -> bytes:
    part = data[at : at + count]
    if len(part) < count:
        raise BrokenPicture("is cut off")
    return part


_READERS: dict[str, Callable[[bytes], Header]] = {PNG: _png, JPEG: _jpeg, GIF: _gif, WEBP: _webp}
