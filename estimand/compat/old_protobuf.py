"""Protocol buffers that an old `protoc` has compiled: today's protobuf refuses their modules.

Before protobuf 3.20 a `_pb2.py` built each descriptor by a call ("Descriptors cannot be created
directly", says the library since). The same descriptors lie in it as one message, of which today's
modules are made; so it is built in their way, and the calls are left out.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

# What such a file has, and those of today have not.
_OF_OLD = (b"FileDescriptor(", b"serialized_pb=")


class Finder(MetaPathFinder):
    """Finds modules whose name ends with `_pb2`, and has those of old built in today's way."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        if not fullname.endswith("_pb2"):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        loader = spec.loader if spec is not None else None
        if spec is None or not isinstance(loader, SourceFileLoader):
            return None
        source = loader.get_data(loader.path)
        if not all(mark in source for mark in _OF_OLD):
            return None
        spec.loader = _Loader(loader.name, loader.path)
        return spec

    def put_in(self) -> None:
        sys.meta_path.insert(0, self)

    def take_out(self) -> None:
        sys.meta_path.remove(self)


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        from google.protobuf import descriptor_pool
        from google.protobuf.internal import builder

        tree = ast.parse(self.get_data(self.path), self.path)
        serialized = _serialized(tree)
        if serialized is None:  # not as protoc wrote it
            super().exec_module(module)
            return
        names = vars(module)
        imports = ast.Module(list(_imports_of_messages(tree)), [])
        exec(compile(imports, self.path, "exec"), names)
        names["DESCRIPTOR"] = descriptor_pool.Default().AddSerializedFile(serialized)
        builder.BuildMessageAndEnumDescriptors(names["DESCRIPTOR"], names)
        builder.BuildTopDescriptorsAndMessages(names["DESCRIPTOR"], module.__name__, names)


def _serialized(tree: ast.Module) -> bytes | None:
    """The description of the file: bytes, or as of Python 2 a text in `_b(...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "serialized_pb":
            texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            if len(texts) == 1 and isinstance(texts[0], bytes | str):
                return texts[0] if isinstance(texts[0], bytes) else texts[0].encode("latin1")
    return None


def _imports_of_messages(tree: ast.Module) -> Iterator[ast.stmt]:
    """Of files that this one needs; not of the library, whose old modules may be gone."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [alias.name for alias in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.endswith("_pb2") for name in names):
                yield node


finder = Finder()
