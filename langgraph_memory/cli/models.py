"""The model that a command is told to use, with its faults in words of the command line."""

from __future__ import annotations

from langgraph_memory.errors import ConfigError
from langgraph_memory.models import Model, one_paragraph, resolve_model

OPTION = "--model"


def named_model(name: str | None, key: str = OPTION) -> Model | None:
    """The model that an option, or a key of the configuration, names. Raises `ConfigError` saying what is allowed."""
    try:
        return resolve_model(name, key)
    except ConfigError as error:
        raise ConfigError(
            f"{key}: {name!r} cannot be used: {one_paragraph(error.__cause__)}. Allowed is PROVIDER:NAME of an "
            "installed LangChain provider with its key set."
        ) from error
