"""Roles on the oldest PostgreSQL that is at hand: what the tests show on the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.db.bare_server import BareServer
from tests.db.test_roles import (
    bare,
    test_a_role_that_nothing_binds_is_not_set_up,
    test_an_administrator_who_cannot_be_reached_is_told_what_to_run_by_hand,
    test_an_administrator_without_superusers_rights_is_enough,
    test_nor_as_a_superuser_that_put_on_a_plain_role,
    test_one_command_makes_everything_from_nothing,
    test_rights_that_end_half_way_give_the_rest_as_sql,
    test_tables_that_a_superuser_made_are_handed_over,
    test_the_password_does_not_reach_the_servers_log,
    test_what_is_there_already_is_left_as_it_is,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "bare",
    "test_a_role_that_nothing_binds_is_not_set_up",
    "test_an_administrator_who_cannot_be_reached_is_told_what_to_run_by_hand",
    "test_an_administrator_without_superusers_rights_is_enough",
    "test_nor_as_a_superuser_that_put_on_a_plain_role",
    "test_one_command_makes_everything_from_nothing",
    "test_rights_that_end_half_way_give_the_rest_as_sql",
    "test_tables_that_a_superuser_made_are_handed_over",
    "test_the_password_does_not_reach_the_servers_log",
    "test_what_is_there_already_is_left_as_it_is",
]


@pytest.fixture(scope="module")
def server() -> Iterator[BareServer]:
    server = BareServer(16)
    yield server
    server.stop()
