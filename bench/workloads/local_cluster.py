"""Workers and parameter servers on this machine, for a chief that is measured.

All of them share its processors: what is seen is the cost of taking variables from another process,
not what more machines would bring.
"""

from __future__ import annotations

import json
import os
import threading


def start(workers: int = 1, servers: int = 1) -> dict[str, list[int]]:
    """Fork the processes of a cluster, whose chief this one becomes; their ids by role.

    Forked before TensorFlow has made a thread, they need not import it again. They end with this
    process.
    """
    import estimand as est
    from estimand.cluster import servers as roles
    from estimand.cluster.addresses import free_ports

    _ = est.Estimator  # loaded when first used, and here for all of them
    sizes = {"chief": 1, "worker": workers, "ps": servers}
    ports = iter(free_ports(sum(sizes.values())))
    cluster = {role: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for role, n in sizes.items()}

    def become(role: str, index: int) -> None:
        task = {"type": role, "index": index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})

    told, _held_open = os.pipe()
    started: dict[str, list[int]] = {"worker": [], "ps": []}
    for role, processes in started.items():
        for index in range(sizes[role]):
            process = os.fork()
            if process:
                processes.append(process)
                continue
            os.close(_held_open)
            threading.Thread(target=_end_with_parent, args=(told,), daemon=True).start()
            become(role, index)
            roles.serve(est.RunConfig(), timeout=600)
            os._exit(0)
    become("chief", 0)
    return started


def _end_with_parent(told: int) -> None:
    os.read(told, 1)  # which says nothing, and ends when the other process does
    os._exit(0)
