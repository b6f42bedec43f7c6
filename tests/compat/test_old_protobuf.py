"""Modules as `protoc` wrote them before protobuf 3.20."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from estimand.compat.old_protobuf import Finder

# The beginning and the end of such a file; in between lie the descriptors, one call for each.
OLD = """
import sys
_b=sys.version_info[0]<3 and (lambda x:x) or (lambda x:x.encode('latin1'))
from google.protobuf.internal import enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from google.protobuf import reflection as _reflection
from google.protobuf import symbol_database as _symbol_database
{imports}

_sym_db = _symbol_database.Default()

DESCRIPTOR = _descriptor.FileDescriptor(
  name='{name}',
  package='estimand.old',
  syntax='proto3',
  serialized_options=None,
  serialized_pb={serialized}
  , dependencies=[])

_COLOR = _descriptor.EnumDescriptor(name='Color', full_name='estimand.old.Color')
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    finder, before = Finder(), set(sys.modules)
    sys.path.insert(0, str(tmp_path))
    finder.put_in()
    importlib.invalidate_caches()
    yield tmp_path
    finder.take_out()
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        sys.modules.pop(name)


def write(folder: Path, file: Any, imports: str = "", *, python2: bool = False) -> str:
    data = file.SerializeToString()
    serialized = f"_b({data.decode('latin1')!r})" if python2 else repr(data)
    text = OLD.format(name=file.name, serialized=serialized, imports=imports)
    name = file.name.replace(".proto", "_pb2")
    (folder / f"{name}.py").write_text(text)
    return name


def colors(name: str) -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{name}.proto", package=f"estimand.{name}", syntax="proto3"
    )
    enum = file.enum_type.add(name="Color")
    enum.value.add(name="RED", number=0)
    enum.value.add(name="BLUE", number=1)
    field = file.message_type.add(name="Box").field.add(name="color", number=1, label=1, type=14)
    field.type_name = f".estimand.{name}.Color"
    return file


def test_a_module_of_old_has_its_messages_and_enums(folder: Path) -> None:
    module = importlib.import_module(write(folder, colors("first")))
    box = module.Box(color=module.BLUE)
    assert module.Color.Name(box.color) == "BLUE"
    assert module.Box.FromString(box.SerializeToString()) == box
    assert module.DESCRIPTOR.package == "estimand.first"
    assert module.Box.__module__ == "first_pb2"


def test_a_module_that_needs_another(folder: Path) -> None:
    write(folder, colors("second"), python2=True)
    file = descriptor_pb2.FileDescriptorProto(
        name="shelf.proto", package="estimand.old", syntax="proto3", dependency=["second.proto"]
    )
    field = file.message_type.add(name="Shelf").field.add(name="boxes", number=1, label=3, type=11)
    field.type_name = ".estimand.second.Box"
    module = importlib.import_module(write(folder, file, "import second_pb2 as second__pb2"))
    shelf = module.Shelf()
    shelf.boxes.add(color=1)
    assert len(module.Shelf.FromString(shelf.SerializeToString()).boxes) == 1


def test_other_modules_are_left_to_python(folder: Path) -> None:
    (folder / "plain_pb2.py").write_text("VALUE = 3")
    assert importlib.import_module("plain_pb2").VALUE == 3
    assert Finder().find_spec("estimand") is None
