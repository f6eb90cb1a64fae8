"""Settings, from the environment (`LONGTAKE_PORT=9000`) or `longtake.toml` (`port = 9000`); the environment wins.

Relative paths are relative to the working directory. `load_settings` reads the environment and the file.
`Settings` reads neither, so tests and library users get exactly what they pass.
"""

from longtake.settings.load import SettingRow, Settings, describe_settings, load_settings

__all__ = ["SettingRow", "Settings", "describe_settings", "load_settings"]
