"""The models that providers offer: their limits and prices, and the checks of prompts and parameters."""

from longtake.services.models.model import Model, Parameter, load_models
from longtake.services.models.offer import OfferedModels, check_parameters, check_prompt

__all__ = ["Model", "OfferedModels", "Parameter", "check_parameters", "check_prompt", "load_models"]
