"""These files are programs, not tests: they are run by tests, in processes of their own."""

collect_ignore_glob = ["[!c]*.py", "c[!o]*.py"]
