"""Where settings come from, and what is said about wrong ones."""

import inspect
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from longtake.errors import SettingsError
from longtake.settings import SettingRow, Settings, describe_settings, load_settings
from longtake.settings.load import example_of

PASSWORD = "hunter2"


def refusal(directory: Path, file: str | None = None, **environment: str) -> str:
    if file is not None:
        (directory / "longtake.toml").write_text(file)
    with pytest.raises(SettingsError) as caught:
        load_settings({f"LONGTAKE_{name}": value for name, value in environment.items()}, directory)
    assert caught.value.code == "SETTINGS_INVALID"
    assert caught.value.hint
    return caught.value.message


def row(settings: Settings, key: str) -> SettingRow:
    return next(row for row in describe_settings(settings) if row.key == key)


def test_nothing_set_is_one_machine_with_a_sqlite_file(tmp_path: Path) -> None:
    settings = load_settings({}, tmp_path)
    assert settings.database_url == "sqlite:///longtake-data/longtake.db"
    assert settings.storage_url == "file:longtake-data/objects"
    assert settings.data_dir == Path("longtake-data")
    assert (settings.host, settings.port) == ("127.0.0.1", 8484)
    assert settings.heartbeat_seconds < settings.lease_seconds / 2
    assert {row.source for row in describe_settings(settings)} == {"default"}


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "longtake.toml").write_text('port = 1000\nhost = "0.0.0.0"\n')
    settings = load_settings({"LONGTAKE_PORT": "2000", "OTHER_PORT": "3000"}, tmp_path)
    assert (settings.host, settings.port) == ("0.0.0.0", 2000)  # noqa: S104
    assert row(settings, "port").source == "environment"
    assert row(settings, "host").source == "longtake.toml"
    assert row(settings, "lease_seconds").source == "default"


def test_the_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("port = 1000\n")
    (tmp_path / "longtake.toml").write_text("port = 2000\n")
    settings = load_settings({"LONGTAKE_CONFIG": "other.toml"}, tmp_path)
    assert settings.port == 1000
    assert row(settings, "port").source.endswith("other.toml")


def test_without_arguments_the_process_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGTAKE_PORT", "2000")
    (tmp_path / "longtake.toml").write_text('log_level = "DEBUG"\n')
    settings = load_settings()
    assert (settings.port, settings.log_level) == (2000, "debug")


def test_settings_made_directly_ignore_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAKE_PORT", "2000")
    assert Settings().port == 8484
    assert row(Settings(port=1), "port").source == "passed"


def test_an_empty_variable_is_as_good_as_none(tmp_path: Path) -> None:
    settings = load_settings({"LONGTAKE_PORT": "", "LONGTAKE_HOST": "  ", "LONGTAKE_CONFIG": ""}, tmp_path)
    assert (settings.host, settings.port) == ("127.0.0.1", 8484)
    assert row(settings, "port").source == "default"


def test_the_database_follows_the_data_folder_and_objects_follow_the_database(tmp_path: Path) -> None:
    moved = load_settings({"LONGTAKE_DATA_DIR": "/srv/data"}, tmp_path)
    assert moved.database_url == "sqlite:////srv/data/longtake.db"
    assert moved.storage_url == "file:/srv/data/objects"
    elsewhere = load_settings({"LONGTAKE_DATABASE_URL": "sqlite:////srv/fast/x.db"}, tmp_path)
    assert elsewhere.storage_url == "file:/srv/fast/objects"
    server = load_settings({"LONGTAKE_DATABASE_URL": "postgresql:///x", "LONGTAKE_DATA_DIR": "/srv/data"}, tmp_path)
    assert server.storage_url == "file:/srv/data/objects"


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("postgres://me@db/x", "postgresql://me@db/x"),
        ("postgresql+psycopg://me@db/x", "postgresql://me@db/x"),
        ("postgresql://me:a%40b@db:5432/x?sslmode=require", "postgresql://me:a%40b@db:5432/x?sslmode=require"),
        ("postgresql://one:5432,two:5433/x", "postgresql://one:5432,two:5433/x"),
        ("postgresql://[::1]:5432/x", "postgresql://[::1]:5432/x"),
        ("postgresql:///x", "postgresql:///x"),
        ("SQLite:///a.db", "sqlite:///a.db"),
    ],
)
def test_database_addresses(given: str, kept: str) -> None:
    assert Settings(database_url=given).database_url == kept


