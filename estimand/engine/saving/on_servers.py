"""Checkpoints of variables on parameter servers: written and read there, a part at a time.

A table in parts may be larger than the memory of any one process. So each server writes its parts
into files of its own, which become files of the checkpoint as they are, and reads them back; the
values never come to the chief. That needs a `model_dir` which the servers see. Where they do not,
the chief writes and reads for them, one part after the other.
"""

from __future__ import annotations

import collections
import concurrent.futures
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.files.atomic_files import remove_quietly, temporary_path
from estimand.core.tf_private import eager_mode
from estimand.engine.checkpoints import slices
from estimand.engine.checkpoints.publishing import Entry
from estimand.engine.variables.placement import on_server

_HERE = "/device:CPU:0"
# Of several variables in one file. A variable that was ever changed by rows is copied when it is
# read, so this is what a server needs to write it.
_MOST_BYTES_OF_A_FILE = 16 * 2**20

ToEntry = Callable[[tf.Tensor], Entry]


def shared_by(directory: str, devices: Sequence[str]) -> bool:
    """Whether the processes of these devices see a directory of this one, and may write to it."""
    question = temporary_path(os.path.abspath(directory), "question")
    token = secrets.token_hex(8)
    answers = [f"{question}-{number}" for number in range(len(devices))]
    try:
        with open(question, "w") as file:
            file.write(token)
        for device, answer in zip(devices, answers, strict=True):
            with eager_mode(), tf.device(device):
                if tf.raw_ops.ReadFile(filename=question).numpy() != token.encode():
                    return False
                tf.raw_ops.WriteFile(filename=answer, contents=token)
        return all(os.path.exists(answer) for answer in answers)
    except (OSError, tf.errors.OpError):
        return False
    finally:
        for path in (question, *answers):
            remove_quietly(path)


def write(prefix: str, variables: Sequence[tuple[Any, ToEntry]], *, shared: bool) -> list[str]:
    """Write the variables, given with what makes them entries, into bundles; their prefixes.

    All servers write at the same time, each a large variable after the other.
    """
    by_server = collections.defaultdict(list)
    for variable, to_entry in variables:
        by_server[variable.device].append((variable, to_entry))

    def of_server(number: int, device: str) -> list[str]:
        prefixes = []
        for count, group in enumerate(_files(by_server[device])):
            prefixes.append(f"{prefix}-server{number}-{count}")
            with eager_mode(), tf.device(device if shared else _HERE):
                _save(prefixes[-1], group)
        return prefixes

    servers = sorted(by_server)
    with concurrent.futures.ThreadPoolExecutor(len(servers) if shared else 1) as pool:
        return [p for of_one in pool.map(of_server, range(len(servers)), servers) for p in of_one]


def _files(variables: Sequence[tuple[Any, ToEntry]]) -> list[list[tuple[Any, ToEntry]]]:
    """What goes into one file together."""
    files: list[list[tuple[Any, ToEntry]]] = [[]]
    room = _MOST_BYTES_OF_A_FILE
    for variable, to_entry in sorted(variables, key=lambda pair: _bytes(pair[0])):
        size = _bytes(variable)
        if files[-1] and size > room:
            files.append([])
            room = _MOST_BYTES_OF_A_FILE
        files[-1].append((variable, to_entry))
        room -= size
    return files


def _save(prefix: str, variables: Sequence[tuple[Any, ToEntry]]) -> None:
    entries = []
    for variable, to_entry in variables:
        entries += _slices(to_entry(variable.read_value()))
    entries.sort(key=lambda entry: (entry.name, entry.slice_spec))
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[entry.name for entry in entries],
        shape_and_slices=[entry.slice_spec for entry in entries],
        tensors=[entry.tensor for entry in entries],
    )


def _slices(entry: Entry) -> list[Entry]:
    """A large entry as several slices of the same variable."""
    own = entry.tensor.shape.as_list()
    rows = slices.row_slices(own, entry.tensor.dtype, slices.MOST_BYTES)
    if len(rows) == 1:
        return [entry]
    shape, first = _place(entry)
    return [
        Entry(
            entry.name,
            entry.tensor[start : start + count],
            slices.spec_of_rows(shape, first + start, count),
        )
        for start, count in rows
    ]


def _place(entry: Entry) -> tuple[list[int], int]:
    """The shape of the whole, and the first row of what an entry has of it."""
    if not entry.slice_spec:
        return entry.tensor.shape.as_list(), 0
    *shape, parts = entry.slice_spec.split()
    first = parts.split(":")[0]
    return [int(size) for size in shape], 0 if first == "-" else int(first.split(",")[0])


def _bytes(variable: tf.Variable) -> int:
    return (variable.shape.num_elements() or 0) * variable.dtype.size


def devices_of(variables: Sequence[Any]) -> list[str]:
    """Of the servers that have variables."""
    return sorted({v.device for v in variables if on_server(v)})


def reading_devices(directory: str, variables: Sequence[Any]) -> Callable[[Any], str]:
    """Where to read the value of a variable in a checkpoint of `directory`; "": with all others."""
    devices = devices_of(variables)
    shared = bool(devices) and shared_by(directory, devices)

    def device_of(variable: tf.Variable) -> str:
        if not on_server(variable):
            return ""
        return variable.device if shared else _HERE

    return device_of
