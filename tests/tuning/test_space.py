"""What is searched, as it can be written."""

from __future__ import annotations

import pytest

import estimand as est
from estimand.tuning.space import Space, parse


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("16,32,64", [16, 32, 64]),
        ("relu,tanh", ["relu", "tanh"]),
        ("0.1, 1e-3", [0.1, 0.001]),
        ("true,null", [True, None]),
        ("[8],[16, 8]", [[8], [16, 8]]),
        ("adam", ["adam"]),
    ],
)
def test_values(text: str, values: list[object]) -> None:
    assert parse("x", text) == values


@pytest.mark.extras
class TestWithOptuna:
    @pytest.fixture(autouse=True)
    def optuna(self):
        return pytest.importorskip("optuna")

    def test_ranges(self, optuna) -> None:
        kinds = optuna.distributions
        assert parse("x", "16..256") == kinds.IntDistribution(16, 256)
        assert parse("x", "log:16..256") == kinds.IntDistribution(16, 256, log=True)
        assert parse("x", "0..0.5") == kinds.FloatDistribution(0.0, 0.5)
        assert parse("x", "log:1e-4..1e-1") == kinds.FloatDistribution(1e-4, 1e-1, log=True)
        assert parse("x", "-1..-0.5") == kinds.FloatDistribution(-1, -0.5)

    def test_lists_come_back_as_lists(self) -> None:
        space = Space.of({"units": [[8], [16, 8]], "rate": "0.1..0.2"})
        assert space.distributions["units"].choices == ("[8]", "[16, 8]")
        assert space.values({"units": "[16, 8]", "rate": 0.1}) == {"units": [16, 8], "rate": 0.1}

    def test_grid_counts_values_and_refuses_ranges_of_numbers(self) -> None:
        assert Space.of({"a": [1, 2, 3], "b": "1..2"}).grid_size() == 6
        with pytest.raises(est.errors.ConfigError, match=r"'rate' is a range.*list them"):
            Space.of({"rate": "0.1..0.2"}).grid()

    def test_mistakes_are_told(self) -> None:
        with pytest.raises(est.errors.ConfigError, match=r"range '5\.\.1' of 'x' cannot be used"):
            Space.of({"x": "5..1"})
        with pytest.raises(est.errors.ConfigError, match="'x' is to be searched in 3"):
            Space.of({"x": 3})
        with pytest.raises(est.errors.ConfigError, match="nothing to search"):
            Space.of({})
