"""One block of steps after another.

To be read in this order:

- `running/loop.py`   the loop of a training: blocks, looks of hooks, checkpoints, the end;
- `tracing/`          from a model function to a graph;
- `variables/`        what all traces of a model share, found by name;
- `rewriting/`        steps as messages: cut out of the graph, made smaller, placed elsewhere;
- `running/`          how the steps of that graph are run, in which ways, and what each may run;
- `feeding/`          batches on their way into a step, and where the input stands;
- `hook_calls/`       when hooks are called, and what they see;
- `checkpoints/`      the files; `saving/` joins them with a model, `warm_start/` with another's;
- `eager/`            the same without a graph;
- `distributed/`      the same on several devices and processes, on top of all others, which ask
                      their `Distribution` (`distribution.py`).

Each imports from below itself only, in the order of the layers contract in `pyproject.toml`.
Nothing here knows of heads, canned models, exports or servers: they are built on it.
"""
