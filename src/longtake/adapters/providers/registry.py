"""The list of providers. To add one, write a file in this folder and add a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from longtake.adapters.providers import gemini, kie
from longtake.clock import Clock, SystemClock

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.adapters.providers.provider import Provider
    from longtake.engine.lanes import Lane
    from longtake.settings.media import MediaSettings


def build_providers(
    settings: MediaSettings, client: HttpClient, key_of: Callable[[str], str], clock: Clock | None = None
) -> dict[str, Provider]:
    """Return the providers by name. Each call reads its key through `key_of`, because keys may change."""
    clock = clock or SystemClock()
    kie_key, webhook_key = partial(key_of, kie.KEY_SETTING), partial(key_of, kie.WEBHOOK_KEY_SETTING)
    gemini_key = partial(key_of, gemini.KEY_SETTING)
    providers: list[Provider] = [
        kie.Kie(client, settings.kie_base_url, kie_key, webhook_key, clock),
        kie.KieVeo(client, settings.kie_base_url, kie_key, webhook_key, clock),
        gemini.GeminiImage(client, settings.gemini_base_url, gemini_key, clock),
        gemini.GeminiVeo(client, settings.gemini_base_url, gemini_key, clock),
    ]
    return {provider.name: provider for provider in providers}


def lanes_of(providers: Mapping[str, Provider]) -> list[Lane]:
    """Return the lanes of the providers, once each."""
    lanes = {lane.name: lane for one in providers.values() for lane in (one.submit_lane, one.query_lane)}
    return list(lanes.values())
