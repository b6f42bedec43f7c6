"""How far a run has come, told while it runs: to a terminal, a notebook or a log."""
