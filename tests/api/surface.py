"""The public surface as text: names, signatures, fields, events and configuration keys.

    python -m tests.api.surface > tests/api/surface.txt

Programs may rely on any of it, so it changes on purpose only. Texts are as they are written in the code, so that they
are the same under every version of Python.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args

from pydantic import BaseModel

import langgraph_memory
from langgraph_memory import MemoryEvent, RuntimeConfig
from langgraph_memory.config import Allowed
from langgraph_memory.events import DATA, EventName
from langgraph_memory.longterm import index
from langgraph_memory.threads import shapes, verify
from langgraph_memory.tracing import OpenTelemetryEvents

RESULTS = (shapes.ThreadRow, shapes.Node, shapes.Hit, verify.ThreadStats, verify.VerifyReport, index.Hit)
"""What public methods return."""


def surface() -> Iterator[str]:
    """The lines of the surface."""
    yield "# langgraph_memory"
    for name in langgraph_memory.__all__:
        yield from _of(name, getattr(langgraph_memory, name))
    yield from ("", "# langgraph_memory.tracing")
    yield from _of("OpenTelemetryEvents", OpenTelemetryEvents)
    yield from ("", "# results")
    for result in RESULTS:
        yield from _of(f"{result.__module__.removeprefix('langgraph_memory.')}.{result.__name__}", result)
    yield from ("", "# events", *(f"{name} {' '.join(DATA.get(name, ()))}".strip() for name in get_args(EventName)))
    yield from map("event as JSON: {}".format, MemoryEvent("pruned", None).to_json())
    yield from ("", "# runtime.json", *_keys(RuntimeConfig, ""))


def _of(name: str, value: Any) -> Iterator[str]:
    yield ""
    if not inspect.isclass(value):
        yield f"def {name}{_signature(value)}"
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases})"
    yield from map("    {}".format, sorted(set(_members(value)), key=_by_name))


def _by_name(line: str) -> str:
    return line.removeprefix("async ").removeprefix("def ").removeprefix("classmethod ")


def _members(value: type) -> Iterator[str]:
    """Whatever is public in a class and in those bases that are ours."""
    if issubclass(value, BaseModel):
        own = {name: member for name, member in vars(value).items() if isinstance(member, classmethod)}
        yield from _described(value, own)
        return
    if is_dataclass(value):
        yield from (f"{_field(one)}" for one in fields(value))
    ours = [base for base in value.__mro__ if base.__module__.startswith("langgraph_memory")]
    made = next((vars(base)["__init__"] for base in ours if "__init__" in vars(base)), None)
    if made is not None and not is_dataclass(value):
        yield f"__init__{_signature(made)}"
    for base in ours:
        yield from _described(base, dict(vars(base)))


def _described(base: type, members: dict[str, Any]) -> Iterator[str]:
    named = {one.name for one in fields(base)} if is_dataclass(base) else set()
    for name, member in members.items():
        if name in named or (name.startswith("_") and name not in ("__call__", "__aenter__", "__enter__")):
            continue
        if isinstance(member, property):
            yield f"{name}: {inspect.get_annotations(member.fget).get('return') if member.fget else None} (property)"
        elif isinstance(member, classmethod | staticmethod):
            yield f"{type(member).__name__} {name}{_signature(member.__func__)}"
        elif inspect.isfunction(member):
            kind = "async def" if _is_async(member) else "def"
            yield f"{kind} {name}{_signature(member)}"
    if not is_dataclass(base) and not issubclass(base, BaseModel):
        yield from (f"{name}: {kind}" for name, kind in _annotated(base).items())
        yield from (f"{name} (attribute)" for name in _assigned(base))


def _is_async(member: Any) -> bool:
    return inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)


class _Text:
    """Something that a signature shows as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


SIMPLE = (int, float, str, bool, tuple, type(None))


def _signature(function: Any) -> str:
    """Annotations are texts, whatever they would be evaluated to; defaults that are no plain values are dots."""
    signature = inspect.signature(function)
    shown = [
        one.replace(annotation=_noted(one.annotation), default=_default(one.default))
        for one in signature.parameters.values()
    ]
    return str(signature.replace(parameters=shown, return_annotation=_noted(signature.return_annotation)))


def _noted(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Text(text.strip("'"))


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty:
        return value
    return _Text(repr(value) if isinstance(value, SIMPLE) else "…")


def _field(one: Field[Any]) -> str:
    default = "" if one.default is MISSING else f" = {one.default!r}"
    return f"{one.name}: {one.type}{default if one.default_factory is MISSING else ' = …'}"


def _annotated(base: type) -> dict[str, Any]:
    found = inspect.get_annotations(base).items()
    return {name: getattr(kind, "__forward_arg__", kind) for name, kind in found if not name.startswith("_")}


def _assigned(base: type) -> Iterator[str]:
    """Public attributes that `__init__` sets."""
    if "__init__" not in vars(base) or is_dataclass(base):
        return
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(vars(base)["__init__"])))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not node.attr.startswith("_"):
            yield node.attr


def _keys(section: type[BaseModel], path: str) -> Iterator[str]:
    """The keys of a section of `runtime.json`, what each allows and its default."""
    for name, field in section.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            yield from _keys(type(default), f"{path}{name}.")
        else:
            allowed = next(one.text for one in field.metadata if isinstance(one, Allowed))
            yield f"{path}{name} = {default!r} ({allowed})"


if __name__ == "__main__":
    print("\n".join(surface()))
