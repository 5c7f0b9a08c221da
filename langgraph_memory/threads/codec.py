"""Bytes: what a value is stored as, and what identifies it.

A `Codec` wraps the saver's serializer. Values are told apart by a digest of what the serializer makes of them; where it
encrypts, by a keyed digest of the plain bytes, because the same text encrypts differently every time. Bytes are sealed
on their way to the file and only there.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ..errors import DamagedDatabaseError, LangGraphMemoryError, UnstorableError
from ..logs import outline
from . import usual
from .moulds import Mould
from .odd import complaint, escaped, has_lone, unescaped

FORMAT = "lgm1"
"""The type of rows in our form. A plain saver refuses rows of a type it does not know."""
DIGEST_BYTES = 20
LONE = "lone:"

COMMON = (
    b"\x00\x00\x00branch:to:model\xc0branch:to:agent\xc0branch:to:tools\xc0null__pregel_tasks__error____interrupt__"
    b"__input____root__pending_sendscontextmemory_recordtodosfilesremaining_steps\xb2structured_response"
    b"\x85\xa1v\x04\xa2ts\xd9 2026-01-01T00:00:00.000000+00:00\xb0channel_versions\x83\xa9__start__\xd93"
    b"00000000000000000000000000000002.0.\xa8messages\xd93\xafbranch:to:model\xd93\xadversions_seen\x83"
    b"\xa9__input__\x80\xa9__start__\x81\xa9__start__\xd93000000000000000000000000000000001.0.\xa5model\x81"
    b"\xafbranch:to:model\xb0updated_channels\x92\xafbranch:to:model\xa8messages\x93\xa7msgpack\xc4\x01\xa8messages\x93"
)
"""What most checkpoints have in common. Part of the format: it never changes."""


class Item(NamedTuple):
    """A value as bytes, not sealed yet."""

    digest: bytes
    type: str
    data: bytes


class Codec:
    """Turns values into bytes and back. Holds nothing but the serializer and the key of the digests."""

    def __init__(self, serde: SerializerProtocol, key: bytes = b"") -> None:
        self.serde, self.key = serde, key
        self.encrypts = isinstance(serde, EncryptedSerializer)
        self._plain = serde.serde if isinstance(serde, EncryptedSerializer) else serde
        self._is_known = usual.is_known(serde)
        self._replaces = isinstance(self._plain, JsonPlusSerializer)
        self._walks = usual.is_known(self._plain)

    def dump(self, value: Any) -> tuple[str, bytes]:
        """Type and plain bytes of `value`. Raises `UnstorableError` where it cannot be stored as it is."""
        try:
            dumped = self._plain.dumps_typed(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            if not has_lone(value):
                raise UnstorableError(_unstorable(value, str(error))) from error
        else:
            # LangGraph's serializer puts a question mark for what it cannot write.
            if (self._replaces and b"?" not in dumped[1]) or not has_lone(value):
                return dumped
        return self._dump_escaped(value)

    def _dump_escaped(self, value: Any) -> tuple[str, bytes]:
        try:
            copy = escaped(value)
            if has_lone(copy):
                raise UnstorableError(_unstorable(copy, ""))
            type_, data = self._plain.dumps_typed(copy)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UnstorableError(_unstorable(value, str(error))) from error
        return LONE + type_, data

    def item(self, value: Any) -> Item:
        return self.identified(*self.dump(value))

    def identified(self, type_: str, data: bytes) -> Item:
        digest = hashlib.blake2b(data, digest_size=DIGEST_BYTES, key=self.key)
        digest.update(type_.encode())
        return Item(digest.digest(), type_, data)

    def load(self, type_: str, data: bytes) -> Any:
        """The value of stored bytes, a new object every time. Raises `DamagedDatabaseError`."""
        return self._read(self._loaded, type_, data)

    def _loaded(self, type_: str, data: bytes) -> Any:
        if type_.startswith(LONE):
            return unescaped(self.serde.loads_typed((type_.removeprefix(LONE), data)))
        return self.serde.loads_typed((type_, data))

    def look(self, type_: str, data: bytes) -> Any:
        """What `load` gives, and raises, but with None for the objects that LangGraph's serializer would build."""
        return self._read(self._looked, type_, data)

    def _looked(self, type_: str, data: bytes) -> Any:
        plain, content = self.unseal(type_.removeprefix(LONE), data)
        if self._walks and plain == "msgpack":
            return _walked(content)
        if not isinstance(content, bytes | str):
            raise TypeError(content)
        return self._plain.loads_typed((plain, content))

    def _read(self, read: Callable[[str, bytes], Any], type_: str, data: bytes) -> Any:
        """What `read` makes of bytes; whatever a serializer, a cipher or a class of the user's raises is told."""
        try:
            return read(type_, data)
        except LangGraphMemoryError:
            raise
        except Exception as error:
            raise self._unreadable(type_, error) from error

    def _unreadable(self, type_: str, error: Exception) -> Exception:
        """The error for bytes that could not be read."""
        if isinstance(type_, str) and "+" in type_ and not self.encrypts:
            return NotImplementedError(_sealed(type_))
        return DamagedDatabaseError(f"A value of type {type_!r} cannot be read: {outline(error)}.")

    def usual(self, type_: str, data: bytes) -> Mould | None:
        """The mould of a stored message, if it is known without the serializer."""
        return usual.read(type_, data) if self._is_known else None

    def seal(self, type_: str, data: bytes) -> tuple[str, bytes]:
        if not isinstance(self.serde, EncryptedSerializer):
            return type_, data
        cipher, sealed = self.serde.cipher.encrypt(data)
        return f"{type_}+{cipher}", sealed

    def unseal(self, type_: str, data: bytes) -> tuple[str, bytes]:
        plain, _, cipher = type_.partition("+")
        if not cipher:
            return type_, data
        if not isinstance(self.serde, EncryptedSerializer):
            raise NotImplementedError(_sealed(type_))
        return plain, self.serde.cipher.decrypt(cipher, data)

    def pack(self, frame: Any) -> tuple[str, bytes]:
        """A row in our form, from lists, dicts, texts, numbers and bytes."""
        squeezed = zlib.compressobj(6, wbits=-15, zdict=COMMON)
        return self.seal(FORMAT, squeezed.compress(ormsgpack.packb(frame)) + squeezed.flush())

    def unpack(self, type_: str, data: bytes) -> Any:
        """What `pack` made a row of. Raises `DamagedDatabaseError`."""
        return self._read(self._unpacked, type_, data)

    def _unpacked(self, type_: str, data: bytes) -> Any:
        _, squeezed = self.unseal(type_, data)
        return ormsgpack.unpackb(inflated(squeezed))


