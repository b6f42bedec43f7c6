"""One block of steps after another.

To be read in this order:

- `running/loop.py`   the loop of a training: blocks, looks of hooks, checkpoints, the end;
- `tracing/`          from a model function to a graph and its variables;
- `running/`          how the steps of that graph are run, in which ways, and what each may run;
- `feeding/`          batches on their way into a step, and where the input stands;
- `hook_calls/`       when hooks are called, and what they see;
- `checkpoints/`, `warm_start/`  what is saved, read back and kept;
- `eager/`            the same without a graph;
- `distributed/`      the same on several devices and processes, on top of all others, which ask
                      their `Distribution` (`distribution.py`).

Nothing here knows of heads, canned models, exports or servers: they are built on it.
"""
