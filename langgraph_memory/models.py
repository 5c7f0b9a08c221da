"""What we need to know of a chat model: its name, its context window, and how to make one from `provider:name`."""

from __future__ import annotations

from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableBinding

from .errors import ConfigError

Model = Runnable[Any, Any]
"""A chat model, or a chat model with arguments bound to it."""


def resolve_model(model: Model | str | None, key: str) -> Model | None:
    """The model that `model` names; a string is `provider:name`. Raises `ConfigError` naming `key`."""
    if not isinstance(model, str):
        return model
    try:
        return init_chat_model(model)
    except Exception as error:
        raise ConfigError(
            f"{key}: {model!r} cannot be used: {error}. Allowed is provider:name of an installed LangChain provider "
            "with its key set, or pass a model object to MemoryMiddleware(model=…)."
        ) from error


def bare(model: Model) -> Model:
    """The model itself, without bound tools and other arguments."""
    while isinstance(model, RunnableBinding):
        model = model.bound
    return model


def model_name(model: Model | None) -> str | None:
    """The provider's name for the model, as its class keeps it."""
    model = bare(model) if model is not None else None
    for attribute in ("model_name", "model"):
        if isinstance(name := getattr(model, attribute, None), str):
            return name
    return None


def model_window(model: Model | None) -> int | None:
    """Most input tokens according to the model's profile."""
    model = bare(model) if model is not None else None
    profile = model.profile if isinstance(model, BaseChatModel) else None
    window = profile.get("max_input_tokens") if profile else None
    return window if isinstance(window, int) and window > 0 else None