def inflated(squeezed: bytes) -> bytes:
    """What `Codec.pack` had before it squeezed and sealed it. Raises `DamagedDatabaseError`."""
    unpacking = zlib.decompressobj(wbits=-15, zdict=COMMON)
    try:
        whole = unpacking.decompress(squeezed)
    except (zlib.error, TypeError) as error:
        raise DamagedDatabaseError(f"A packed value cannot be unpacked: {outline(error)}.") from error
    if not unpacking.eof or unpacking.unused_data:
        raise DamagedDatabaseError("A packed value is cut off, or goes on behind its end.")
    return whole


def _walked(data: bytes) -> Any:
    """What msgpack holds, with None for objects, whose bytes are looked at too. Raises `ValueError`."""
    return ormsgpack.unpackb(data, ext_hook=_no_object, option=ormsgpack.OPT_NON_STR_KEYS)


def _no_object(_: int, data: bytes) -> None:
    _walked(data)


def _sealed(type_: str) -> str:
    return f"Rows of type {type_!r} are encrypted; open the file with an EncryptedSerializer."


def is_ours(type_: str | None) -> bool:
    return isinstance(type_, str) and type_.partition("+")[0] == FORMAT


def _unstorable(value: Any, reason: str) -> str:
    name = type(value).__name__
    return f"A {name} cannot be stored: {complaint(value) or reason}. Nothing was written."
