"""Trying a version where it can do no harm.

A SavedModel is a program. One that ends its process, takes all memory or never returns would take
every other model of the server with it; so each version is first loaded, warmed up and asked in a
process that serves nobody. `prober` asks for that, `host` is the process that such probes are
forked from, `trial` is what a probe does, `verdicts` remembers how it went.
"""
