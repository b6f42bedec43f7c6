"""Manifests: against the schemas that Kubernetes publishes; JobSet and TFJob, whose schemas no
package bundles, against short ones of our own that allow only the fields we know to exist."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from estimand.cli.main import main
from estimand.cluster.description import ClusterDescription, Task
from estimand.cluster.kubernetes import KubernetesJob, manifests, to_yaml
from estimand.core.errors import ConfigError, MissingExtraError
from estimand.core.tf_config import parse_tf_config

yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")
kubernetes_validate = pytest.importorskip("kubernetes_validate")

CLUSTERS = [
    ClusterDescription(),
    ClusterDescription(workers=2, evaluator=True),
    ClusterDescription(workers=2, ps=1, evaluator=True),
]


def make(cluster: ClusterDescription, **more: Any) -> KubernetesJob:
    return KubernetesJob(cluster, "demo", "image:1", ("python", "train.py", "--lr=0.1"), **more)


def full(cluster: ClusterDescription) -> KubernetesJob:
    return make(
        cluster,
        namespace="ml",
        restarts=2,
        cpu="500m",
        memory="4Gi",
        gpus=1,
        volumes=("models:/models",),
    )


def written(job: KubernetesJob, form: str) -> list[dict[str, Any]]:
    """What a reader of the YAML gets."""
    return list(yaml.safe_load_all(to_yaml(manifests(job, form))))


def check_kubernetes(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


# ------------------------------------------------------------------ schemas


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


METADATA = closed(
    ["name"],
    name={"type": "string", "maxLength": 63},
    namespace={"type": "string"},
    labels={"type": "object", "additionalProperties": {"type": "string"}},
)
COUNT = {"type": "integer", "minimum": 0}
JOBSET = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata=METADATA,
    spec=closed(
        ["replicatedJobs"],
        successPolicy=closed(
            ["operator"],
            operator={"enum": ["All", "Any"]},
            targetReplicatedJobs={"type": "array", "items": {"type": "string"}},
        ),
        failurePolicy=closed([], maxRestarts=COUNT),
        network=closed(
            [],
            enableDNSHostnames={"type": "boolean"},
            subdomain={"type": "string"},
            publishNotReadyAddresses={"type": "boolean"},
        ),
        replicatedJobs={
            "type": "array",
            "items": closed(
                ["name", "template"],
                name={"type": "string"},
                replicas=COUNT,
                template=closed(["spec"], spec={"type": "object"}),
            ),
        },
    ),
)
TFJOB = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "kubeflow.org/v1"},
    kind={"const": "TFJob"},
    metadata=METADATA,
    spec=closed(
        ["tfReplicaSpecs"],
        runPolicy=closed(
            [], cleanPodPolicy={"enum": ["", "All", "Running", "None"]}, backoffLimit=COUNT
        ),
        tfReplicaSpecs={
            "type": "object",
            "propertyNames": {"enum": ["Chief", "Worker", "PS", "Evaluator"]},
            "additionalProperties": closed(
                ["template"],
                replicas=COUNT,
                restartPolicy={"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
                template={"type": "object"},
            ),
        },
    ),
)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("fill", [make, full])
def test_jobs_are_valid(cluster: ClusterDescription, fill: Any) -> None:
    documents = written(fill(cluster), "job")
    assert len(documents) == 1 + len(cluster.counts())
    for document in documents:
        check_kubernetes(document)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("fill", [make, full])
def test_jobset_is_valid(cluster: ClusterDescription, fill: Any) -> None:
    [document] = written(fill(cluster), "jobset")
    jsonschema.validate(document, JOBSET)
    jobs = document["spec"]["replicatedJobs"]
    assert [job["name"] for job in jobs] == list(cluster.counts())
    for job in jobs:
        spec = job["template"]["spec"]
        check_kubernetes(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec}
        )


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("fill", [make, full])
def test_tfjob_is_valid(cluster: ClusterDescription, fill: Any) -> None:
    [document] = written(fill(cluster), "tfjob")
    jsonschema.validate(document, TFJOB)
    for replica in document["spec"]["tfReplicaSpecs"].values():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
        check_kubernetes({**pod, "spec": replica["template"]["spec"]})
        [container] = replica["template"]["spec"]["containers"]
        # By these the operator finds what it has to give TF_CONFIG to.
        assert container["name"] == "tensorflow"
        assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]


# ------------------------------------------------------------------ TF_CONFIG


def pods_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name of the Job, its spec, its container) for each Job."""
    if document["kind"] == "Job":
        jobs = [(document["metadata"]["name"], document["spec"])]
    elif document["kind"] == "JobSet":
        name = document["metadata"]["name"]
        jobs = [
            # JobSet calls its Jobs so, the number being that of the replica.
            (f"{name}-{job['name']}-0", job["template"]["spec"])
            for job in document["spec"]["replicatedJobs"]
        ]
    else:
        jobs = []
    for name, spec in jobs:
        [container] = spec["template"]["spec"]["containers"]
        yield name, spec, container


