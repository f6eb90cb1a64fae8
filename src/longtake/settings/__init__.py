"""Settings: by environment (`LONGTAKE_PORT=9000`) or in `longtake.toml` (`port = 9000`); the environment wins.

Relative paths are relative to the working directory. `Settings` itself reads nothing from outside, so that tests
and library users get exactly what they pass; `load_settings` is what looks at the environment and the file.
"""

from longtake.settings.describe import SettingRow, describe_settings
from longtake.settings.load import load_settings
from longtake.settings.model import Settings

__all__ = ["SettingRow", "Settings", "describe_settings", "load_settings"]
