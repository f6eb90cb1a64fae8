"""Pictures and clips drawn from prompts: colours and shapes derived from the prompt, with its text on top.

A prompt always gives the same bytes, so that a file can be fetched again, or in ranges.
"""

from __future__ import annotations

import hashlib
import io
import random
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont, ImageOps

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG_SIDE = 1024
SHAPES = 14
TEXT_LINES = 12
#: Fonts for letters that Pillow's own font lacks. The first one installed is used.
WIDE_FONTS = ("NotoSansCJK-Regular.ttc", "NotoSansSC-Regular.otf", "wqy-microhei.ttc", "msyh.ttc", "DejaVuSans.ttf")
LAST_LETTER_OF_DEFAULT = 0x24F
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def size_of(ratio: str, long_side: int = LONG_SIDE) -> tuple[int, int]:
    """Return width and height for a ratio such as ``16:9``, both even. Anything else is square."""
    try:
        across, down = (float(part) for part in ratio.split(":"))
        scale = long_side / max(across, down)
    except (ValueError, ZeroDivisionError):
        return long_side, long_side
    return max(int(across * scale) // 2 * 2, 16), max(int(down * scale) // 2 * 2, 16)


def digest(prompt: str) -> bytes:
    """Return the bytes that determine a prompt's colours and shapes."""
    return hashlib.sha256(prompt.encode()).digest()


def draw_picture(prompt: str, size: tuple[int, int], references: tuple[bytes, ...] = ()) -> Image.Image:
    """Draw a picture of the prompt, with its references in small along the top."""
    seed = digest(prompt)
    dice = random.Random(seed)
    image = _gradient(size, seed)
    brush = ImageDraw.Draw(image, "RGBA")
    for _ in range(SHAPES):
        _draw_shape(brush, dice, size)
    _paste_references(image, references)
    _write(brush, prompt, size)
    return image


def encode(image: Image.Image, image_format: str) -> bytes:
    """Return the picture as PNG or JPEG, optimised for speed, not size."""
    output = io.BytesIO()
    if image_format == "jpeg":
        image.save(output, "JPEG", quality=90)
    else:
        image.save(output, "PNG", compress_level=1)
    return output.getvalue()


def reduce_picture(content: bytes, side: int = 160) -> bytes:
    """Return the picture reduced to a small PNG; raise OSError or ValueError if it is no picture."""
    with Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP")) as image:
        image.thumbnail((side, side))
        return encode(image.convert("RGB"), "png")


def _gradient(size: tuple[int, int], seed: bytes) -> Image.Image:
    first, second = tuple(seed[0:3]), tuple(seed[3:6])
    grey = Image.linear_gradient("L").rotate(seed[6] // 64 * 90).resize(size)
    return ImageOps.colorize(grey, first, second)


def _draw_shape(brush: ImageDraw.ImageDraw, dice: random.Random, size: tuple[int, int]) -> None:
    width, height = size
    radius = dice.randint(min(size) // 16, min(size) // 4)
    x, y = dice.randrange(width), dice.randrange(height)
    colour = (dice.randrange(256), dice.randrange(256), dice.randrange(256), dice.randint(60, 170))
    if dice.random() < 0.5:  # noqa: PLR2004 - half of the shapes
        brush.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    else:
        brush.regular_polygon((x, y, radius), dice.randint(3, 6), rotation=dice.randrange(360), fill=colour)


def _paste_references(image: Image.Image, references: tuple[bytes, ...]) -> None:
    left = 12
    for content in references:
        with Image.open(io.BytesIO(content)) as small:
            image.paste(small, (left, 12))
            left += small.width + 12


def _write(brush: ImageDraw.ImageDraw, prompt: str, size: tuple[int, int]) -> None:
    width, height = size
    font = _font(max(width // 26, 12), wide=any(ord(letter) > LAST_LETTER_OF_DEFAULT for letter in prompt))
    margin = width // 24
    lines = _wrap(brush, prompt, font, width - 2 * margin)
    text = "\n".join(lines)
    _left, _top, _right, bottom = brush.multiline_textbbox((0, 0), text, font=font)
    top = max(int(height - bottom) - margin, 0)
    brush.rectangle((0, top, width, height), fill=(0, 0, 0, 170))
    brush.multiline_text((margin, top + margin // 2), text, font=font, fill=(255, 255, 255, 255))


def _wrap(brush: ImageDraw.ImageDraw, prompt: str, font: Font, width: int) -> list[str]:
    lines = [""]
    for word in prompt.split():
        for piece in _pieces(brush, word, font, width):
            longer = f"{lines[-1]} {piece}".strip()
            if brush.textlength(longer, font=font) <= width:
                lines[-1] = longer
            elif len(lines) == TEXT_LINES:
                lines[-1] += " …"
                return lines
            else:
                lines.append(piece)
    return lines


def _pieces(brush: ImageDraw.ImageDraw, word: str, font: Font, width: int) -> list[str]:
    """Cut up a word that is longer than a line. Text in a language without spaces is one such word."""
    if brush.textlength(word, font=font) <= width:
        return [word]
    count = max(int(len(word) * width / brush.textlength(word, font=font)) - 1, 1)
    return [word[start : start + count] for start in range(0, len(word), count)]


@cache
def _font(size: int, *, wide: bool) -> Font:
    for name in WIDE_FONTS if wide else ():
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)


FRAMES_PER_SECOND = 24
CLIP_SIDE = 640
SHORTEST_SECONDS = 2


def draw_clip(prompt: str, ratio: str, *, faststart: bool, references: tuple[bytes, ...] = ()) -> bytes:
    """Draw a clip of 2 to 4 seconds from the prompt."""
    seed = digest(prompt)
    size = size_of(ratio, CLIP_SIDE)
    count = FRAMES_PER_SECOND * (SHORTEST_SECONDS + seed[7] % 3)
    return encode_clip(_frames(draw_picture(prompt, size, references), count, seed), size, faststart=faststart)


def is_faststart(prompt: str, choice: str) -> bool:
    """Return whether the index of a prompt's clip is in front. With ``half`` the prompt decides."""
    return choice == "yes" or (choice == "half" and digest(prompt)[8] % 2 == 0)


def encode_clip(frames: Iterator[Image.Image], size: tuple[int, int], *, faststart: bool) -> bytes:
    """Encode frames. This needs a real file: FFmpeg moves the index to the front only there."""
    import av  # noqa: PLC0415 - loads the codecs only for clips

    with tempfile.TemporaryDirectory(prefix="sandbox-clip-") as folder:
        path = Path(folder) / "clip.mp4"
        options = {"movflags": "faststart"} if faststart else {}
        with av.open(str(path), "w", format="mp4", options=options) as container:
            stream = container.add_stream("libx264", rate=Fraction(FRAMES_PER_SECOND))
            stream.width, stream.height = size
            stream.pix_fmt = "yuv420p"
            stream.thread_count = 1
            stream.options = {"preset": "ultrafast", "crf": "28"}
            for frame in frames:
                container.mux(stream.encode(av.VideoFrame.from_image(frame)))  # type: ignore[no-untyped-call]
            container.mux(stream.encode(None))
        return path.read_bytes()


def _frames(background: Image.Image, count: int, seed: bytes) -> Iterator[Image.Image]:
    """Yield frames on which a disc crosses the picture, so that each differs from the next."""
    width, height = background.size
    radius = height // 10
    colour = tuple(255 - value for value in seed[0:3])
    for number in range(count):
        frame = background.copy()
        x = int(width * number / count)
        y = height // 3
        ImageDraw.Draw(frame).ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
        yield frame
