"""Pictures as models take them: checked, of a kind that every service reads, and not too large.

Pillow (the extra ``images``) decodes them, which shows damage that the structure does not, and makes those that no
service would take smaller or turns them into PNG. Without it they pass by their structure alone or are refused.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

from agent_nodes.messages import ImageBlock
from agent_nodes.tools.environment import ToolError, short
from agent_nodes.tools.image_header import (
    JPEG,
    PNG,
    SENDABLE,
    BrokenPicture,
    Header,
    image_kind,
    read_header,
)

if TYPE_CHECKING:
    from PIL import Image

MAX_FILE = 64 << 20
MAX_PIXELS = 64_000_000
"""Of a picture that is decoded: 256 MB in memory."""
MAX_SIDE = 8_000
MAX_DATA = 5 * 1024 * 1024 // 4 * 3
"""Bytes whose base64 is 5 MiB, the least that services take."""

SIDES = (2_000, 1_568, 1_024, 512)
"""What a large picture is shrunk to, in pixels of its longer side. Beyond 2,000 a request of many pictures is refused,
and most models see no more than 1,568."""
QUALITIES = (85, 60)

INSTALL = 'pip install "prefect-agent-nodes[images]"'


class PictureError(ToolError):
    """The picture cannot be shown; the text names it, says why and what to do."""


@dataclass(frozen=True, slots=True)
class Picture:
    """``block`` is what the model gets. The rest is what was read: its kind and size, and in ``shown`` how it differs
    from what the model gets, "" where it does not."""

    block: ImageBlock
    kind: str
    width: int
    height: int
    size: int
    shown: str = ""

    def words(self) -> str:
        what = f"{self.kind}, {self.width:,}×{self.height:,} px, {self.size:,} bytes"
        return f"{what}; shown {self.shown}" if self.shown else what


def picture(data: bytes, name: str) -> ImageBlock:
    """The file content ``data`` as a block for a model; ``name`` is how errors name it. Decoding takes a while: up to
    some seconds for the largest, so call it in a thread.

    Raises :class:`PictureError` when it is no picture, is broken, or is too large and cannot be made smaller.
    """
    return load_picture(data, name).block


def load_picture(data: bytes, name: str) -> Picture:
    """As :func:`picture`, with what was read."""
    name = short(name)
    kind = image_kind(data[:64])
    if kind is None:
        raise PictureError(f"{name} is no picture (its bytes are no PNG, JPEG, GIF, WebP, BMP, TIFF or AVIF).")
    if len(data) > MAX_FILE:
        raise PictureError(f"{name} is larger than {MAX_FILE >> 20} MB; make the picture smaller first.")
    if kind == "image/heic":
        raise PictureError(f"{name} is image/heic, which cannot be shown; convert it to JPEG or PNG first.")
    try:
        header = read_header(data, kind) if kind in SENDABLE else None
        if header is not None:
            _check_pixels(header.width, header.height)
        if _have_pillow():
            return _decoded(data, kind, header)
        return _as_it_is(data, name, kind, header)
    except BrokenPicture as error:
        raise PictureError(f"{name}: the picture ({kind}) {error}.") from error


def _have_pillow() -> bool:
    try:
        import_module("PIL.Image")
    except ImportError:
        return False
    return True


def _check_pixels(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise BrokenPicture(f"has {width:,}×{height:,} pixels, more than {MAX_PIXELS:,} in all; make it smaller first")


def _fits(data: bytes, width: int, height: int) -> bool:
    return len(data) <= MAX_DATA and max(width, height) <= MAX_SIDE


def _as_it_is(data: bytes, name: str, kind: str, header: Header | None) -> Picture:
    """Without Pillow."""
    if header is None or (header.animated and header.still is None):
        raise PictureError(f"{name}: {kind} must be converted to be shown, for which Pillow is needed: {INSTALL}")
    out, shown = _still(data, header)
    if not _fits(out, header.width, header.height):
        raise PictureError(
            f"{name}: {header.width:,}×{header.height:,} px and {len(data):,} bytes are more than the {MAX_SIDE:,} px "
            f"a side and {MAX_DATA:,} bytes that models take; to make it smaller Pillow is needed: {INSTALL}"
        )
    return Picture(_block(out, kind), kind, header.width, header.height, len(data), shown)


def _still(data: bytes, header: Header) -> tuple[bytes, str]:
    """Of an animated GIF the first picture: its bytes up to there, and the mark of the end."""
    if header.still is None:
        return data, ""
    return data[: header.still] + b";", "is its first picture"


def _decoded(data: bytes, kind: str, header: Header | None) -> Picture:
    image = _open(data, kind)
    width, height = image.size
    _check_pixels(width, height)
    out, shown = (data, "") if header is None else _still(data, header)
    moving = header is not None and header.animated and header.still is None
    try:
        image.draft(None, (2 * SIDES[0], 2 * SIDES[0]))  # of a large JPEG decode no more than is needed
        image.load()
        turn = _orientation(image)
        change = header is None or moving or turn > 1 or image.mode == "CMYK" or max(width, height) > SIDES[0]
        if not change and _fits(out, width, height):
            return Picture(_block(out, kind), kind, width, height, len(data), shown)
        out, mime, size = _encode(_upright(image, turn), lossy=kind == JPEG)
    except BrokenPicture:
        raise
    except Exception as error:  # a decoder raises what it likes when the data is bad
        raise BrokenPicture(f"cannot be decoded ({' '.join(str(error).split()) or type(error).__name__})") from error
    if turn > 4:
        width, height = height, width
    shown = f"at {size[0]:,}×{size[1]:,} px as {mime}" if size != (width, height) else f"as {mime}"
    return Picture(_block(out, mime), kind, width, height, len(data), shown)


def _open(data: bytes, kind: str) -> Image.Image:
    from PIL import Image

    try:
        # None but the decoder of what the bytes say.
        return Image.open(BytesIO(data), formats=(kind.removeprefix("image/").upper(),))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BrokenPicture(f"has more than {MAX_PIXELS:,} pixels; make it smaller first") from error
    except Exception as error:  # as above; also a Pillow that was built without this decoder
        raise BrokenPicture("cannot be decoded") from error


def _orientation(image: Image.Image) -> int:
    """How a camera held it: 1 upright, 2 to 4 mirrored or upside down, 5 to 8 on its side."""
    try:
        value: object = image.getexif().get(0x0112)
    except Exception:  # damaged, which does not make the picture so
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _upright(image: Image.Image, turn: int) -> Image.Image:
    """In one of the modes L, RGB and RGBA."""
    from PIL import ImageOps

    if turn > 1:
        image = ImageOps.exif_transpose(image)
    mode = image.mode
    if mode.startswith("I;16"):
        return _scaled(image.convert("I"), 0, 65_535)
    if mode in ("I", "F"):
        return _scaled(image, *cast("tuple[float, float]", image.getextrema()))
    if mode in ("L", "RGB", "RGBA"):
        return image
    if mode == "1":
        return image.convert("L")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _scaled(image: Any, low: float, high: float) -> Image.Image:
    scale = 255 / (high - low) if high > low else 0

    def to_byte(value: Any) -> Any:  # a multiplication and an addition: Pillow asks for that form
        return value * scale + -low * scale

    return image.point(to_byte).convert("L")


def _encode(image: Image.Image, *, lossy: bool) -> tuple[bytes, str, tuple[int, int]]:
    """The largest form that fits: PNG where nothing was lost before, else or where that is too much JPEG."""
    from PIL import Image

    for side in SIDES:
        small = image.copy()
        small.thumbnail((side, side), Image.Resampling.LANCZOS)
        if not lossy:
            out = BytesIO()
            small.save(out, "PNG")
            if out.tell() <= MAX_DATA:
                return out.getvalue(), PNG, small.size
        flat = _flat(small)
        for quality in QUALITIES:
            out = BytesIO()
            flat.save(out, "JPEG", quality=quality)
            if out.tell() <= MAX_DATA:
                return out.getvalue(), JPEG, small.size
    raise BrokenPicture("cannot be made small enough")


def _flat(image: Image.Image) -> Image.Image:
    """Without transparency: on white."""
    if image.mode != "RGBA":
        return image
    from PIL import Image

    ground = Image.new("RGB", image.size, "white")
    ground.paste(image, mask=image.getchannel("A"))
    return ground


def _block(data: bytes, kind: str) -> ImageBlock:
    return ImageBlock(base64.b64encode(data).decode("ascii"), kind)
