"""Which messages belong together: an assistant message with calls and the results that answer them.

Providers refuse a request in which a call has no result, or a result no call. Pairing is decided for each assistant
message by position and id together: a result answers the nearest assistant message before it that asked under its id,
and only if that call is still open. So ids used again in later rounds, parallel calls, results that come late and
results whose call is gone all have one right answer. The empty id of some local servers is an id like any other: its
results answer the calls of the nearest assistant message in order. In Anthropic's form results are blocks of human
messages; such a message answers one assistant message at most, and may say something besides.

What the provider runs or asks for itself is linked by blocks as well: a `server_tool_use` and the result that may stand
in a later assistant message, a request for approval and the answer in a human one. Those stay where they are.

A *unit* is the smallest range of messages that can be cut off without parting such a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

KIND, NOTIFICATION = "lgm_kind", "notification"
"""Where a human message says in its `additional_kwargs` that it is a notification of the program, and how."""
COMPUTER = "computer_call"
"""The type of a block that calls OpenAI's computer tool, and the name of that call, which has none."""
_CALL_BLOCKS = frozenset({"tool_use", "tool_call"})
RESULT = "tool_result"
_OPENING = {
    **dict.fromkeys(["server_tool_use", "server_tool_call", "mcp_tool_use", "mcp_approval_request"], "id"),
    **dict.fromkeys(["apply_patch_call", "tool_search_call", "shell_call", "local_shell_call"], "call_id"),
}
"""Types of blocks that something of the provider's begins with, and where its name stands."""
_CLOSING = {
    "server_tool_result": "tool_call_id",
    "mcp_approval_response": "approval_request_id",
    **dict.fromkeys(
        ["apply_patch_call_output", "tool_search_output", "shell_call_output", "local_shell_call_output"], "call_id"
    ),
}
"""Types of blocks that it ends with; those of Anthropic's server tools all end with `_tool_result`."""
CALL_ITEMS = frozenset({"function_call", "custom_tool_call", COMPUTER})
"""Items of OpenAI's Responses: what answers them names their `call_id`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an assistant message: `id` pairs it with its result; `invalid` calls never ran."""

    id: str | None
    name: str
    invalid: bool = False


@dataclass(slots=True)
class Pairing:
    """The pairs among messages start…, found by `pair`."""

    calls: dict[int, list[Call]] = field(default_factory=dict)
    """Position of an assistant message -> its calls."""
    results: dict[int, list[int]] = field(default_factory=dict)
    """Position of an assistant message -> positions of the results that answer it, in their order."""
    owner: dict[int, tuple[int, Call]] = field(default_factory=dict)
    """Position of a result -> the assistant message and the call it answers."""
    unanswered: dict[int, list[Call]] = field(default_factory=dict)
    """Position of an assistant message -> its calls without a result."""
    orphans: set[int] = field(default_factory=set)
    """Positions of results that answer nothing."""
    strays: dict[int, frozenset[int]] = field(default_factory=dict)
    """Position of a message -> which blocks of its content answer nothing."""
    links: dict[int, int] = field(default_factory=dict)
    """Position of a message -> of the last one that closes what was opened there."""
    opened: dict[str, int] = field(default_factory=dict)
    """Name of what is not closed yet -> position of the message that opened it."""

    def joined(self, later: Pairing) -> Pairing:
        """These pairs and those of the messages behind, which reach over only where a call here is unanswered."""
        return Pairing(
            self.calls | later.calls,
            self.results | later.results,
            self.owner | later.owner,
            later.unanswered,
            self.orphans | later.orphans,
            self.strays | later.strays,
            self.links | later.links,
            later.opened,
        )


Asked = dict[str, tuple[int, list[Call]]]
"""Id of a call -> the newest assistant message that asked under it, and its calls that are still open."""


def calls_of(message: BaseMessage) -> list[Call]:
    """Every call the provider will see in a message: parsed, invalid, raw or only a block of its content."""
    if not isinstance(message, AIMessage):
        return []
    calls = [Call(call["id"], call["name"]) for call in message.tool_calls]
    calls += [Call(call["id"], call["name"] or "", invalid=True) for call in message.invalid_tool_calls]
    known = {call.id for call in calls}
    if not calls:
        raw = message.additional_kwargs.get("tool_calls") or ()
        calls += [Call(call.get("id"), (call.get("function") or {}).get("name", ""), invalid=True) for call in raw]
    if isinstance(message.content, list):
        blocks = [b for b in message.content if isinstance(b, dict) and _calls(b)]
        calls += [call for call in map(_block_call, blocks) if call.id not in known]
    return calls


def _calls(block: dict[str, Any]) -> bool:
    return block.get("type") in _CALL_BLOCKS or bool(block.get("type") in CALL_ITEMS and block.get("call_id"))


def _block_call(block: dict[str, Any]) -> Call:
    """The call of a block; the computer is called in no other way, so such a call is whole."""
    if block["type"] == COMPUTER:
        return Call(block["call_id"], COMPUTER)
    call_id = block["call_id"] if block["type"] in CALL_ITEMS else block.get("id")
    return Call(call_id, block.get("name") or "", invalid=True)


