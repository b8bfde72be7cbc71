"""Pictures for models: what passes as it is, what is changed, what is refused."""

from __future__ import annotations

import base64
import sys
import zlib
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agent_nodes.messages import ImageBlock, TextBlock
from agent_nodes.tools.pictures import INSTALL, MAX_DATA, Picture, PictureError, load_picture, picture

pytestmark = pytest.mark.feature("D01")

SENT = ["PNG", "JPEG", "GIF", "WEBP"]


def drawn(mode: str = "RGB", size: tuple[int, int] = (40, 20), color: Any = None) -> Image.Image:
    """Half of it in one colour, half in another."""
    image = Image.new(mode, size, color if color is not None else {"RGB": (200, 30, 30)}.get(mode, 0))
    if mode == "RGB" and color is None:
        image.paste((30, 30, 200), (size[0] // 2, 0, *size))
    return image


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def noise(size: tuple[int, int], kind: str) -> bytes:
    return encoded(Image.effect_noise(size, 100).convert("RGB"), kind)


def seen(shown: Picture | ImageBlock) -> Image.Image:
    """What the model gets, decoded."""
    block = shown.block if isinstance(shown, Picture) else shown
    image = Image.open(BytesIO(base64.b64decode(block.data, validate=True)))
    image.load()
    assert block.mime_type == f"image/{(image.format or '').lower()}"
    return image


def chunk(name: bytes, body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")


@pytest.fixture(params=["with Pillow", "without"])
def pillow(request, monkeypatch) -> bool:
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "PIL.Image", None)
    return request.param == "with Pillow"


@pytest.mark.parametrize("kind", SENT)
def test_a_usual_picture_passes_byte_for_byte(pillow, kind) -> None:
    data = encoded(drawn(), kind)
    shown = load_picture(data, "a.dat")
    assert shown.block == ImageBlock(base64.b64encode(data).decode(), f"image/{kind.lower()}")
    assert shown.words() == f"image/{kind.lower()}, 40×20 px, {len(data):,} bytes"


@pytest.mark.parametrize("kind", SENT)
def test_a_picture_cut_off_anywhere_is_refused_by_name(pillow, kind) -> None:
    data = encoded(drawn(size=(9, 7)), kind)
    # What follows the first picture of a GIF is not needed.
    for end in range(16, len(data) - (kind == "GIF")):
        with pytest.raises(PictureError, match=r"^shot\.dat\b.*(cut off|damaged|decoded|no size|no picture)"):
            picture(data[:end], "shot.dat")


SAMPLES = {kind: encoded(drawn(size=(12, 9)), kind) for kind in [*SENT, "BMP", "TIFF", "AVIF"]}


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_damage_is_an_error_and_nothing_worse(kind, data) -> None:
    broken = bytearray(SAMPLES[kind])
    for at in data.draw(st.lists(st.integers(12, len(broken) - 1), min_size=1, max_size=4)):
        broken[at] = data.draw(st.integers(0, 255))
    try:
        seen(picture(bytes(broken), "a"))
    except PictureError as error:
        assert str(error).startswith("a")


def test_damage_that_only_a_decoder_sees_is_found() -> None:
    good = encoded(drawn(), "PNG")
    at = good.index(b"IDAT")
    length = int.from_bytes(good[at - 4 : at], "big")
    bad = good[: at - 4] + chunk(b"IDAT", b"\x00" * length) + good[at + 8 + length :]
    with pytest.raises(PictureError, match=r"a\.png: the picture \(image/png\) cannot be decoded"):
        picture(bad, "a.png")


@pytest.mark.parametrize(
    "data", [b"", b"just text", b"<svg/>", b"BMW builds cars and more", b"GIF89a is a format of pictures"]
)
def test_what_is_no_picture_is_told_so(pillow, data) -> None:
    with pytest.raises(PictureError, match=r"^a\.png is no picture"):
        picture(data, "a.png")


def test_a_large_picture_is_made_smaller_and_says_so() -> None:
    data = encoded(drawn(size=(3000, 1500)), "PNG")
    shown = load_picture(data, "big.png")
    assert seen(shown).size == (2000, 1000)
    assert shown.words() == f"image/png, 3,000×1,500 px, {len(data):,} bytes; shown at 2,000×1,000 px as image/png"
    assert seen(picture(encoded(drawn(size=(100, 9000)), "JPEG"), "long.jpg")).size == (22, 2000)


@pytest.mark.parametrize(("size", "kind"), [((1900, 1900), "PNG"), ((3000, 2500), "PNG"), ((1990, 1990), "WEBP")])
def test_a_picture_of_too_many_bytes_becomes_a_jpeg(size, kind) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(Image.effect_noise(size, 200).convert("RGB"), kind, **options)
    block = picture(data, "noise")
    assert len(block.data) <= 5 * 1024 * 1024
    assert block.mime_type == "image/jpeg" or len(data) <= MAX_DATA


def test_without_pillow_what_is_too_large_is_refused_with_the_way_to_get_it(monkeypatch) -> None:
    wide, heavy = encoded(drawn(size=(8001, 10)), "PNG"), noise((2000, 2000), "PNG") + bytes(MAX_DATA)
    others = {kind: SAMPLES[kind] for kind in ("BMP", "TIFF", "AVIF")}
    others["moving.webp"] = encoded(drawn(), "WEBP", save_all=True, append_images=[drawn(color=(1, 2, 3))])
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    for data, why in ((wide, "8,001×10 px"), (heavy, f"{MAX_DATA:,} bytes")):
        with pytest.raises(PictureError, match="more than the 8,000 px") as raised:
            picture(data, "big.png")
        assert "big.png" in str(raised.value) and why in str(raised.value) and INSTALL in str(raised.value)
    for name, data in others.items():
        with pytest.raises(PictureError, match="must be converted") as raised:
            picture(data, name)
        assert str(raised.value).startswith(f"{name}: image/") and INSTALL in str(raised.value)
    assert picture(encoded_before := SAMPLES["PNG"], "small").data == base64.b64encode(encoded_before).decode()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("turn", [3, 6])
def test_a_picture_is_turned_as_the_camera_was_held(kind, turn) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    shown = load_picture(encoded(drawn(size=(60, 30)), kind, exif=exif), "photo")
    image = seen(shown).convert("RGB")
    assert image.size == ((60, 30) if turn == 3 else (30, 60))
    assert (shown.width, shown.height) == image.size
    red, _, blue = image.getpixel((2, 2))  # type: ignore[misc]
    # Red was on the left: it is on the right upside down, and above when turned clockwise.
    assert (red > blue) is (turn == 6)


def test_damaged_exif_does_not_count() -> None:
    data = encoded(drawn(), "JPEG", exif=b"Exif\x00\x00broken")
    assert picture(data, "a").data == base64.b64encode(data).decode()


def test_modes_that_services_do_not_read_are_changed() -> None:
    cmyk = seen(picture(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG"), "a"))
    assert cmyk.mode == "RGB"
    red, green, blue = cmyk.getpixel((4, 4))  # type: ignore[misc]
    assert red > 200
    assert max(green, blue) < 60

    for mode, color, expected in [("I;16", 0x8000, 128), ("F", 0.25, 0), ("1", 1, 255), ("L", 77, 77)]:
        image = Image.new(mode, (8, 8), color)
        grey = seen(picture(encoded(image, "TIFF"), mode)).convert("L")
        assert grey.getpixel((3, 3)) == pytest.approx(expected, abs=1), mode
    steps = Image.new("F", (2, 1))
    steps.putpixel((1, 0), 7.5)
    assert list(seen(picture(encoded(steps, "TIFF"), "F")).tobytes()) == [0, 255]


def test_transparency_is_kept_in_png_and_white_in_jpeg() -> None:
    clear = drawn("RGBA", (2500, 100), (255, 0, 0, 0))
    assert seen(picture(encoded(clear, "PNG"), "a")).getchannel("A").getextrema() == (0, 0)
    noisy = Image.effect_noise((2000, 2000), 200).convert("RGBA")
    noisy.putalpha(Image.linear_gradient("L").resize((2000, 2000)))
    data = encoded(noisy, "TIFF")
    image = seen(picture(data, "a"))
    assert image.mode == "RGB" and image.format == "JPEG"
    assert min(image.getpixel((5, 2)) or ()) > 240  # type: ignore[call-overload]

    palette = drawn("P", (2100, 20))
    palette.info["transparency"] = 0
    assert seen(picture(encoded(palette, "PNG", transparency=0), "a")).mode == "RGBA"


def test_of_a_moving_picture_the_first_is_shown(pillow) -> None:
    frames = [drawn(color=(0, 0, n)) for n in (10, 120, 250)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    shown = load_picture(data, "a.gif")
    assert "shown is its first picture" in shown.words() and shown.size == len(data)
    if pillow:
        image = seen(shown)
        assert image.format == "GIF" and getattr(image, "n_frames", 1) == 1
        assert image.convert("RGB").getpixel((1, 1)) == (0, 0, 10)
        webp = seen(picture(encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True), "a"))
        assert webp.format == "PNG" and webp.convert("RGB").getpixel((1, 1)) == (0, 0, 10)


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "AVIF"])
def test_other_kinds_are_converted(kind) -> None:
    image = seen(picture(encoded(drawn(), kind), "a.dat"))
    assert (image.format, image.size) == ("PNG", (40, 20))
    red, _, blue = image.convert("RGB").getpixel((3, 3))  # type: ignore[misc]
    assert red > 150 > blue


def test_a_bomb_is_refused_before_it_is_decoded(pillow) -> None:
    header = (50_000).to_bytes(4, "big") * 2 + b"\x08\x02\x00\x00\x00"
    png = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    with pytest.raises(PictureError, match=r"bomb\.png.*50,000×50,000 pixels, more than 64,000,000"):
        picture(png, "bomb.png")
    bmp = bytearray(SAMPLES["BMP"])
    for side in (8_500, 20_000):
        bmp[18:26] = side.to_bytes(4, "little") * 2
        with pytest.raises(PictureError, match="pixels" if pillow else "Pillow"):
            picture(bytes(bmp), "bomb.bmp")
    with pytest.raises(PictureError, match=r"huge\.png is larger than 64 MB"):
        picture(png + bytes(64 << 20), "huge.png")


def test_what_pillow_cannot_read_is_named(pillow) -> None:
    with pytest.raises(PictureError, match=r"a\.jpg is image/heic.*convert"):
        picture(b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + bytes(100), "a.jpg")


async def test_read_shows_a_picture_beside_its_words(bench) -> None:
    data = encoded(drawn(), "PNG")
    bench.write("shot.txt", data)
    result = await bench.result("read", path="shot.txt")
    assert not result.is_error
    assert result.content == (
        TextBlock(f"[shot.txt is image/png, 40×20 px, {len(data)} bytes]"),
        ImageBlock(base64.b64encode(data).decode(), "image/png"),
    )
    bench.write("cut.png", data[:-20])
    assert (await bench.refused("read", path="cut.png")).startswith("cut.png: the picture (image/png) is cut off")
