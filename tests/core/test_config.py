from __future__ import annotations

import copy
import functools
import inspect
import json
import pathlib
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def in_cluster(monkeypatch):
    def set_up(task_type="worker", index=1, **settings):
        cluster = {"chief": ["h0:1"], "ps": ["p0:1", "p1:1"], "worker": ["w0:1", "w1:1", "w2:1"]}
        task = {"type": task_type, "index": index}
        text = json.dumps({"cluster": cluster, "task": task, **settings})
        monkeypatch.setenv("TF_CONFIG", text)

    return set_up


def checkpoint_rules(config):
    return config.save_checkpoints_steps, config.save_checkpoints_secs


def test_defaults():
    config = RunConfig()
    assert {name.removeprefix("_"): value for name, value in vars(config).items()} == {
        "model_dir": None,
        "tf_random_seed": None,
        "save_summary_steps": 100,
        "save_checkpoints_steps": None,
        "save_checkpoints_secs": 600,
        "session_config": None,
        "keep_checkpoint_max": 5,
        "keep_checkpoint_every_n_hours": 10000,
        "log_step_count_steps": 100,
        "train_distribute": None,
        "device_fn": None,
        "protocol": None,
        "eval_distribute": None,
        "experimental_distribute": None,
        "experimental_max_worker_delay_secs": None,
        "session_creation_timeout_secs": 7200,
        "checkpoint_save_graph_def": True,
        "run_eagerly": False,
        "block_mode": "auto",
        "max_steps_per_call": None,
        "save_input_position": True,
        "save_meta_graph": None,
        "progress": None,
        "check_data": True,
        "variable_partitioner": None,
        "task_type": "worker",
        "task_id": 0,
        "is_chief": True,
        "master": "",
        "evaluation_master": "",
        "num_ps_replicas": 0,
        "num_worker_replicas": 1,
        "global_id_in_cluster": 0,
        "service": None,
        "min_workers": None,
        "cluster": {},
    }
    assert config.cluster_spec.as_dict() == {}


def test_the_seventeen_arguments_go_by_position_in_their_old_order():
    proto = tf.compat.v1.ConfigProto()
    config = RunConfig(
        "m", 1, 2, 3, None, proto, 4, 5, 6, None, None, "grpc", None, None, 7, 8, False
    )
    assert (config.model_dir, config.tf_random_seed, config.save_summary_steps) == ("m", 1, 2)
    assert checkpoint_rules(config) == (3, None)
    assert (config.session_config, config.keep_checkpoint_max) == (proto, 4)
    assert (config.keep_checkpoint_every_n_hours, config.log_step_count_steps) == (5, 6)
    assert (config.protocol, config.experimental_max_worker_delay_secs) == ("grpc", 7)
    assert (config.session_creation_timeout_secs, config.checkpoint_save_graph_def) == (8, False)


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"save_checkpoints_steps": 3}, (3, None)),
        ({"save_checkpoints_secs": 3}, (None, 3)),
        ({"save_checkpoints_steps": None}, (None, None)),
        ({"save_checkpoints_secs": None}, (None, None)),
        ({"save_checkpoints_steps": 3, "save_checkpoints_secs": None}, (3, None)),
        ({"save_checkpoints_steps": 0}, (0, None)),
    ],
)
def test_one_checkpoint_rule_switches_the_other_off(given, rules):
    assert checkpoint_rules(RunConfig(**given)) == rules


@pytest.mark.parametrize("make", [RunConfig, RunConfig().replace])
def test_both_checkpoint_rules_are_refused(make):
    sentence = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."
    with pytest.raises(ConfigError, match=sentence):
        make(save_checkpoints_steps=1, save_checkpoints_secs=2)


WRONG = [
    ("save_summary_steps", -1, "save_summary_steps should be >= 0"),
    ("save_summary_steps", "a", "save_summary_steps should be >= 0"),
    ("save_checkpoints_steps", -1, "save_checkpoints_steps should be >= 0"),
    ("save_checkpoints_secs", -1, "save_checkpoints_secs should be >= 0"),
    ("session_config", {}, "session_config must be instance of ConfigProto"),
    ("keep_checkpoint_max", -1, "keep_checkpoint_max should be >= 0"),
    ("keep_checkpoint_every_n_hours", 0, "keep_checkpoint_every_n_hours should be > 0"),
    ("log_step_count_steps", 0, "log_step_count_steps should be > 0"),
    ("tf_random_seed", 1.0, "tf_random_seed must be integer."),
    ("device_fn", lambda x: x, 'device_fn must be callable with exactly one argument "op".'),
    ("device_fn", "cpu", 'device_fn must be callable with exactly one argument "op".'),
    ("protocol", "http", "protocol should be grpc or grpc+verbs"),
    (
        "experimental_max_worker_delay_secs",
        1.5,
        "experimental_max_worker_delay_secs must be an integer if set.",
    ),
    ("session_creation_timeout_secs", 0, "session_creation_timeout_secs should be > 0"),
    ("model_dir", "", "model_dir should be non-empty."),
    ("model_dir", 3, "model_dir must be a string or a path, given: 3"),
    ("run_eagerly", "yes", "run_eagerly should be True or False"),
    ("block_mode", "fast", "one of ('auto', 'plain', 'single_thread', 'xla', 'onednn')"),
    ("max_steps_per_call", 0, "max_steps_per_call should be an integer >= 1"),
    ("max_steps_per_call", 1.5, "max_steps_per_call should be an integer >= 1"),
    ("save_input_position", 1, "save_input_position should be True or False"),
    ("progress", "no", "progress should be True, False or None"),
    ("check_data", "no", "check_data should be True or False"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), WRONG)
