"""What the functions of this package check of what they are given."""

from __future__ import annotations

from collections.abc import Collection

from estimand.core.errors import InputError


def check_formats(called: str, known: Collection[str], **formats: str | None) -> None:
    for name, chosen in formats.items():
        if chosen not in (None, *known):
            raise InputError(
                f"{called}: {name} must be one of {', '.join(sorted(known))}, given: {chosen!r}."
            )


def check_numbers(called: str, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise InputError(f"{called}: {name} must be at least 1, given: {number!r}.")
