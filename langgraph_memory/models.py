"""What we need to know of a model: its name, its context window, and how to make one from `provider:name`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain.chat_models import init_chat_model
from langchain.embeddings import init_embeddings
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import RunnableConfigurableAlternatives

from .errors import ConfigError, LangGraphMemoryError

Model = Runnable[Any, Any]
"""A chat model, or a chat model with arguments bound to it."""


def resolve_model(model: Model | str | None, key: str) -> Model | None:
    """The model that `model` names; a string is `provider:name`. Raises `ConfigError` naming `key`."""
    if not isinstance(model, str):
        return model
    try:
        return init_chat_model(model)
    except Exception as error:
        reason = one_paragraph(error)
        raise ConfigError(
            f"{key}: {model!r} cannot be used: {reason}. Allowed is provider:name of an installed LangChain provider "
            "with its key set, or pass a model object to MemoryMiddleware(model=…)."
        ) from error


def one_paragraph(error: BaseException | None) -> str:
    """What an error says, in one line, to go on behind it; some providers write several paragraphs."""
    return " ".join(str(error).split()).rstrip(".")


def resolve_embeddings(name: str | None, given: Embeddings | None) -> Embeddings | None:
    """The embedding model that `memory.retrieval.embeddings` names, else the one that is given."""
    if name is None:
        return given
    try:
        return init_embeddings(name)
    except Exception as error:
        reason = one_paragraph(error)
        raise ConfigError(
            f"memory.retrieval.embeddings: {name!r} cannot be used: {reason}. Allowed is provider:name of an installed "
            "LangChain provider with its key set, or pass an object to MemoryMiddleware(embeddings=…)."
        ) from error


def embeddings_name(embeddings: Embeddings) -> str:
    """Which vectors it makes: those of another name cannot be compared with them."""
    names = (getattr(embeddings, attribute, None) for attribute in ("model", "model_name"))
    return ":".join([type(embeddings).__name__, *(name for name in names if isinstance(name, str))])


def bare(model: Model) -> Model:
    """The model itself, without bound tools, retries and other wrapping; of several, the one that is tried first."""
    return next(reachable(model))


def reachable(model: Model) -> Iterator[Model]:
    """Every model that a call of `model` may end up at, the first choice first."""
    while isinstance(model, RunnableBindingBase):
        model = model.bound
    if isinstance(model, RunnableWithFallbacks):
        for one in model.runnables:
            yield from reachable(one)
    elif isinstance(model, RunnableConfigurableAlternatives):
        yield from reachable(model.default)
        for other in model.alternatives.values():
            if isinstance(other, Runnable):
                yield from reachable(other)
    else:
        yield model


def bound_tools(model: Model) -> tuple[Any, ...]:
    """Tools that are bound to a model already."""
    bound: tuple[Any, ...] = ()
    while isinstance(model, RunnableBindingBase | RunnableWithFallbacks):
        if isinstance(model, RunnableWithFallbacks):
            model = model.runnable
        else:
            bound += tuple(model.kwargs.get("tools") or ())
            model = model.bound
    return bound


def with_tools(model: Model, tools: Sequence[Any]) -> Model:
    """`model` with `tools` bound. Raises `LangGraphMemoryError` for a wrapped model that cannot bind any."""
    if not tools:
        return model
    if not hasattr(model, "bind_tools"):
        raise LangGraphMemoryError(
            f"model_node cannot bind tools to a {type(model).__name__}: bind the tools before wrapping the model, and "
            "leave tools= out."
        )
    bound: Model = model.bind_tools(list(tools))
    return bound


def for_side_calls(model: Model) -> Model:
    """`model` as it is configured, but without tools: a summary that is a tool call is none."""
    if isinstance(model, RunnableWithFallbacks):
        fallbacks = [for_side_calls(other) for other in model.fallbacks]
        return model.model_copy(update={"runnable": for_side_calls(model.runnable), "fallbacks": fallbacks})
    if not isinstance(model, RunnableBindingBase):
        return model
    kwargs = {name: value for name, value in model.kwargs.items() if name not in ("tools", "tool_choice", "functions")}
    return model.model_copy(update={"bound": for_side_calls(model.bound), "kwargs": kwargs})


def model_name(model: Model | None) -> str | None:
    """The provider's name for the model, as its class keeps it."""
    model = bare(model) if model is not None else None
    for attribute in ("model_name", "model"):
        if isinstance(name := getattr(model, attribute, None), str):
            return name
    return None


def model_window(model: Model | None) -> int | None:
    """Most input tokens according to the model's profile; the least of all models that a call may end up at."""
    return min(filter(None, map(_window, reachable(model))), default=None) if model is not None else None


def _window(model: Model) -> int | None:
    profile = model.profile if isinstance(model, BaseChatModel) else None
    window = profile.get("max_input_tokens") if profile else None
    return window if isinstance(window, int) and window > 0 else None
