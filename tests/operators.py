"""Operators' actions as the server and commands perform them, on an engine of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longtake.server.capabilities import operator_actions
from longtake.services.vault.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtake import Engine
    from longtake.actions import Actions


def actions_with(vault: Vault | None = None) -> Actions:
    return operator_actions(lambda: vault or Vault(lambda: [b"k" * 32]))


ACTIONS = {one.name: one for one in actions_with()}


async def perform(
    engine: Engine, name: str, arguments: Mapping[str, Any], *, vault: Vault | None = None
) -> dict[str, Any]:
    return await actions_with(vault).perform(engine, name, arguments)
