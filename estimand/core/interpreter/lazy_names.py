"""Public names of a package that are imported when they are used.

The package lists them for editors and type checkers, too, in an `if TYPE_CHECKING:` block, whose
`else` is what is made here: to them a module with `__getattr__` has every name, typos included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names live in these modules.

    >>> get, names = lazy_names("shapes", {"sqrt": "math", "Path": "pathlib"})
    >>> get("sqrt")(9.0), names()
    (3.0, ['Path', 'sqrt'])
    >>> get("sqr")
    Traceback (most recent call last):
        ...
    AttributeError: shapes has no public name 'sqr'; it has: Path, sqrt.
    """

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(
                f"{package} has no public name {name!r}; it has: {', '.join(sorted(homes))}."
            )
        return getattr(import_module(homes[name]), name)

    return get, lambda: sorted(homes)
