"""Reading messages that are as usual, without asking their classes to look at every field again.

LangGraph's serializer builds a message by validating its fields, which were those of a valid message when it was
stored. For plain messages of the four common classes the outcome is known beforehand: the same fields, all of them set.
Only those are read here; whatever is not just so is left to the serializer. The first time a class is met, one message
is read in both ways, so that a version of LangChain that does more is believed, and not this module.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from types import NoneType
from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import EXT_PYDANTIC_V2, JsonPlusSerializer

from .moulds import Mould, cast, moulded

CALL = ("name", "args", "id", "type")
CALL_TYPES = {(str, dict, str, str), (str, dict, NoneType, str)}
TOTALS = ("input_tokens", "output_tokens", "total_tokens")
DETAILS = {
    "input_token_details": ("audio", "cache_creation", "cache_read"),
    "output_token_details": ("audio", "reasoning"),
}
TEXT, MAYBE = (str,), (str, NoneType)
COMMON = {
    "content": (str, list),
    "additional_kwargs": (dict,),
    "response_metadata": (dict,),
    "type": TEXT,
    "name": MAYBE,
    "id": MAYBE,
}
PLAIN = (str, int, float, bool, bytes, list, dict, NoneType)
FIELDS: dict[type[BaseMessage], dict[str, tuple[type, ...]]] = {
    HumanMessage: COMMON,
    SystemMessage: COMMON,
    AIMessage: {**COMMON, "tool_calls": (list,), "invalid_tool_calls": (list,), "usage_metadata": (dict, NoneType)},
    ToolMessage: {**COMMON, "tool_call_id": TEXT, "artifact": PLAIN, "status": TEXT},
}
KINDS = {(kind.__module__, kind.__name__): kind for kind in FIELDS}
NAMES = {kind: tuple(fields) for kind, fields in FIELDS.items()}
TYPES = {kind: set(product(*fields.values())) for kind, fields in FIELDS.items()}
TAGS = {HumanMessage: "human", SystemMessage: "system", AIMessage: "ai", ToolMessage: "tool"}
SET = {kind: frozenset(fields) for kind, fields in FIELDS.items()}
SAMPLES: dict[type[BaseMessage], BaseMessage] = {
    HumanMessage: HumanMessage("text", name="n", id="1"),
    SystemMessage: SystemMessage(["text", {"type": "text"}], additional_kwargs={"a": 1}),
    AIMessage: AIMessage(
        "text",
        tool_calls=[{"name": "f", "args": {"x": [1]}, "id": "c", "type": "tool_call"}],
        usage_metadata={
            "input_tokens": 1,
            "output_tokens": 2,
            "total_tokens": 3,
            "input_token_details": {"cache_read": 1},
            "output_token_details": {"reasoning": 2},
        },
    ),
    ToolMessage: ToolMessage("text", tool_call_id="c", artifact={"a": 1}, status="error"),
}


def is_known(serde: SerializerProtocol) -> bool:
    """Whether it is known what a serializer makes of usual messages: it is LangGraph's own, and nobody hooks in."""
    return type(serde) is JsonPlusSerializer and not getattr(serde, "_custom_unpack_ext_hook", True)


def read(type_: str, data: bytes) -> Mould | None:
    """The mould of a stored message; None if the message is not as usual."""
    mould = _read(data) if type_ == "msgpack" else None
    return mould if mould and _is_believed(mould.kind) else None


def _read(data: bytes) -> Mould | None:
    try:
        inside = ormsgpack.unpackb(data, ext_hook=_inside)
        module, name, fields, _ = ormsgpack.unpackb(inside, option=ormsgpack.OPT_NON_STR_KEYS)
        kind = KINDS[module, name]
    except (ValueError, TypeError, KeyError):
        return None
    return moulded(kind, fields, {}, SET[kind], len(data)) if _is_usual(kind, fields) else None


def _inside(code: int, data: bytes) -> bytes:
    if code != EXT_PYDANTIC_V2:
        raise ValueError
    return data


@cache
def _is_believed(kind: type[BaseMessage]) -> bool:
    """Whether the serializer reads a message of a class just so."""
    serde = JsonPlusSerializer()
    type_, data = serde.dumps_typed(SAMPLES[kind])
    mould = _read(data)
    return mould is not None and _shown(*cast([mould])) == _shown(serde.loads_typed((type_, data)))


def _shown(message: Any) -> str:
    fields = sorted(message.__pydantic_fields_set__)
    return repr((type(message), message.__dict__, fields, message.__pydantic_extra__, message.__pydantic_private__))


def _is_usual(kind: type[BaseMessage], fields: Any) -> bool:
    if type(fields) is not dict or tuple(fields) != NAMES[kind] or tuple(map(type, fields.values())) not in TYPES[kind]:
        return False
    content = fields["content"]
    if fields["type"] != TAGS[kind] or (type(content) is list and not {str, dict}.issuperset(map(type, content))):
        return False
    if kind is ToolMessage:
        return fields["status"] in ("success", "error")
    return kind is not AIMessage or _is_reply(fields)


def _is_reply(fields: dict[str, Any]) -> bool:
    if fields["invalid_tool_calls"] or "tool_calls" in fields["additional_kwargs"]:
        return False
    usage = fields["usage_metadata"]
    return all(map(_is_call, fields["tool_calls"])) and (usage is None or _is_usage(usage))


def _is_call(call: Any) -> bool:
    return (
        type(call) is dict
        and tuple(call) == CALL
        and tuple(map(type, call.values())) in CALL_TYPES
        and call["type"] == "tool_call"
        and {str}.issuperset(map(type, call["args"]))
    )


def _is_usage(usage: dict[str, Any]) -> bool:
    details = [name for name in DETAILS if name in usage]
    if tuple(usage) != (*TOTALS, *details) or not {int}.issuperset(type(usage[name]) for name in TOTALS):
        return False
    return all(_is_count(usage[name], DETAILS[name]) for name in details)


def _is_count(found: Any, names: tuple[str, ...]) -> bool:
    in_order = type(found) is dict and list(found) == [name for name in names if name in found]
    return in_order and {int}.issuperset(map(type, found.values()))