@pytest.mark.parametrize("make", [RunConfig, RunConfig().replace])
def test_wrong_values_say_what_is_accepted(make, name, value, sentence):
    with pytest.raises(ConfigError) as caught:
        make(**{name: value})
    assert sentence in str(caught.value)


def test_wrong_values_are_shown():
    with pytest.raises(ConfigError, match="Given: keep_checkpoint_max=-7"):
        RunConfig(keep_checkpoint_max=-7)


@pytest.mark.parametrize(
    "name",
    [name for name, _, _ in WRONG if name not in ("run_eagerly", "block_mode")],
)
def test_none_is_always_allowed(name):
    assert getattr(RunConfig(**{name: None}), name) is None


@pytest.mark.parametrize(
    "device_fn",
    [lambda op: "/cpu:0", functools.partial(lambda op, device: device, device="/cpu:0")],
)
def test_device_fn_of_one_op(device_fn):
    assert RunConfig(device_fn=device_fn).device_fn is device_fn


def test_numpy_seed():
    assert RunConfig(tf_random_seed=np.int64(3)).tf_random_seed == 3


@pytest.mark.parametrize("path", ["/m", b"/m", pathlib.Path("/m")])
def test_model_dir_becomes_text(path):
    assert RunConfig(path).model_dir == "/m"
    assert RunConfig().replace(model_dir=path).model_dir == "/m"


def test_settings_cannot_be_assigned():
    with pytest.raises(AttributeError, match=r"config.replace\(model_dir=...\)"):
        RunConfig().model_dir = "/m"


# ------------------------------------------------------------------ replace, copy, repr


def test_replace_leaves_the_original_alone():
    config = RunConfig(model_dir="/a")
    assert (config.replace(model_dir="/b").model_dir, config.model_dir) == ("/b", "/a")


@pytest.mark.parametrize("name", ["is_chief", "cluster_spec", "foo"])
def test_replacing_anything_else_lists_what_may_be_replaced(name):
    sentence = rf"Replacing {name} is not supported. Allowed properties are \['model_dir', 'tf_ran"
    with pytest.raises(ConfigError, match=sentence):
        RunConfig().replace(**{name: 1})


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"save_checkpoints_steps": 3}, (3, None)),
        ({"save_checkpoints_secs": 3}, (None, 3)),
        ({"save_checkpoints_steps": None}, (None, 600)),
        ({"save_checkpoints_secs": None}, (None, None)),
        ({"save_checkpoints_steps": 3, "save_checkpoints_secs": None}, (3, None)),
    ],
)
def test_replacing_one_checkpoint_rule_switches_the_other_off(given, rules):
    assert checkpoint_rules(RunConfig().replace(**given)) == rules


def test_our_own_settings_may_be_replaced():
    config = RunConfig().replace(run_eagerly=True, block_mode="plain", max_steps_per_call=10)
    assert (config.run_eagerly, config.block_mode, config.max_steps_per_call) == (True, "plain", 10)


def test_attributes_that_users_add_survive_replace():
    config = RunConfig()
    config.hparams = {"a": 1}
    assert config.replace(model_dir="/m").hparams == {"a": 1}


def test_subclasses_stay_what_they_are():
    class Mine(RunConfig):
        pass

    assert type(Mine().replace(model_dir="/m")) is Mine


def test_copies_share_the_strategy_but_not_the_proto():
    strategy = tf.distribute.OneDeviceStrategy("cpu:0")
    config = RunConfig(train_distribute=strategy, session_config=tf.compat.v1.ConfigProto())
    copied = copy.deepcopy(config)
    assert copied.train_distribute is strategy
    assert copied.session_config == config.session_config
    assert copied.session_config is not config.session_config


def test_pickling():
    config = pickle.loads(pickle.dumps(RunConfig(model_dir="/m", save_checkpoints_steps=3)))
    assert repr(config) == "RunConfig(model_dir='/m', save_checkpoints_steps=3)"


