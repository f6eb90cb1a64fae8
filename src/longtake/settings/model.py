"""All settings: one value each, checked when made and never changed afterwards."""

from pydantic import ConfigDict, PrivateAttr, ValidationInfo, field_validator

from longtake.settings.catalogue import CatalogueSettings
from longtake.settings.media import MediaSettings
from longtake.settings.places import PlaceSettings
from longtake.settings.users import UserSettings
from longtake.settings.work import WorkSettings

PREFIX = "LONGTAKE_"


class Settings(CatalogueSettings, MediaSettings, UserSettings, WorkSettings, PlaceSettings):
    """Every setting, in the order of its base classes from the last to the first."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        str_strip_whitespace=True,
        validate_default=True,
    )
    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    def source_of(self, name: str) -> str:
        """Where the value came from: `default`, `environment`, or the file's name."""
        return self._sources.get(name, "passed" if name in self.model_fields_set else "default")

    def remember_sources(self, sources: dict[str, str]) -> None:
        """Keep where the values came from, for `longtake settings`."""
        self._sources.update(sources)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth(cls, value: object, info: ValidationInfo) -> object:
        # `port = true` in a TOML file would quietly become port 1.
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("must not be true or false")
        return value
