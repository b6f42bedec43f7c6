"""Makes variables: in this process and of one copy, unless a strategy wants them otherwise."""

from __future__ import annotations

import contextlib
from typing import Any

from estimand.engine.variables.engine_variable import EngineVariable


class VariableMaker:
    """Makes the variables of one store."""

    # Whether they are on another device than functions run on by default.
    are_remote = False
    # Whether they are on servers, where workers change them without waiting for each other.
    are_on_servers = False

    def make(self, *, is_local: bool, asynchronous: bool, **arguments: Any) -> Any:
        """A variable, called in eager mode; an `is_local` one belongs to one trace.

        `asynchronous`: of a step that runs elsewhere, whenever it likes.
        """
        del is_local, asynchronous
        return EngineVariable(**arguments)

    def beside(
        self, name: str, shape: Any, *, is_local: bool, asynchronous: bool
    ) -> contextlib.AbstractContextManager[Any]:
        """Around the computation of a variable's first value: it is done where that will be."""
        del name, shape, is_local, asynchronous
        return contextlib.nullcontext()

    def of_keras(self, keras_variable: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """`arguments` of a variable that a Keras layer makes and does not train."""
        del keras_variable
        return arguments

    def partitioning(self) -> contextlib.AbstractContextManager[None]:
        """Around a model function: its variables are split, if that is wanted."""
        return contextlib.nullcontext()
