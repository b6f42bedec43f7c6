"""A file per command of `estimand`; what several of them share is one folder up."""
