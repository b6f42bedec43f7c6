"""A cluster as manifests for Kubernetes: plain Jobs, a JobSet, or Kubeflow's TFJob.

All of them run the same image with the same command. Jobs and JobSets get their `TF_CONFIG` from
here; of the index of a pod only Kubernetes knows, which puts it into the text. For a TFJob its
operator makes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from estimand.cluster.description import ClusterDescription, Task
from estimand.core.errors import ConfigError, MissingExtraError
from estimand.core.tf_config import TaskType

Manifest = dict[str, Any]

_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_LONGEST_NAME = 40  # names of pods are made of it, and may have 63 letters
_APP = "app.kubernetes.io/name"
_ROLE = "estimand/role"
_INDEX = "TASK_INDEX"
_INDEX_ANNOTATION = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_TFJOB_NAMES = {
    TaskType.CHIEF: "Chief",
    TaskType.WORKER: "Worker",
    TaskType.PS: "PS",
    TaskType.EVALUATOR: "Evaluator",
}


@dataclass(frozen=True)
class KubernetesJob:
    """What to run where.

    >>> job = KubernetesJob(ClusterDescription(workers=1), "demo", "image:1", ("python", "a.py"))
    >>> [manifest["kind"] for manifest in manifests(job, "job")]
    ['Service', 'Job', 'Job']
    """

    cluster: ClusterDescription
    name: str
    image: str
    command: tuple[str, ...]
    namespace: str | None = None
    port: int = 2222
    restarts: int = 0
    grace_secs: float = 30.0
    cpu: str | None = None
    memory: str | None = None
    gpus: int = 0
    volumes: tuple[str, ...] = ()  # "claim:/path"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > _LONGEST_NAME:
            raise ConfigError(
                f"The name of a Kubernetes job has small letters, digits and '-', begins with a "
                f"letter and is no longer than {_LONGEST_NAME}, given: {self.name!r}."
            )
        for volume in self.volumes:
            claim, _, path = volume.partition(":")
            if not claim or not path.startswith("/"):
                raise ConfigError(
                    "A volume is the name of a PersistentVolumeClaim and an absolute path, "
                    f"'claim:/models', given: {volume!r}."
                )


def manifests(job: KubernetesJob, form: str) -> list[Manifest]:
    """The documents to apply; `form` is "job", "jobset" or "tfjob"."""
    return {"job": _jobs, "jobset": _jobset, "tfjob": _tfjob}[form](job)


def to_yaml(documents: Iterable[Manifest]) -> str:
    """As `kubectl apply -f -` reads them."""
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("Writing Kubernetes manifests", "kubernetes", "pyyaml") from None

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True  # what is said twice is written twice

    return yaml.dump_all(documents, Dumper=Plain, sort_keys=False, width=10**6)


# ------------------------------------------------------------------ plain Jobs


def _jobs(job: KubernetesJob) -> list[Manifest]:
    """One Job for each role; its pods have names because of the Service.

    Nobody restarts all together, but it comes to that: a process that loses the others fails.
    """

    def address(task: Task) -> str:
        return f"{job.name}-{task.role}-{task.index}.{job.name}:{job.port}"

    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job, job.name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # they have to find each other to become ready
            "selector": {_APP: job.name},
            "ports": [{"name": "grpc", "port": job.port}],
        },
    }
    roles = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": _metadata(job, f"{job.name}-{role}", role),
            "spec": _indexed_job(job, role, count, address, restarts=True, subdomain=job.name),
        }
        for role, count in job.cluster.counts().items()
    ]
    return [service, *roles]


# ------------------------------------------------------------------ JobSet


def _jobset(job: KubernetesJob) -> list[Manifest]:
    """One object for all roles, which restarts them together and makes the names itself."""

    def address(task: Task) -> str:
        return f"{job.name}-{task.role}-0-{task.index}.{job.name}:{job.port}"

    counts = job.cluster.counts()
    until = [role for role in counts if role in (TaskType.CHIEF, TaskType.EVALUATOR)]
    spec = {
        "successPolicy": {"operator": "All", "targetReplicatedJobs": until},
        "failurePolicy": {"maxRestarts": job.restarts},
        "network": {
            "enableDNSHostnames": True,
            "subdomain": job.name,
            "publishNotReadyAddresses": True,
        },
        "replicatedJobs": [
            {
                "name": role,
                "replicas": 1,
                "template": {
                    "spec": _indexed_job(
                        job, role, count, address, restarts=_is_lost_alone(job, role)
                    )
                },
            }
            for role, count in counts.items()
        ],
    }
    return [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": _metadata(job, job.name),
            "spec": spec,
        }
    ]


# ------------------------------------------------------------------ TFJob


def _tfjob(job: KubernetesJob) -> list[Manifest]:
    """For Kubeflow's training operator, which sets `TF_CONFIG`."""
    replicas = {}
    for role, count in job.cluster.counts().items():
        pod = _pod(job, role, environment=[])
        replicas[_TFJOB_NAMES[role]] = {
            "replicas": count,
            "restartPolicy": "OnFailure" if job.restarts else "Never",
            "template": {"metadata": {"labels": _labels(job, role)}, "spec": pod},
        }
    return [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": _metadata(job, job.name),
            "spec": {
                # No pod is killed when the chief has ended: the evaluator has still to evaluate.
                "runPolicy": {"cleanPodPolicy": "None", "backoffLimit": job.restarts},
                "tfReplicaSpecs": replicas,
            },
        }
    ]


