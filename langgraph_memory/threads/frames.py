"""What rows of a thread hold. A row that is not what it should be raises `DamagedDatabaseError`, whatever is in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from ..errors import DamagedDatabaseError
from .codec import Codec
from .values import Form, is_form

logger = logging.getLogger(__name__)


class Frame(NamedTuple):
    """A checkpoint in our form."""

    rest: tuple[str, bytes]
    """Everything but its id and its values."""
    forms: dict[str, Form]


def frame(codec: Codec, type_: str, data: bytes) -> Frame:
    match codec.unpack(type_, data):
        case [str(rest_type), bytes(rest), dict(forms)] if all(map(is_form, forms.values())):
            return Frame((rest_type, rest), forms)
    raise DamagedDatabaseError("What a checkpoint was packed from is no checkpoint.")


def form(codec: Codec, type_: str, data: bytes) -> Form:
    """What a pending write in our form is."""
    found = codec.unpack(type_, data)
    if not is_form(found):
        raise DamagedDatabaseError("What a pending write was packed from is no value.")
    return cast(Form, found)


def fields(codec: Codec, type_: str, data: bytes) -> dict[str, Any]:
    """A checkpoint of the plain saver, or what `Frame.rest` is."""
    return _fields("checkpoint", codec.load(type_, data))


def look(codec: Codec, type_: str, data: bytes) -> None:
    """Raise as `fields` does, without building the objects."""
    _fields("checkpoint", codec.look(type_, data))


def metadata(about: str | bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(about or "{}")
    except (TypeError, ValueError, RecursionError) as error:
        raise DamagedDatabaseError("A checkpoint's metadata cannot be read: they are no JSON.") from error
    return _fields("checkpoint's metadata", found)


def _fields(what: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise DamagedDatabaseError(f"A {what} cannot be of type {type(found).__name__}.")
    return found


@contextmanager
def thread(thread_id: str) -> Iterator[None]:
    """Name the thread in what cannot be read."""
    try:
        yield
    except DamagedDatabaseError as error:
        raise DamagedDatabaseError(f"Thread {thread_id!r}: {error}") from error


@contextmanager
def left_out(what: str = "") -> Iterator[None]:
    """Leave out what cannot be read where somebody looks at everything, with a warning that names it, as `what`."""
    try:
        yield
    except DamagedDatabaseError as error:
        logger.warning("Left out, as it cannot be read: %s", f"{what}: {error}" if what else error)