@pytest.mark.parametrize(
    "url", ["file:objects", "file:/srv/objects", "file:///srv/objects", "s3://my-bucket?region=x", "s3://my.bucket/a"]
)
def test_storage_addresses(url: str) -> None:
    assert Settings(storage_url=url).storage_url == url


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("PORT", "abc", "must be a whole number"),
        ("PORT", "70000", "must be at most 65535"),
        ("PORT", "-1", "must be at least 0"),
        ("LEASE_SECONDS", "soon", "must be a number"),
        ("LEASE_SECONDS", "nan", "must be a number"),
        ("LEASE_SECONDS", "inf", "must be a number"),
        ("LEASE_SECONDS", "0", "must be at least 0.2"),
        ("LOG_FORMAT", "xml", "must be one of 'auto', 'json' or 'human'"),
        ("HEARTBEAT_SECONDS", "15", "must be less than half of lease_seconds (30)"),
        ("DATABASE_URL", "longtake.db", "must start with sqlite:/// (a file) or postgresql:// (a server)"),
        ("DATABASE_URL", "mysql://db/x", "must start with sqlite:/// (a file) or postgresql:// (a server)"),
        ("DATABASE_URL", "sqlite://longtake.db", "needs three slashes"),
        ("DATABASE_URL", "sqlite:///", "needs three slashes"),
        ("DATABASE_URL", "sqlite:///:memory:", "do not survive a restart"),
        ("DATABASE_URL", "sqlite:///folder/", "not a folder"),
        ("DATABASE_URL", "sqlite:///a.db?mode=ro", "options after ? are not supported"),
        ("DATABASE_URL", "postgresql://db:port/x", "has no valid host and port"),
        ("DATABASE_URL", "postgresql://[::1/x", "is not a valid URL"),
        ("STORAGE_URL", "ftp://x", "must start with file: (a folder) or s3:// (a bucket)"),
        ("STORAGE_URL", "file://host/x", "needs a folder"),
        ("STORAGE_URL", "s3://", "needs a bucket name"),
        ("STORAGE_URL", "s3:bucket", "needs a bucket name"),
    ],
)
def test_a_wrong_value_is_refused_with_name_reason_and_example(
    name: str, value: str, reason: str, tmp_path: Path
) -> None:
    message = refusal(tmp_path, **{name: value})
    example = example_of(name.lower())
    assert message.startswith(f"LONGTAKE_{name}=")
    assert reason in message
    assert f"Example: LONGTAKE_{name}={example}" in message


def test_a_wrong_value_in_the_file_is_named_as_it_is_written_there(tmp_path: Path) -> None:
    assert refusal(tmp_path, 'port = "x"') == (
        "port = x in longtake.toml: must be a whole number. Example: port = 8484"
    )
    assert 'Example: log_format = "json"' in refusal(tmp_path, "log_format = 1")


def test_true_is_not_a_number(tmp_path: Path) -> None:
    assert "must not be true or false" in refusal(tmp_path, "port = true")


def test_every_wrong_setting_is_named_at_once(tmp_path: Path) -> None:
    message = refusal(tmp_path, "events_days = 0", PORT="x", HOTS="y")
    assert len(message.splitlines()) == 3
    assert all(name in message for name in ("events_days", "LONGTAKE_PORT", "LONGTAKE_HOTS"))


def test_unknown_names_are_refused_with_the_nearest_one(tmp_path: Path) -> None:
    assert refusal(tmp_path, DATABSE_URL="x") == (
        "LONGTAKE_DATABSE_URL: this setting does not exist. Did you mean LONGTAKE_DATABASE_URL?"
    )
    assert refusal(tmp_path, QQQQQQQQQQ="x") == "LONGTAKE_QQQQQQQQQQ: this setting does not exist."
    assert refusal(tmp_path, "data-dir = 'x'").endswith("this setting does not exist. Did you mean data_dir?")
    assert "this setting does not exist" in refusal(tmp_path, "[longtake]\nport = 1")


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://me:{PASSWORD}@db/x",
        f"me:{PASSWORD}@db/x",
        f"postgresql://me:{PASSWORD}",
        f"postgresql://me:{PASSWORD}/more@db/x",
        f"postgresql://me:a://{PASSWORD}@db:x/y",
        f"sqlite://me:{PASSWORD}@db",
        f"postgresql://[{PASSWORD}",
        f"mysql://db/x?password={PASSWORD}",
    ],
)
def test_a_refused_address_never_shows_its_password(url: str, tmp_path: Path) -> None:
    assert PASSWORD not in refusal(tmp_path, DATABASE_URL=url)
    assert PASSWORD not in refusal(tmp_path, f'database_url = "{url}"')


def test_the_password_is_masked_wherever_settings_are_shown(tmp_path: Path) -> None:
    settings = load_settings({"LONGTAKE_DATABASE_URL": f"postgresql://me:{PASSWORD}@db/x"}, tmp_path)
    assert PASSWORD in settings.database_url
    assert row(settings, "database_url").value == "postgresql://me:***@db/x"
    assert PASSWORD not in repr(settings)
    assert PASSWORD not in str(settings)
    s3 = Settings(storage_url=f"s3://bucket?access_key_id=a&secret_access_key={PASSWORD}")
    assert PASSWORD not in row(s3, "storage_url").value


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "not valid TOML" in refusal(tmp_path, "port = ")
    (tmp_path / "longtake.toml").write_bytes(b"host = '\xff'")
    assert "not UTF-8" in refusal(tmp_path)
    assert "this file does not exist" in refusal(tmp_path, CONFIG="absent.toml")
    (tmp_path / "longtake.toml").unlink()
    (tmp_path / "longtake.toml").mkdir()
    assert "cannot be read" in refusal(tmp_path)


def test_every_setting_has_a_description_and_an_example_that_works() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
        assert example_of(name) not in {"", SecretStr("")}, name
        assert getattr(Settings.model_validate({name: example_of(name)}), name) is not None


def test_public_names() -> None:
    assert list(inspect.signature(load_settings).parameters) == ["environment", "directory"]
    assert [field.name for field in SettingRow.__dataclass_fields__.values()] == [
        "name", "key", "meaning", "value", "source", "example",
    ]  # fmt: skip