def environment(container: dict[str, Any], index: int) -> dict[str, str]:
    """As Kubernetes makes it: names in $() are replaced by what stands earlier in the list."""
    found: dict[str, str] = {}
    for entry in container["env"]:
        if "valueFrom" in entry:
            path = entry["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
            found[entry["name"]] = str(index)
            continue
        value = entry["value"]
        for name, text in found.items():
            value = value.replace(f"$({name})", text)
        found[entry["name"]] = value
    return found


@pytest.mark.parametrize("form", ["job", "jobset"])
def test_every_pod_finds_itself_at_its_own_host_name(form: str) -> None:
    job = make(ClusterDescription(workers=2, ps=1, evaluator=True, min_workers=1), port=1234)
    seen = []
    for document in written(job, form):
        for name, spec, container in pods_of(document):
            assert spec["completionMode"] == "Indexed"
            for index in range(spec["completions"]):
                environ = environment(container, index)
                task = parse_tf_config(environ)
                json.loads(environ["TF_CONFIG"])
                seen.append(Task(task.task_type, task.task_id))
                if task.task_type != "evaluator":
                    # Pods of an indexed Job are called <name of the Job>-<index>.
                    expected = f"{name}-{index}.demo:1234"
                    assert task.cluster[task.task_type][task.task_id] == expected
                    assert (task.num_worker_replicas, task.num_ps_replicas) == (3, 1)
                    assert task.min_workers == 1
    assert seen == job.cluster.tasks()


def test_jobs_share_the_name_of_their_service() -> None:
    service, *jobs = written(make(ClusterDescription(workers=1)), "job")
    assert service["spec"]["clusterIP"] == "None"
    for job in jobs:
        template = job["spec"]["template"]
        assert template["spec"]["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()


# ------------------------------------------------------------------ restarts, resources


def restart_policies(job: KubernetesJob) -> dict[str, tuple[str, int]]:
    [document] = written(job, "jobset")
    return {
        one["name"]: (
            one["template"]["spec"]["template"]["spec"]["restartPolicy"],
            one["template"]["spec"]["backoffLimit"],
        )
        for one in document["spec"]["replicatedJobs"]
    }


def test_workers_of_a_mirrored_cluster_restart_all_together() -> None:
    job = make(ClusterDescription(workers=2, evaluator=True), restarts=3)
    assert restart_policies(job) == {
        "chief": ("Never", 0),
        "worker": ("Never", 0),
        "evaluator": ("OnFailure", 3),
    }
    [document] = written(job, "jobset")
    assert document["spec"]["failurePolicy"] == {"maxRestarts": 3}


def test_workers_of_parameter_servers_restart_alone() -> None:
    job = make(ClusterDescription(workers=2, ps=1), restarts=3)
    assert restart_policies(job) == {
        "chief": ("Never", 0),
        "worker": ("OnFailure", 3),
        "ps": ("Never", 0),
    }


def test_only_those_who_compute_get_gpus() -> None:
    job = make(ClusterDescription(workers=1, ps=1, evaluator=True), gpus=2)
    limits = {
        name: container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu")
        for document in written(job, "job")
        for name, _, container in pods_of(document)
    }
    assert limits == {
        "demo-chief": None,
        "demo-worker": 2,
        "demo-ps": None,
        "demo-evaluator": None,
    }


# ------------------------------------------------------------------ mistakes, the command


@pytest.mark.parametrize("name", ["Demo", "1st", "a_b", "x" * 41, "a-"])
def test_name_that_kubernetes_would_refuse(name: str) -> None:
    with pytest.raises(ConfigError, match=f"given: '{name}'"):
        KubernetesJob(ClusterDescription(), name, "image", ("python",))


def test_volume_without_a_path() -> None:
    with pytest.raises(ConfigError, match="'claim:/models', given: 'models'"):
        make(ClusterDescription(), volumes=("models",))


def test_package_for_yaml_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'estimand\[kubernetes\]'"):
        to_yaml([])


@pytest.mark.parametrize("form", ["job", "jobset", "tfjob"])
def test_command_prints_manifests(form: str) -> None:
    options = ["--workers", "1", "--kubernetes", form, "--image", "im:1", "--name", "demo"]
    result = CliRunner().invoke(main, ["launch", *options, "not_here.py", "--steps", "5"])
    assert result.exit_code == 0, result.output
    text = result.output
    assert list(yaml.safe_load_all(text))
    assert "not_here.py" in text and "--steps" in text


def test_command_says_what_is_missing() -> None:
    result = CliRunner().invoke(main, ["launch", "--kubernetes", "job", "--name", "a", "x.py"])
    assert result.exit_code == 2
    assert "--kubernetes needs --image." in result.output


def test_command_does_not_promise_what_a_tfjob_cannot_be_told() -> None:
    options = ["--kubernetes", "tfjob", "--image", "i", "--name", "a", "--min-workers", "1"]
    result = CliRunner().invoke(main, ["launch", "--workers", "2", "--ps", "1", *options, "x.py"])
    assert result.exit_code == 2
    assert "Use --kubernetes jobset or job." in " ".join(result.output.split())
