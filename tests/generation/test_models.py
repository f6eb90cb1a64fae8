"""Models are data: what is offered is consistent, and a file of one's own adds or replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake.errors import SettingsError
from longtake.services.models import Model, Parameter, load_models

if TYPE_CHECKING:
    from pathlib import Path

PROVIDERS = {"kie", "kie_veo", "gemini_image", "gemini_veo"}


@pytest.mark.parametrize("model", load_models().values(), ids=lambda model: model.name)
def test_each_offered_model_can_be_asked_for_with_its_defaults(model: Model) -> None:
    assert model.provider in PROVIDERS
    assert model.credits > 0
    assert model.deadline == (600 if model.type == "image" else 1800)
    assert all(spec.problem(model.defaults[name]) is None for name, spec in model.parameters.items())
    wire = model.wire_parameters(model.defaults)
    assert set(wire) == {spec.sends for spec in model.parameters.values()}


def test_kling_wants_its_duration_as_text() -> None:
    assert load_models()["kling-2.6"].wire_parameters({"seconds": 10})["duration"] == "10"


def parameter(**values: Any) -> Parameter:
    return Parameter.model_validate({"meaning": "", "sends": "x", **values})


@pytest.mark.parametrize(
    ("spec", "good", "bad"),
    [
        (parameter(kind="choice", choices=["a", "b"]), ["a"], ["c", 1, None, ["a"], {}]),
        (parameter(kind="choice", choices=[1, 2]), [1, 2], [True, "1", 1.0, 3]),
        (parameter(kind="whole", least=1, most=3), [1, 3], [0, 4, 1.5, True, "1", None]),
        (parameter(kind="number", least=0, most=1), [0, 0.5, 1], [-0.1, 1.1, float("nan"), float("inf"), False, "0"]),
        (parameter(kind="yes_no"), [True, False], [0, 1, "true", None]),
        (parameter(kind="text", most=3), ["", "abc"], ["abcd", "a\nb", "\0", 1]),
    ],
)
def test_a_parameter_takes_what_is_within_its_limits(spec: Parameter, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if spec.problem(value)] == []
    assert [value for value in bad if not spec.problem(value)] == []


OWN = """
[[model]]
name = "{name}"
title = "Fox Maker"
provider = "kie"
remote = "foxes/v1"
type = "image"
credits = 3
deadline = 600
"""


def test_a_file_adds_a_model_and_replaces_another(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(OWN.format(name="fox-maker") + OWN.format(name="nano-banana"))
    models = load_models(file)
    assert models["fox-maker"].remote == "foxes/v1"
    assert models["nano-banana"].credits == 3
    assert set(load_models()) < set(models)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[[model]\n", "not valid TOML"),
        (OWN.format(name="Fox Maker"), "the model Fox Maker: name"),
        (OWN.format(name="fox").replace("credits = 3", "credits = -1"), "the model fox: credits"),
        (OWN.format(name="fox") + "colour = 1\n", "the model fox: colour"),
        (
            OWN.format(name="fox") + '[model.parameters.fur]\nkind = "choice"\nmeaning = ""\nsends = "fur"\n',
            "a choice needs choices",
        ),
        (
            OWN.format(name="fox")
            + '[model.parameters.fur]\nkind = "whole"\nmeaning = ""\nsends = "fur"\nleast = 1\nmost = 2\ndefault = 3\n',
            "its default must be at least 1 and at most 2",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "models.toml"
    file.write_text(content)
    with pytest.raises(SettingsError, match=r"models\.toml") as raised:
        load_models(file)
    assert told in raised.value.message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="LONGTAKE_MODELS_FILE"):
        load_models(tmp_path / "none.toml")
