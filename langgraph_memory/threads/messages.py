"""Messages as they are stored: apart from their ids, so that the same text under two ids is there once."""

from __future__ import annotations

from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from .moulds import CLASSES


class Key(NamedTuple):
    """What identifies a message of a thread: the digest of its bytes without the id, and the id."""

    digest: bytes
    id: str | None
    """None where the id is part of the bytes, or where there is none."""


def is_messages(value: Any) -> bool:
    """Whether `value` is a list of nothing but messages, at least one."""
    return type(value) is list and bool(value) and all(issubclass(kind, BaseMessage) for kind in set(map(type, value)))


def split(message: BaseMessage) -> tuple[BaseMessage, str | None]:
    """The message without its id, and the id, if it can be put back by `joined`."""
    if type(message) not in CLASSES or type(message.id) is not str or not _writable(message.id):
        return message, None
    return message.model_copy(update={"id": None}), message.id


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def joined(message: Any, message_id: str | None) -> Any:
    """`message`, given the id it was split from."""
    # A class that is not allowed to be built, or is gone, comes back as its fields, or as what it was built from.
    fields = message.__dict__ if isinstance(message, BaseMessage) else message
    if message_id is not None and isinstance(fields, dict):
        fields["id"] = message_id
    return message
