"""The numbers were read off tf.estimator 2.15, where it accepts the same TF_CONFIG."""

from __future__ import annotations

import json

import pytest

from estimand.core.errors import ConfigError, EstimandError
from estimand.core.tf_config import TaskConfig, parse_tf_config

CLUSTER = {
    "chief": ["h0:1"],
    "ps": ["p0:1", "p1:1"],
    "worker": ["w0:1", "w1:1", "w2:1"],
}


def parse(**settings):
    return parse_tf_config({"TF_CONFIG": json.dumps(settings)})


def parse_task(cluster, task_type, index, **settings):
    return parse(cluster=cluster, task={"type": task_type, "index": index}, **settings)


def summary(task):
    return (
        task.is_chief,
        task.master,
        task.global_id_in_cluster,
        task.num_ps_replicas,
        task.num_worker_replicas,
    )


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"TF_CONFIG": ""},
        {"TF_CONFIG": "{}"},
        {"TF_CONFIG": '{"task": {"type": "worker", "index": 0}}'},
        {"TF_CONFIG": '{"cluster": {}}'},
        {"TF_CONFIG": '{"something": "unknown"}'},
    ],
)
def test_alone(environ):
    task = parse_tf_config(environ)
    assert task == TaskConfig()
    assert (task.task_type, task.task_id) == ("worker", 0)
    assert summary(task) == (True, "", 0, 0, 1)


@pytest.mark.parametrize(
    ("task_type", "index", "expected"),
    [
        ("chief", 0, (True, "grpc://h0:1", 0, 2, 4)),
        ("worker", 1, (False, "grpc://w1:1", 2, 2, 4)),
        ("worker", "1", (False, "grpc://w1:1", 2, 2, 4)),
        ("ps", 1, (False, "grpc://p1:1", 5, 2, 4)),
    ],
)
def test_roles_of_a_cluster(task_type, index, expected):
    assert summary(parse_task(CLUSTER, task_type, index)) == expected


@pytest.mark.parametrize("index", [0, 3])
def test_evaluator_stands_beside_the_cluster(index):
    task = parse_task(CLUSTER, "evaluator", index)
    assert (task.cluster, task.task_id) == ({}, index)
    assert summary(task) == (False, "", None, 0, 0)


def test_evaluator_listed_inside_the_cluster():
    cluster = {**CLUSTER, "evaluator": ["e:1"]}
    assert summary(parse_task(cluster, "evaluator", 0)) == (False, "", None, 0, 0)


def test_evaluator_listed_inside_the_cluster_is_not_counted_by_workers():
    cluster = {**CLUSTER, "evaluator": ["e:1"]}
    assert summary(parse_task(cluster, "worker", 1)) == (False, "grpc://w1:1", 2, 2, 4)


def test_without_chief_worker_0_is_the_chief():
    cluster = {"worker": ["w0:1", "w1:1"]}
    first, second = parse_task(cluster, "worker", 0), parse_task(cluster, "worker", 1)
    assert summary(first) == (True, "grpc://w0:1", 0, 0, 2)
    assert summary(second) == (False, "grpc://w1:1", 1, 0, 2)


def test_without_chief_an_evaluator_may_watch():
    assert parse_task({"worker": ["w0:1"]}, "evaluator", 0).task_type == "evaluator"