# ------------------------------------------------------------------ what they share


def _indexed_job(
    job: KubernetesJob,
    role: str,
    count: int,
    address: Callable[[Task], str],
    *,
    restarts: bool,
    subdomain: str | None = None,
) -> Manifest:
    """Pods 0 to count-1, each with its index in the environment."""
    limit = job.restarts if restarts else 0
    pod = {
        "restartPolicy": "OnFailure" if limit else "Never",
        **_pod(job, role, _environment(job, role, address)),
    }
    if subdomain is not None:
        pod["subdomain"] = subdomain
    return {
        "completions": count,
        "parallelism": count,
        "completionMode": "Indexed",
        "backoffLimit": limit,
        "template": {"metadata": {"labels": _labels(job, role)}, "spec": pod},
    }


def _environment(job: KubernetesJob, role: str, address: Callable[[Task], str]) -> list[Manifest]:
    # Kubernetes replaces $(NAME) by what stands earlier in the list. The number goes in without
    # quotes, so the text is JSON only then.
    text = json.dumps(job.cluster.told(role, "@", address))
    return [
        {"name": _INDEX, "valueFrom": {"fieldRef": {"fieldPath": _INDEX_ANNOTATION}}},
        {"name": "TF_CONFIG", "value": text.replace('"@"', f"$({_INDEX})")},
    ]


def _is_lost_alone(job: KubernetesJob, role: str) -> bool:
    """Whether the others go on meanwhile; else all start again, from the checkpoint."""
    return role == TaskType.EVALUATOR or (role == TaskType.WORKER and job.cluster.has_servers)


def _pod(job: KubernetesJob, role: str, environment: list[Manifest]) -> Manifest:
    container: Manifest = {
        "name": "tensorflow",  # what TFJob's operator looks for
        "image": job.image,
        "command": list(job.command),
        "env": [*environment, {"name": "PYTHONUNBUFFERED", "value": "1"}],
        "ports": [{"name": "tfjob-port", "containerPort": job.port}],
    }
    resources = _resources(job, role)
    if resources:
        container["resources"] = {"requests": dict(resources), "limits": resources}
    mounts = [volume.partition(":") for volume in job.volumes]
    if mounts:
        container["volumeMounts"] = [
            {"name": claim, "mountPath": path} for claim, _, path in mounts
        ]
    pod: Manifest = {
        "terminationGracePeriodSeconds": round(job.grace_secs),  # to save a checkpoint
        "containers": [container],
    }
    if mounts:
        pod["volumes"] = [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim, _, _ in mounts
        ]
    return pod


def _resources(job: KubernetesJob, role: str) -> Manifest:
    resources: Manifest = {}
    if job.cpu:
        resources["cpu"] = job.cpu
    if job.memory:
        resources["memory"] = job.memory
    computes = role == TaskType.WORKER or (role == TaskType.CHIEF and not job.cluster.has_servers)
    if job.gpus and computes:
        resources["nvidia.com/gpu"] = job.gpus
    return resources


def _metadata(job: KubernetesJob, name: str, role: str | None = None) -> Manifest:
    metadata: Manifest = {"name": name, "labels": _labels(job, role)}
    if job.namespace:
        metadata["namespace"] = job.namespace
    return metadata


def _labels(job: KubernetesJob, role: str | None) -> dict[str, str]:
    return {_APP: job.name} if role is None else {_APP: job.name, _ROLE: role}
