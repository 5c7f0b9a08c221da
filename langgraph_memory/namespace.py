"""Whose memory it is: `memory.namespace`, filled with what a run knows of its user.

A template such as `["team-{team}", "{user_id}"]` gives one folder a part. A name in braces is looked up in the run's
`configurable`, then in its runtime context; for `{user_id}` the user that LangGraph's server has authenticated stands
in. A template without braces is shared by all runs, knowingly. Where a value is missing there is no namespace, and what
is kept by namespace is off for the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from .names import safe_name

Namespace = tuple[str, ...]

AUTHENTICATED = "langgraph_auth_user_id"
OWN_FOLDERS = frozenset({"spill", "archive", "memory", "sessions"})
"""Folders of a workspace that no namespace may be mistaken for."""

_SLOT = re.compile(r"\{([^{}]+)\}")


def namespace_of(template: Sequence[str], configurable: Mapping[str, Any], context: Any = None) -> Namespace | None:
    """`template` filled in; None where a value is missing, empty or neither text, a whole number nor a UUID."""
    try:
        return tuple(_SLOT.sub(lambda slot: _value(slot[1], configurable, context), part) for part in template)
    except LookupError:
        return None


def folder_of(workspace: Path, namespace: Namespace) -> Path:
    """Where a namespace has its files; two namespaces never share a folder."""
    return workspace.joinpath(*(safe_name(part, reserved=OWN_FOLDERS) for part in namespace))


def _value(name: str, configurable: Mapping[str, Any], context: Any) -> str:
    found = [configurable.get(name), _of(context, name)]
    if name == "user_id":
        found.append(configurable.get(AUTHENTICATED))
    for value in found:
        if isinstance(value, str | int | UUID) and not isinstance(value, bool) and (text := str(value)).strip():
            return text
    raise LookupError(name)


def _of(context: Any, name: str) -> Any:
    return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