@pytest.mark.parametrize(
    "call",
    [
        "RunConfig()",
        "RunConfig(model_dir='/m', tf_random_seed=1)",
        "RunConfig(save_checkpoints_steps=500)",
        "RunConfig(save_checkpoints_secs=60)",
        "RunConfig(save_checkpoints_steps=None)",
        "RunConfig(keep_checkpoint_max=None, block_mode='plain')",
    ],
)
def test_repr_is_the_call_that_makes_it(call):
    assert repr(eval(call)) == call


def test_repr_of_a_proto_stays_on_one_line():
    proto = tf.compat.v1.ConfigProto(allow_soft_placement=True, log_device_placement=True)
    assert "\n" not in repr(RunConfig(session_config=proto))


# ------------------------------------------------------------------ strategies


def test_parameter_server_strategy_of_tf2_is_welcome():
    strategy = tf.distribute.experimental.ParameterServerStrategy.__new__(
        tf.distribute.experimental.ParameterServerStrategy
    )
    assert RunConfig(train_distribute=strategy).train_distribute is strategy


def test_strategies_may_come_in_a_bundle():
    bundle = SimpleNamespace(train_distribute="a", eval_distribute="b", remote_cluster=None)
    config = RunConfig(experimental_distribute=bundle)
    assert (config.train_distribute, config.eval_distribute) == ("a", "b")


def test_strategies_may_not_come_twice():
    bundle = SimpleNamespace(train_distribute="a")
    with pytest.raises(ConfigError, match="Either `train_distribute` or"):
        RunConfig(train_distribute="b", experimental_distribute=bundle)


def test_remote_clusters_are_gone():
    with pytest.raises(ConfigError, match="remote_cluster is not supported"):
        RunConfig(experimental_distribute=SimpleNamespace(remote_cluster={"worker": ["a:1"]}))


# ------------------------------------------------------------------ in a cluster


def test_place_in_the_cluster(in_cluster):
    in_cluster("worker", 1, service={"a": 1})
    config = RunConfig()
    assert config.cluster_spec.as_dict()["ps"] == ["p0:1", "p1:1"]
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 1, False)
    assert (config.master, config.evaluation_master) == ("grpc://w1:1", "")
    assert (config.num_ps_replicas, config.num_worker_replicas) == (2, 4)
    assert (config.global_id_in_cluster, config.service) == (2, {"a": 1})


def test_the_cluster_is_read_when_the_config_is_made(in_cluster, monkeypatch):
    in_cluster("worker", 1)
    config = RunConfig()
    monkeypatch.delenv("TF_CONFIG")
    assert config.replace(model_dir="/m").task_id == 1


@pytest.mark.parametrize(
    ("task_type", "index", "filters"),
    [
        ("chief", 0, ["/job:ps", "/job:chief"]),
        ("worker", 2, ["/job:ps", "/job:worker/task:2"]),
        ("ps", 0, ["/job:ps", "/job:worker", "/job:chief", "/job:master"]),
    ],
)
def test_session_config_in_a_cluster_has_device_filters(in_cluster, task_type, index, filters):
    in_cluster(task_type, index)
    proto = RunConfig().session_config
    assert (list(proto.device_filters), proto.allow_soft_placement) == (filters, True)


def test_session_config_of_an_evaluator_is_none(in_cluster):
    in_cluster("evaluator", 0)
    assert RunConfig().session_config is None


def test_session_config_given_wins_in_a_cluster(in_cluster):
    in_cluster()
    proto = tf.compat.v1.ConfigProto(log_device_placement=True)
    assert RunConfig(session_config=proto).session_config is proto


def test_model_dir_of_tf_config(in_cluster):
    in_cluster(model_dir="/m")
    assert RunConfig().model_dir == "/m"
    assert RunConfig(model_dir="/m").model_dir == "/m"


def test_model_dir_must_agree_with_tf_config(in_cluster):
    in_cluster(model_dir="/m")
    with pytest.raises(ConfigError, match="must have the same value as the model_dir in TF_CONFIG"):
        RunConfig(model_dir="/other")


@pytest.mark.parametrize("kind", [RunConfig, type("Mine", (RunConfig,), {})])
def test_a_setting_that_is_misspelt(kind: type[RunConfig]) -> None:
    with pytest.raises(TypeError) as told:
        kind(save_checkpoint_steps=10)
    assert str(told.value) == (
        "RunConfig.__init__() got an unexpected keyword argument 'save_checkpoint_steps'. Did you "
        "mean 'save_checkpoints_steps'?"
    )
    assert "save_checkpoints_steps" in inspect.signature(kind).parameters


def test_a_setting_that_is_like_no_other() -> None:
    with pytest.raises(TypeError, match=r"'zzz'\. There are: 'model_dir', 'tf_random_seed', "):
        RunConfig(zzz=1)
