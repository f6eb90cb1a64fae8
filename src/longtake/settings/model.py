"""All settings. Values are checked on creation and never change afterwards."""

from pydantic import ConfigDict, PrivateAttr, ValidationInfo, field_validator

from longtake.settings.catalogue import CatalogueSettings
from longtake.settings.media import MediaSettings
from longtake.settings.places import PlaceSettings
from longtake.settings.users import UserSettings
from longtake.settings.work import WorkSettings

PREFIX = "LONGTAKE_"


class Settings(CatalogueSettings, MediaSettings, UserSettings, WorkSettings, PlaceSettings):
    """All settings, in the order of the base classes from last to first."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        str_strip_whitespace=True,
        validate_default=True,
    )
    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    def source_of(self, name: str) -> str:
        """Return where the value came from: `default`, `passed`, `environment` or the name of the file."""
        return self._sources.get(name, "passed" if name in self.model_fields_set else "default")

    def remember_sources(self, sources: dict[str, str]) -> None:
        """Store where the values came from, for `longtake settings`."""
        self._sources.update(sources)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth(cls, value: object, info: ValidationInfo) -> object:
        # Without this check, `port = true` in a TOML file would become port 1.
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("must not be true or false")
        return value