def pair(messages: Sequence[BaseMessage], start: int = 0) -> Pairing:
    """Pair calls and results among messages start…; what stands before `start` does not exist for it."""
    pairing = Pairing()
    asked: Asked = {}
    for position in range(start, len(messages)):
        message = messages[position]
        if isinstance(message, AIMessage):
            if calls := calls_of(message):
                pairing.calls[position], pairing.unanswered[position] = calls, list(calls)
                for call in calls:
                    if call.id is not None and asked.get(call.id, (-1, []))[0] != position:
                        asked[call.id] = position, []
                    if call.id is not None:
                        asked[call.id][1].append(call)
        elif isinstance(message, ToolMessage):
            if not _answer(pairing, asked, position, message.tool_call_id):
                pairing.orphans.add(position)
        elif blocks := result_blocks(message):
            _note_strays(pairing, position, _answer_all(pairing, asked, messages, position, blocks))
        if isinstance(message.content, list):
            _note_strays(pairing, position, _link(pairing, position, message.content))
    pairing.unanswered = {position: calls for position, calls in pairing.unanswered.items() if calls}
    return pairing


def _answer(pairing: Pairing, asked: Asked, position: int, call_id: str) -> bool:
    """Let the message at `position` answer an open call; whether there is one, of the message it answers already."""
    owner, open_calls = asked.get(call_id, (-1, []))
    before = pairing.owner.get(position)
    if not open_calls or (before is not None and before[0] != owner):
        return False
    call = open_calls.pop(0)
    pairing.unanswered[owner].remove(call)
    pairing.owner[position] = owner, call
    if before is None:
        pairing.results.setdefault(owner, []).append(position)
    return True


def _answer_all(
    pairing: Pairing, asked: Asked, messages: Sequence[BaseMessage], position: int, blocks: dict[int, str]
) -> frozenset[int]:
    """As `_answer`, for the result blocks of a human message; those that answer nothing.

    No result may stand behind what a person says, so who said something besides results was the last to answer so.
    """

    def answered(call_id: str) -> bool:
        owner = asked.get(call_id, (-1, []))[0]
        ended = any(says(messages[other]) for other in pairing.results.get(owner, ()) if other != position)
        return not ended and _answer(pairing, asked, position, call_id)

    return frozenset(at for at, call_id in blocks.items() if not answered(call_id))


def _link(pairing: Pairing, position: int, content: Sequence[Any]) -> frozenset[int]:
    """Note what the blocks of a message open and close; the ones that close nothing."""
    strays = set()
    for at, block in enumerate(content):
        if (name := _named(block, _OPENING)) is not None:
            pairing.opened[name] = position
        elif (name := _named(block, _CLOSING)) is not None:
            start = pairing.opened.pop(name, None)
            if start is None:
                strays.add(at)
            elif start < position:
                pairing.links[start] = position
    return frozenset(strays)


def _named(block: Any, types: Mapping[str, str]) -> str | None:
    """The name that a block of one of these types bears, if it is one."""
    if not isinstance(block, dict):
        return None
    kind = str(block.get("type"))
    key = types.get(kind)
    if key is None and types is _CLOSING and kind.endswith("_tool_result"):
        key = "tool_use_id"
    return str(block[key]) if key is not None and block.get(key) else None


def _note_strays(pairing: Pairing, position: int, strays: frozenset[int]) -> None:
    if strays:
        pairing.strays[position] = pairing.strays.get(position, frozenset()) | strays


def result_blocks(message: BaseMessage) -> dict[int, str]:
    """Which blocks of a human message are results of tools -> the ids of the calls they answer."""
    content: Any = message.content
    if not isinstance(message, HumanMessage) or isinstance(content, str):
        return {}
    return {at: str(block.get("tool_use_id")) for at, block in enumerate(content) if is_result(block)}


def is_result(block: Any) -> bool:
    """Whether a content block is a result in Anthropic's form."""
    return isinstance(block, dict) and block.get("type") == RESULT


def answers(block: Any) -> bool:
    """Whether a content block of a human message stands there for a program: a result or the end of a link."""
    return is_result(block) or _named(block, _CLOSING) is not None


def says(message: BaseMessage) -> bool:
    """Whether a message is of a person, be it that results of tools stand in it too."""
    return isinstance(message, HumanMessage) and not (message.content and all(map(answers, message.content)))


def brings_results(message: BaseMessage) -> bool:
    """Whether a message holds what tools returned and nothing else."""
    return isinstance(message, ToolMessage) or (isinstance(message, HumanMessage) and not says(message))


def is_closable(calls: Sequence[Call]) -> bool:
    """Whether every call can be paired with a result; a message with another one cannot be sent."""
    return all(call.id is not None and call.name for call in calls)


def units(messages: Sequence[BaseMessage], pairing: Pairing, start: int = 0) -> list[tuple[int, int]]:
    """Ranges (first, end) that cover messages start… and part no pair, oldest first."""
    ranges: list[tuple[int, int]] = []
    first = start
    while first < len(messages):
        position, end = first, first + 1
        while position < end:
            results = pairing.results.get(position)
            end = max(end, results[-1] + 1) if results else end
            end = max(end, pairing.links.get(position, -1) + 1)
            position += 1
        while end < len(messages) and end in pairing.orphans:
            end += 1
        ranges.append((first, end))
        first = end
    return ranges


def request_run(messages: Sequence[BaseMessage], end: int | None = None) -> tuple[int, int]:
    """The run (first, end) of human messages that opened the turn which messages[end - 1] belongs to.

    A notification of the program opens no turn. Empty (0, 0) where no other human message stands before `end`.
    """
    last = (len(messages) if end is None else end) - 1
    while last >= 0 and not (isinstance(messages[last], HumanMessage) and _asks(messages[last])):
        last -= 1
    first = last
    while first > 0 and says(messages[first - 1]):
        first -= 1
    return (first, last + 1) if last >= 0 else (0, 0)


def _asks(message: BaseMessage) -> bool:
    return says(message) and message.additional_kwargs.get(KIND) != NOTIFICATION
