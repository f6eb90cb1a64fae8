"""The models that providers offer: their limits and prices, and the checks of prompts and parameters."""

from longtake.services.models.model import Model, OfferedModels, Parameter, check_parameters, check_prompt, load_models

__all__ = ["Model", "OfferedModels", "Parameter", "check_parameters", "check_prompt", "load_models"]
