"""The models of KIE's job API: what each makes and which inputs it insists on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longtake_sandbox.kie_shapes import trouble_with_urls

PROMPT_LONGEST = 20_000
IMAGE_RATIOS = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9", "auto")
VIDEO_RATIOS = ("1:1", "9:16", "16:9")
FORMATS = ("png", "jpeg", "jpg")


@dataclass(frozen=True, slots=True)
class Model:
    """A model's rules. ``choices`` are fields that, if they are there, must have one of some values."""

    kind: str
    choices: dict[str, tuple[Any, ...]]
    image_field: str = ""
    images_least: int = 0
    images_most: int = 0

    def image_urls(self, given: dict[str, Any]) -> list[str]:
        """Return the addresses of reference images."""
        return list(given.get(self.image_field) or []) if self.image_field else []

    def trouble(self, given: dict[str, Any]) -> str:
        """Say what is wrong with an input; empty if nothing."""
        prompt = given.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return "prompt is required"
        if len(prompt) > PROMPT_LONGEST:
            return f"The text length cannot exceed {PROMPT_LONGEST} characters"
        for name, values in self.choices.items():
            # A number where a text belongs is no choice either: duration is "5", not 5.
            if name in given and given[name] not in values:
                return f"{name} is not within the range of allowed options"
        if not self.image_field:
            return ""
        return trouble_with_urls(self.image_field, given.get(self.image_field), self.images_least, self.images_most)


def _seconds(first: int, last: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(first, last + 1))


_SOUND = {"sound": (True, False)}
_PRO = {"aspect_ratio": IMAGE_RATIOS, "resolution": ("1K", "2K", "4K"), "output_format": FORMATS}
_BANANA = {"image_size": IMAGE_RATIOS, "output_format": FORMATS}
MODELS = {
    "google/nano-banana": Model("image", _BANANA),
    "google/nano-banana-edit": Model("image", _BANANA, "image_urls", 1, 10),
    "nano-banana-pro": Model("image", _PRO, "image_input", 0, 8),
    "nano-banana-2": Model("image", _PRO, "image_input", 0, 14),
    "kling-2.6/text-to-video": Model("video", {"aspect_ratio": VIDEO_RATIOS, "duration": ("5", "10"), **_SOUND}),
    "kling-2.6/image-to-video": Model("video", {"duration": ("5", "10"), **_SOUND}, "image_urls", 1, 1),
    "kling-3.0/video": Model(
        "video", {"aspect_ratio": VIDEO_RATIOS, "duration": _seconds(3, 15), "mode": ("std", "pro"), **_SOUND},
        "image_urls", 0, 2,
    ),
}  # fmt: skip
