"""One call of `Estimator.train`: where it begins, what is made ready, and the run itself.

`train` is the page to read first. A run is made ready in one of three ways, in this process, with
parameter servers or eagerly, each of which gives a `Prepared`; `run` takes any of them.
"""
