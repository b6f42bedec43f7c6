from __future__ import annotations

import pickle

import pytest

from estimand.core import errors
from estimand.core.modes import ModeKeys


def test_modes_are_the_plain_strings_of_old():
    assert (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT) == ("train", "eval", "infer")


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.ConfigError, ValueError),
        (errors.SpecError, ValueError),
        (errors.SpecTypeError, TypeError),
        (errors.InputError, ValueError),
        (errors.ModelFnError, ValueError),
        (errors.HeadError, ValueError),
        (errors.HeadTypeError, TypeError),
        (errors.CheckpointError, ValueError),
        (errors.NoCheckpointError, errors.CheckpointError),
        (errors.CheckpointWriteError, OSError),
        (errors.ModelDirBusyError, RuntimeError),
        (errors.WarmStartError, ValueError),
        (errors.MissingExtraError, ImportError),
    ],
)
def test_every_error_is_ours_and_what_old_code_catches(error, builtin):
    assert issubclass(error, errors.EstimandError)
    assert issubclass(error, builtin)


def test_missing_extra_names_the_pip_command():
    error = errors.MissingExtraError("Serving", "serve", "grpcio")
    assert "pip install 'estimand[serve]'" in str(error)
    assert error.name == "grpcio"


def test_missing_extra_survives_pickling():
    error = pickle.loads(pickle.dumps(errors.MissingExtraError("Serving", "serve", "grpcio")))
    assert str(error) == str(errors.MissingExtraError("Serving", "serve", "grpcio"))
