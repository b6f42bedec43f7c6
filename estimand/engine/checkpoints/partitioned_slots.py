"""Slots of partitioned variables in checkpoints of `tf.compat.v1`.

A variable in three parts was saved under its one name, in three slices, and reads as a whole. The
slots of its parts have names of their own (`w/part_0/Ftrl`, `w/part_1/Ftrl`, ...): each is told to
be as large as the variable, and holds but the slice of its part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# Linear models called the parts part_0, part_1, ...; deep ones t_0, t_1, ...
_FIRST_PART = re.compile(r"^(?P<variable>.+)/(?P<part>t|part)_0/(?P<slot>[^/]+)$")


def parts_of(name: str, shapes: Mapping[str, Sequence[int]]) -> list[tuple[str, str]]:
    """What to read for the whole of the slot whose first part is `name`: (key, slice) of each.

    Empty if `name` is whole. `shapes` is what the checkpoint holds. Rows were divided evenly; of
    those left over, the first parts got one each.

    >>> keys = ("w", "w/part_0/Ftrl", "w/part_1/Ftrl", "w/part_2/Ftrl")
    >>> for part in parts_of("w/part_0/Ftrl", dict.fromkeys(keys, [8, 2])):
    ...     print(part)
    ('w/part_0/Ftrl', '8 2 0,3:0,2')
    ('w/part_1/Ftrl', '8 2 3,3:0,2')
    ('w/part_2/Ftrl', '8 2 6,2:0,2')
    """
    keys = _keys_of_parts(name, shapes)
    if len(keys) < 2:
        return []
    rows, *others = shapes[name]
    each, left_over = divmod(rows, len(keys))
    whole = " ".join(map(str, shapes[name]))
    parts, start = [], 0
    for number, key in enumerate(keys):
        size = each + (number < left_over)
        ranges = [f"{start},{size}", *(f"0,{length}" for length in others)]
        parts.append((key, f"{whole} {':'.join(ranges)}"))
        start += size
    return parts


def further_parts(shapes: Mapping[str, Sequence[int]]) -> set[str]:
    """The keys that only continue another one.

    >>> further_parts({"w": [4], "w/t_0/Adagrad": [4], "w/t_1/Adagrad": [4]})
    {'w/t_1/Adagrad'}
    """
    return {key for name in shapes for key in _keys_of_parts(name, shapes)[1:]}


def _keys_of_parts(name: str, shapes: Mapping[str, Sequence[int]]) -> list[str]:
    match = _FIRST_PART.match(name)
    if match is None or not shapes.get(name):
        return []
    variable, part, slot = match["variable"], match["part"], match["slot"]
    shape, keys = list(shapes[name]), [name]
    # Only slots have a name below that of a variable: others may be called part_0 for any reason.
    if list(shapes.get(variable, ())) != shape:
        return []
    while list(shapes.get(key := f"{variable}/{part}_{len(keys)}/{slot}", ())) == shape:
        keys.append(key)
    return keys
