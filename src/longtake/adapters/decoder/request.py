"""What a decoder can be asked for, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

#: No picture with more pixels than this is ever unpacked.
MOST_PIXELS = 50_000_000
MOST_SIDE = 32_768
PLACEHOLDER_SIZE = (24, 14)


@dataclass(frozen=True, slots=True)
class Wish:
    """A picture that is wanted of a file.

    `still`: a JPEG of one frame, filling width and height, and a placeholder of a few bytes. `preview`: a short
    animated WebP. `check`: the certainty that every pixel of a picture can be decoded, or that a video has one frame.
    `small`: the same certainty, and a WebP of the whole picture that fits into width and height, or nearly (it may be a
    quarter larger); of pictures only.
    """

    what: Literal["still", "preview", "check", "small"]
    #: The type its first bytes told; a decoder is never asked to guess.
    content_type: str
    width: int = 960
    height: int = 540
    quality: int = 95
    #: Where in a video the frame is taken, in seconds.
    at: float = 0.1
    frames: int = 12

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is told to a decoder; unlike `asdict` nothing is copied."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Made:
    """What came of it. Width, height and duration are those of the file itself."""

    width: int
    height: int
    duration_seconds: float | None
    picture: bytes
    placeholder: bytes
    bytes_read: int
