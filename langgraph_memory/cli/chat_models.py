"""Which model `lgm chat` talks to: `provider:name`, any server that speaks OpenAI's API, or the demo.

Nothing here calls a model, and what is missing — a package, a key — is told as one line that says how to get it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from langgraph_memory.context.text import one_line
from langgraph_memory.errors import ConfigError

from .called import program

DEMO = "demo"


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider that is found by its key."""

    keys: tuple[str, ...]
    package: str
    model: str
    """What is talked to where only the key says anything."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(("OPENAI_API_KEY",), "langchain-openai", "gpt-5.5"),
    "anthropic": Provider(("ANTHROPIC_API_KEY",), "langchain-anthropic", "claude-sonnet-4-5"),
    "google_genai": Provider(("GOOGLE_API_KEY", "GEMINI_API_KEY"), "langchain-google-genai", "gemini-2.5-flash"),
    "mistralai": Provider(("MISTRAL_API_KEY",), "langchain-mistralai", "mistral-large-latest"),
    "groq": Provider(("GROQ_API_KEY",), "langchain-groq", "openai/gpt-oss-120b"),
    "deepseek": Provider(("DEEPSEEK_API_KEY",), "langchain-deepseek", "deepseek-chat"),
    "xai": Provider(("XAI_API_KEY",), "langchain-xai", "grok-4"),
    "openrouter": Provider(("OPENROUTER_API_KEY",), "langchain-openrouter", "openrouter/auto"),
}
REASON_CHARS = 300
LIST_SECONDS = 5.0
"""How long a server is asked for the models it has."""


@dataclass(frozen=True)
class Chosen:
    """The model of a chat; None is the demo."""

    model: BaseChatModel | None
    label: str
    key: str | None = None
    """The environment variable that has its key, where one is known."""


def choose(model: str | None, base_url: str | None, model_name: str | None) -> Chosen:
    """The model that the options name, else the one whose key is set. Raises `ConfigError`."""
    if base_url:
        return _served(base_url, model_name)
    if model == DEMO:
        return Chosen(None, DEMO)
    if model:
        return _named(model)
    found = _by_key()
    if found is None:
        raise ConfigError(
            f"No model is named and no key is set. Try it without one: `{program()} chat --model {DEMO}`; or "
            "export OPENAI_API_KEY=… (or ANTHROPIC_API_KEY, GOOGLE_API_KEY, …), or give --model provider:name or "
            "--base-url URL of a server that speaks OpenAI's API."
        )
    return _named(found)


def _by_key() -> str | None:
    """`provider:name` of the first provider whose key is set; one whose package is there goes first."""
    keyed = [name for name, provider in PROVIDERS.items() if _key_of(name) is not None]
    there = [name for name in keyed if find_spec(PROVIDERS[name].package.replace("-", "_"))]
    name = next(iter([*there, *keyed]), None)
    return f"{name}:{PROVIDERS[name].model}" if name else None


def _key_of(name: str) -> str | None:
    """The variable that holds a provider's key; None where none is set."""
    return next((key for key in PROVIDERS[name].keys if os.environ.get(key, "").strip()), None)


def _named(name: str) -> Chosen:
    provider = name.partition(":")[0]
    known = PROVIDERS.get(provider)
    if known and not find_spec(known.package.replace("-", "_")):
        raise ConfigError(_missing(name, known.package))
    key = _key_of(provider) if known else None
    if known and key is None:
        raise ConfigError(
            f"--model: {name!r} needs a key: export {' or '.join(known.keys)}=…; without one there is "
            f"`{program()} chat --model {DEMO}`."
        )
    return Chosen(_made(name), name, key)


def _made(name: str, **arguments: Any) -> BaseChatModel:
    try:
        made = init_chat_model(name, **arguments)
    except ImportError as error:
        package = re.search(r"pip install (?:-U )?(\S+?)`?$", str(error))
        raise ConfigError(_missing(name, package[1].strip("`'\"") if package else str(error))) from error
    except Exception as error:
        reason = one_line(str(error), REASON_CHARS)
        raise ConfigError(f"--model: {name!r} cannot be used: {reason} Allowed: provider:name, or {DEMO}.") from error
    assert isinstance(made, BaseChatModel)
    return made


def _missing(name: str, package: str) -> str:
    return f"--model: {name!r} needs a package that is not installed: pip install {package}"


def _served(base_url: str, name: str | None) -> Chosen:
    if not find_spec("langchain_openai"):
        raise ConfigError("--base-url needs a package that is not installed: pip install langchain-openai")
    if not re.match(r"https?://\S", base_url):
        raise ConfigError(f"--base-url: {base_url!r}; allowed: the address of a server, as http://localhost:8080/v1")
    key = "OPENAI_API_KEY" if os.environ.get("OPENAI_API_KEY", "").strip() else None
    model_name = name or _first_served(base_url)
    arguments: dict[str, Any] = {"base_url": base_url, "api_key": os.environ[key] if key else "none"}
    arguments["use_responses_api"] = False
    return Chosen(_made(f"openai:{model_name}", **arguments), f"{model_name} at {base_url}", key)


def _first_served(base_url: str) -> str:
    """The first model that a server lists; servers that have only one mostly take any name."""
    from openai import OpenAI, OpenAIError

    key = os.environ.get("OPENAI_API_KEY", "").strip() or "none"
    try:
        with OpenAI(base_url=base_url, api_key=key, timeout=LIST_SECONDS, max_retries=0) as client:
            return next((model.id for model in client.models.list()), "default")
    except (OpenAIError, ValueError, AttributeError, TypeError):
        return "default"
