"""How tests ask providers, the same for all of them."""

from __future__ import annotations

from typing import Any

from longtake.adapters.providers.provider import (
    Accepted,
    Failed,
    GenerationRequest,
    Provider,
    Running,
    Strange,
    Succeeded,
)
from tests.wait import until

#: A model of each provider, with parameters that it takes.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "kie": ("google/nano-banana", {"image_size": "16:9", "output_format": "png"}),
    "kie_veo": ("veo3_fast", {"aspectRatio": "9:16", "resolution": "720p", "duration": 8}),
    "gemini_image": ("gemini-3.1-flash-image", {"aspectRatio": "16:9", "imageSize": "1K"}),
    "gemini_veo": ("veo-3.1-fast-generate-preview", {"aspectRatio": "16:9", "durationSeconds": 8}),
}
NAMES = list(MODELS)
WITH_TASKS = ["kie", "kie_veo", "gemini_veo"]
OF_KIE = ["kie", "kie_veo"]
OF_GEMINI = ["gemini_image", "gemini_veo"]


class Keys:
    """Keys by the name of their setting, which may change at any time."""

    def __init__(self, **values: str) -> None:
        self.values = values

    def __call__(self, name: str) -> str:
        return self.values.get(name, "")

    def replace(self, value: str) -> None:
        self.values = dict.fromkeys(self.values, value)


def request(name: str, prompt: str = "a lighthouse", **changes: Any) -> GenerationRequest:
    model, parameters = MODELS[name]
    return GenerationRequest(**{"model": model, "prompt": prompt, "parameters": parameters, **changes})


async def accepted(provider: Provider, prompt: str = "a lighthouse", **changes: Any) -> str:
    answer = await provider.submit(request(provider.name, prompt, **changes))
    assert isinstance(answer, Accepted)
    return answer.provider_task_id


async def end_of(provider: Provider, task_id: str) -> Succeeded | Failed | Strange:
    """Ask until it is no longer running."""

    def ended(answer: object) -> bool:
        return not isinstance(answer, Running)

    found: Succeeded | Failed | Strange = await until(lambda: provider.query(task_id), f"the end of {task_id}", ended)
    return found