def test_master_plays_the_chief():
    cluster = {"master": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
    assert summary(parse_task(cluster, "master", 0)) == (True, "grpc://a:1", 0, 1, 2)
    assert summary(parse_task(cluster, "worker", 0)) == (False, "grpc://b:1", 1, 1, 2)


@pytest.mark.parametrize("role", ["chief", "worker"])
def test_cluster_of_one_needs_no_server(role):
    assert summary(parse_task({role: ["a:1"]}, role, 0)) == (True, "", 0, 0, 1)


def test_roles_of_ones_own_are_counted_between_chief_and_ps():
    cluster = {"chief": ["a:1"], "foo": ["b:1", "c:1"], "ps": ["d:1"]}
    assert summary(parse_task(cluster, "foo", 1)) == (False, "grpc://c:1", 2, 1, 1)


def test_addresses_by_index():
    cluster = {"chief": ["a:1"], "worker": {"1": "b:1"}}
    assert summary(parse_task(cluster, "worker", 1)) == (False, "grpc://b:1", 2, 0, 2)


def test_session_masters():
    cluster, masters = {"chief": ["a:1"]}, {"session_master": "s", "eval_session_master": "e"}
    alone = parse(**masters)
    worker = parse_task({**cluster, "worker": ["b:1"]}, "worker", 0, **masters)
    evaluator = parse_task(cluster, "evaluator", 0, **masters)
    assert (alone.master, alone.evaluation_master) == ("s", "e")
    assert (worker.master, worker.evaluation_master) == ("s", "")
    assert (evaluator.master, evaluator.evaluation_master) == ("", "e")


def test_service_environment_and_model_dir_are_kept():
    task = parse(service={"a": 1}, environment="google", model_dir="/m")
    assert (task.service, task.environment, task.model_dir) == ({"a": 1}, "google", "/m")


def test_service_must_be_a_dict():
    with pytest.raises(TypeError, match='If "service" is set in TF_CONFIG, it must be a dict') as e:
        parse(service=3)
    assert isinstance(e.value, EstimandError)


SERVED = {
    "cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]},
    "task": {"type": "chief", "index": 0},
}


def test_how_many_workers_have_to_be_there():
    assert parse(**SERVED).min_workers is None
    assert parse(**SERVED, min_workers=1).min_workers == 1


WRONG = [
    ({"task": {"type": "chief"}}, '"cluster" is not set in TF_CONFIG, task type must be WORKER.'),
    ({"task": {"index": 1}}, 'If "cluster" is not set in TF_CONFIG, task index must be 0.'),
    ({"cluster": {"chief": ["a:1"]}}, 'If "cluster" is set in TF_CONFIG, task type must be set.'),
    (
        {"cluster": {"chief": ["a:1"]}, "task": {"type": "chief"}},
        'If "cluster" is set in TF_CONFIG, task index must be set.',
    ),
    (
        {"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}},
        'If "cluster" is set in TF_CONFIG, it must have one "chief" node.',
    ),
    (
        {"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "ps", "index": 0}},
        'it must have one "chief" node. Without parameter servers worker 0 could act as chief',
    ),
    (
        {"cluster": {"evaluator": ["a:1"]}, "task": {"type": "evaluator", "index": 0}},
        'If "cluster" is set in TF_CONFIG, it must have one "chief" node.',
    ),
    (
        {"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}},
        'The "cluster" in TF_CONFIG must have only one "chief" node.',
    ),
    (
        {"cluster": {"master": ["a:1", "b:1"]}, "task": {"type": "master", "index": 0}},
        'The "cluster" in TF_CONFIG must have only one "master" node.',
    ),
    (
        {"cluster": {"master": ["a:1"], "chief": ["b:1"]}, "task": {"type": "chief", "index": 0}},
        "If `master` node exists in `cluster`, job `chief` is not supported.",
    ),
    (
        {"cluster": {"master": ["a:1"]}, "task": {"type": "evaluator", "index": 0}},
        "If `master` node exists in `cluster`, task_type `evaluator` is not supported.",
    ),
    (
        {"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": -1}},
        "Task index must be non-negative number.",
    ),
    (
        {"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": "x"}},
        "Task index in TF_CONFIG must be a number, given: 'x'.",
    ),
    (
        {"cluster": {"chief": ["a:1"]}, "task": {"type": "foo", "index": 0}},
        "foo is not a valid task_type in the cluster_spec:\nClusterSpec({'chief': ['a:1']})",
    ),
    (
        {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 3}},
        "3 is not a valid task_id for task_type worker in the cluster_spec:\nClusterSpec({",
    ),
    ({"cluster": {"chief": "a:1"}}, "must give a list of \"host:port\" for each role; 'chief'"),
    ({"cluster": ["a:1"]}, '"cluster" in TF_CONFIG must be a JSON object'),
    ({"model_dir": ""}, "model_dir in TF_CONFIG should be non-empty."),
    ({**SERVED, "min_workers": 2}, '"min_workers" in TF_CONFIG must be a number from 1 to 1'),
    ({**SERVED, "min_workers": "1"}, "Given: '1'."),
    (
        {
            "cluster": {"worker": ["a:1", "b:1"]},
            "task": {"type": "worker", "index": 0},
            "min_workers": 1,
        },
        "only workers beside parameter servers may come later",
    ),
]


@pytest.mark.parametrize(("settings", "sentence"), WRONG)
def test_wrong_settings_say_what_is_wrong(settings, sentence):
    with pytest.raises(ConfigError) as caught:
        parse(**settings)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("text", ["not json", "[1]"])
def test_text_that_is_no_json_object(text):
    with pytest.raises(ConfigError, match="TF_CONFIG"):
        parse_tf_config({"TF_CONFIG": text})


def test_key_that_is_nearly_right_is_told_of(caplog):
    assert parse(clusters={"chief": ["a:1"]}, job="named by the scheduler") == TaskConfig()
    [line] = caplog.messages
    assert line == "TF_CONFIG has 'clusters', which nobody reads. Is 'cluster' meant?"
