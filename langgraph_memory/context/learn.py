"""What the provider's usage teaches about our token counts.

Calls made since the last decision were sent prefixes of the view under the present decisions, so what we would have
counted for each of them is known. Figures from before a decision count another view and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

from .groups import CALL_ITEMS
from .history import History
from .record import Scope
from .render import View
from .tokens import Calibration, calibrate

_CLIENT_CALLS = CALL_ITEMS | {"tool_call", "invalid_tool_call", "apply_patch_call", "local_shell_call", "shell_call"}
"""Blocks for calls that the client runs; every other type that ends like them stands for one of the provider's."""


def since(scope: Scope, history: History) -> int | None:
    """Position of the newest message at the last decision; None where it is not in this history any more."""
    key, digest = scope.since
    position = history.positions.get(key)
    return position if position is not None and history.digests[position].hex() == digest else None


def observed(history: History, scope: Scope, view: View, model: str) -> Calibration:
    """What usage says about our count for calls of `model`, from the calls made since the last decision.

    What was learnt with another counter or for another model says nothing, and is forgotten.
    """
    if (scope.sizes.counter, scope.sizes.model) != (history.counter.name, model):
        return Calibration()
    at = since(scope, history)
    if at is None:
        return scope.calibration
    # Newest first, so that a long view in front of the last decision is not gone through.
    behind, window = 0, scope.sizes.window
    total = scope.sizes.system + scope.sizes.tools + view.tokens
    found: list[tuple[str | None, int, int]] = []
    for part in reversed(view.parts):
        behind += part.tokens
        message = history.messages[part.position] if part.position >= 0 else part.message
        if not isinstance(message, AIMessage):
            continue
        if part.position <= at:
            break
        if message.usage_metadata:
            actual = message.usage_metadata["input_tokens"]
            # What was answered had fitted, so a larger figure does not count that request alone.
            if actual <= window and not _called_server(message):
                found.append((message.response_metadata.get("model_name"), total - behind, actual))
    same_model = [(raw, actual) for name, raw, actual in reversed(found) if name == found[0][0]]
    return calibrate(same_model, scope.calibration)


def _called_server(message: AIMessage) -> bool:
    """Whether the provider ran tools of its own: then its figure may add up several requests."""
    blocks = message.content if isinstance(message.content, list) else []
    return any(isinstance(block, dict) and _is_servers(str(block.get("type"))) for block in blocks)


def _is_servers(kind: str) -> bool:
    """Whether a block of this type is a call that the provider runs, or a result of one."""
    return kind.startswith(("server_tool", "mcp_tool")) or (
        kind.endswith(("_call", "_tool_result")) and kind not in _CLIENT_CALLS
    )


def answering_model(messages: Sequence[BaseMessage]) -> str:
    """Name of the model behind the newest assistant message; empty where it does not say."""
    newest = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    return str(newest.response_metadata.get("model_name") or "") if newest else ""
