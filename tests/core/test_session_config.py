from __future__ import annotations

import textwrap

import pytest
import tensorflow as tf

from estimand.core import session_config as module
from estimand.core.errors import ConfigError
from estimand.core.session_config import apply_session_config, default_session_config
from tests import forked

ConfigProto = tf.compat.v1.ConfigProto


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.setattr(module, "_told", set())


@pytest.fixture
def two_gpus(monkeypatch):
    """Two make-believe GPUs; returns what was asked of `tf.config`."""
    gpus = ["gpu 0", "gpu 1"]
    asked = {"visible": list(gpus), "growth": []}
    listing = tf.config.list_physical_devices
    monkeypatch.setattr(
        tf.config,
        "list_physical_devices",
        lambda kind=None: list(gpus) if kind == "GPU" else listing(kind),
    )
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: asked["visible"])
    monkeypatch.setattr(
        tf.config, "set_visible_devices", lambda devices, kind: asked.update(visible=devices)
    )
    experimental = tf.config.experimental
    monkeypatch.setattr(experimental, "get_memory_growth", lambda gpu: False)
    monkeypatch.setattr(
        experimental, "set_memory_growth", lambda gpu, enable: asked["growth"].append(gpu)
    )
    return asked


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.name == module.__name__]


def test_default_is_soft_placement_and_one_optimizer_pass():
    config = default_session_config()
    rewriting = config.graph_options.rewrite_options
    assert config.allow_soft_placement
    assert rewriting.meta_optimizer_iterations == rewriting.ONE


@pytest.mark.parametrize("config", [None, ConfigProto(), default_session_config()])
def test_nothing_special_warns_of_nothing(caplog, config):
    apply_session_config(config)
    assert warnings_of(caplog) == []


def test_settings_take_effect_before_tensorflow_starts():
    script = """
        import tensorflow as tf
        from estimand.core.session_config import apply_session_config
        apply_session_config(tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=3, inter_op_parallelism_threads=2,
            device_count={"CPU": 4}, log_device_placement=True))
        print(tf.config.threading.get_intra_op_parallelism_threads(),
              tf.config.threading.get_inter_op_parallelism_threads(),
              len(tf.config.list_logical_devices("CPU")),
              tf.debugging.get_log_device_placement())
    """
    done = forked.run(["-c", textwrap.dedent(script)])
    assert done.stdout.split() == ["3", "2", "4", "True"]
    assert "session_config" not in done.stderr


def test_coming_too_late_warns_and_does_not_raise(caplog):
    tf.constant(1.0) + 1.0  # TensorFlow has started.
    apply_session_config(
        ConfigProto(
            intra_op_parallelism_threads=77,
            inter_op_parallelism_threads=78,
            device_count={"CPU": 9},
        )
    )
    (sentence,) = warnings_of(caplog)
    assert "intra_op_parallelism_threads, inter_op_parallelism_threads, device_count" in sentence
    assert "TensorFlow is already running" in sentence


def test_settings_already_in_force_warn_of_nothing(caplog):
    tf.constant(1.0) + 1.0
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    cpus = len(tf.config.list_logical_devices("CPU"))
    apply_session_config(
        ConfigProto(intra_op_parallelism_threads=threads, device_count={"CPU": cpus})
    )
    assert warnings_of(caplog) == []


def test_what_has_no_counterpart_is_named_once(caplog):
    config = ConfigProto(operation_timeout_in_ms=5, isolate_session_state=True)
    config.graph_options.build_cost_model = 1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    apply_session_config(config)
    apply_session_config(config)
    assert warnings_of(caplog) == [
        "session_config: no effect of graph_options.build_cost_model, "
        "graph_options.rewrite_options.disable_meta_optimizer, operation_timeout_in_ms, "
        "isolate_session_state (no counterpart without a session)."
    ]


def test_gpu_settings_mean_nothing_without_gpus(caplog):
    gpu_options = tf.compat.v1.GPUOptions(
        allow_growth=True, per_process_gpu_memory_fraction=0.5, visible_device_list="0"
    )
    if not tf.config.list_physical_devices("GPU"):
        apply_session_config(ConfigProto(gpu_options=gpu_options))
        assert warnings_of(caplog) == []


def test_memory_growth_of_every_gpu(two_gpus):
    config = ConfigProto()
    config.gpu_options.allow_growth = True
    apply_session_config(config)
    assert two_gpus["growth"] == ["gpu 0", "gpu 1"]


def test_only_gpus_listed_are_seen_and_grow(two_gpus):
    gpu_options = tf.compat.v1.GPUOptions(visible_device_list="1", allow_growth=True)
    apply_session_config(ConfigProto(gpu_options=gpu_options))
    assert two_gpus == {"visible": ["gpu 1"], "growth": ["gpu 1"]}


@pytest.mark.parametrize(("count", "seen"), [(0, []), (1, ["gpu 0"]), (5, ["gpu 0", "gpu 1"])])
def test_device_count_bounds_the_gpus(two_gpus, count, seen):
    apply_session_config(ConfigProto(device_count={"GPU": count}))
    assert two_gpus["visible"] == seen


@pytest.mark.parametrize("text", ["2", "x", "-1"])
def test_gpus_that_do_not_exist(two_gpus, text):
    config = ConfigProto()
    config.gpu_options.visible_device_list = text
    with pytest.raises(ConfigError, match=r"visible_device_list must be indices .* from 0 to 1"):
        apply_session_config(config)


def test_hiding_gpus_too_late_warns(two_gpus, monkeypatch, caplog):
    def too_late(devices, kind):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", too_late)
    apply_session_config(ConfigProto(device_count={"GPU": 0}))
    assert "device_count (TensorFlow is already running" in warnings_of(caplog)[0]


def test_memory_fraction_is_named(two_gpus, caplog):
    config = ConfigProto()
    config.gpu_options.per_process_gpu_memory_fraction = 0.5
    apply_session_config(config)
    assert "gpu_options.per_process_gpu_memory_fraction" in warnings_of(caplog)[0]


def test_soft_placement_left_out_does_not_switch_it_off():
    before = tf.config.get_soft_device_placement()
    apply_session_config(ConfigProto(allow_soft_placement=False))
    assert tf.config.get_soft_device_placement() == before


def test_global_jit_becomes_autoclustering(monkeypatch):
    asked = []
    monkeypatch.setattr(tf.config.optimizer, "set_jit", asked.append)
    config = ConfigProto()
    options = config.graph_options.optimizer_options
    options.global_jit_level = options.ON_1
    apply_session_config(config)
    assert asked == ["autoclustering"]
