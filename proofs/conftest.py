"""The fixtures of the tests."""

from tests.conftest import *  # noqa: F403 - all of them
