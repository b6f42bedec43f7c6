"""The manifests and the image: valid, and true to the server's flags, paths and metrics."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from estimand.serving.flags import Flags
from estimand.serving.metrics import Metrics
from estimand.serving.protos import text_protos

yaml = pytest.importorskip("yaml")
kubernetes_validate = pytest.importorskip("kubernetes_validate")

DEPLOY = Path(__file__).parents[2] / "deploy"
KNOWN_FLAGS = {one.name: one for one in fields(Flags)}


def documents() -> list[dict[str, Any]]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


def only(kind: str) -> dict[str, Any]:
    (found,) = (one for one in documents() if one["kind"] == kind)
    return found


def container() -> dict[str, Any]:
    (found,) = only("Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def flags_of(words: list[str]) -> Flags:
    """The flags of a command line, of the types that the server takes."""
    given: dict[str, Any] = {}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        given[name] = type(KNOWN_FLAGS[name].default)(value)
    return Flags(**given).check()


def test_kubernetes_takes_the_manifests() -> None:
    kinds = []
    for document in documents():
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        kinds.append(document["kind"])
    assert sorted(kinds) == [
        "ConfigMap",
        "Deployment",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
        "Service",
        "Service",
    ]


def test_the_deployment_starts_a_server_that_answers_its_probes() -> None:
    one = container()
    assert one["command"] == ["estimand", "serve"]
    flags = flags_of(one["args"])
    ports = {port["name"]: port["containerPort"] for port in one["ports"]}
    assert ports == {"grpc": flags.port, "http": flags.rest_api_port}
    assert flags.host == "0.0.0.0"  # 127.0.0.1 would be reached by nobody
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez")):
        assert one[probe]["httpGet"] == {"path": path, "port": "http"}
    assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    pod = only("Deployment")["spec"]["template"]["spec"]
    needed = flags.shutdown_delay_seconds + flags.drain_seconds
    assert pod["terminationGracePeriodSeconds"] > needed + 10


def test_everything_that_the_server_reads_is_mounted(tmp_path: Path) -> None:
    mounts = {one["mountPath"] for one in container()["volumeMounts"]}
    path = Path(flags_of(container()["args"]).model_config_file)
    assert str(path.parent) in mounts
    text = only("ConfigMap")["data"][path.name]
    (tmp_path / "models.config").write_text(text)
    message = text_protos.read_model_server_config(str(tmp_path / "models.config"))
    bases = [Path(one.base_path) for one in message.model_config_list.config]
    assert bases
    assert all(str(base.parent) in mounts for base in bases)


def test_commented_flags_exist() -> None:
    text = (DEPLOY / "kubernetes" / "deployment.yaml").read_text()
    commented = re.findall(r"# - --(\w+)=", text)
    assert len(commented) == 2
    assert set(commented) <= set(KNOWN_FLAGS)


def test_selectors_find_the_pods() -> None:
    labels = only("Deployment")["spec"]["template"]["metadata"]["labels"]
    services = [one for one in documents() if one["kind"] == "Service"]
    selectors = [one["spec"]["selector"] for one in services]
    selectors.append(only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
    assert len(selectors) == 3
    for selector in selectors:
        assert selector.items() <= labels.items()
    target = only("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert target["name"] == only("Deployment")["metadata"]["name"]


def test_autoscaling_asks_for_metrics_that_the_server_has() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus-adapter-rules.yaml").read_text())["rules"]
    named = {rule["name"]["as"]: rule for rule in rules["custom"]}
    wanted = only("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert {one["pods"]["metric"]["name"] for one in wanted} == set(named)
    metrics = Metrics()
    metrics.request("m", "Predict", "REST", 0, 0.001)
    told = {re.split(r"[{ ]", line)[0] for line in metrics.text().splitlines()}
    for rule in named.values():
        series = re.findall(r":tensorflow:\w+:\w+", rule["seriesQuery"] + rule["metricsQuery"])
        assert series
        assert set(series) <= told
    pod = only("Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert pod["prometheus.io/path"] == text_protos.DEFAULT_METRICS_PATH


def test_the_image_starts_the_server_without_being_root() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    lines = [line.partition(" ") for line in text.splitlines() if line and line[0].isupper()]
    last = {name: value for name, _, value in lines}
    assert last["USER"] == "10001"
    assert last["STOPSIGNAL"] == "SIGTERM"
    shell, option, script, name = json.loads(last["ENTRYPOINT"])
    assert (shell, option, name) == ("/bin/sh", "-c", "estimand-serve")
    assert script.startswith("exec estimand serve ")  # exec: signals reach the server
    words = [word.strip('"') for word in script.split()[3:-1]]
    flags = flags_of(words)
    assert last["EXPOSE"].split() == [str(flags.port), str(flags.rest_api_port)]
    assert f"http://127.0.0.1:{flags.rest_api_port}/readyz" in text
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        assert all((DEPLOY.parent / one).exists() for one in source.split())
