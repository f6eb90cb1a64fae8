"""The sandbox of the tests of scenes."""

from tests.scenes.conftest import sandbox, shared_sandbox

__all__ = ["sandbox", "shared_sandbox"]
