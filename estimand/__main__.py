"""`python -m estimand` is the same as `estimand`."""

from __future__ import annotations

from estimand.cli.main import main

if __name__ == "__main__":
    main()
