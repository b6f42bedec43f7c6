"""Texts and outcomes were read off tf.estimator 2.15, where it knows the situation."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf

from estimand.core.errors import SpecError, SpecTypeError
from estimand.core.export_output import PredictOutput
from estimand.core.spec import EstimatorSpec

KINDS_OF_GRAPH = ["graph", "function", "wrapped"]


def build(kind, function):
    """Runs `function` while a graph of the given kind is being built; returns what it returns."""
    results = []

    def traced():
        results.append(function())

    if kind == "graph":
        with tf.Graph().as_default():
            traced()
    elif kind == "function":
        tf.function(traced).get_concrete_function()
    else:
        tf.compat.v1.wrap_function(traced, [])
    return results[-1]


@pytest.fixture(params=KINDS_OF_GRAPH)
def in_graph(request):
    return lambda function: build(request.param, function)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def foreign_tensor():
    with tf.Graph().as_default():
        return tf.constant(1.0)


# ------------------------------------------------------------------ what each mode needs


@pytest.mark.parametrize("mode", ["bogus", "TRAIN", "predict", b"train", 1, ["train"]])
def test_a_mode_that_there_is_not_is_refused(graph, mode):
    with pytest.raises(SpecError, match="mode must be one of ModeKeys, given: ") as error:
        EstimatorSpec(mode, loss=tf.constant(1.0), train_op=tf.no_op(), predictions=tf.constant(1))
    assert repr(mode) in str(error.value) and "'train', 'eval' or 'infer'" in str(error.value)


@pytest.mark.parametrize("mode", ["train", "eval", "infer", None])
def test_the_modes_that_there_are(graph, mode):
    fields = {"loss": tf.constant(1.0), "train_op": tf.no_op(), "predictions": tf.constant(1)}
    assert EstimatorSpec(mode, **fields).mode == mode


@pytest.mark.parametrize(
    ("mode", "fields", "sentence"),
    [
        ("train", ("loss",), "Missing train_op."),
        ("train", ("train_op",), "Missing loss."),
        ("train", (), "Missing train_op."),
        ("eval", ("predictions",), "Missing loss."),
        ("infer", ("loss",), "Missing predictions."),
    ],
)
def test_missing_fields(graph, mode, fields, sentence):
    have = {"loss": tf.constant(1.0), "train_op": tf.no_op(), "predictions": tf.constant([1.0])}
    with pytest.raises(SpecError, match=re.escape(sentence)):
        EstimatorSpec(mode, **{name: have[name] for name in fields})


def test_every_field_may_be_given_in_every_mode(in_graph):
    def make():
        tensor = tf.constant([1.0])
        return [
            EstimatorSpec(
                mode,
                predictions={"p": tensor},
                loss=tf.constant(1.0),
                train_op=tf.no_op(),
                eval_metric_ops={"m": (tensor, tf.no_op())},
                export_outputs={"o": PredictOutput(tensor)},
            ).mode
            for mode in ("train", "eval", "infer")
        ]

    assert in_graph(make) == ["train", "eval", "infer"]


def test_fields_not_given_are_empty(graph):
    spec = EstimatorSpec("eval", loss=tf.constant(1.0))
    assert (spec.predictions, spec.eval_metric_ops) == ({}, {})
    assert (spec.train_op, spec.export_outputs) == (None, None)
    assert spec.training_hooks == spec.training_chief_hooks == ()
    assert spec.evaluation_hooks == spec.prediction_hooks == ()
    assert isinstance(spec.scaffold, tf.compat.v1.train.Scaffold)


def test_fields_keep_their_old_order():
    assert EstimatorSpec._fields == (
        "mode",
        "predictions",
        "loss",
        "train_op",
        "eval_metric_ops",
        "export_outputs",
        "training_chief_hooks",
        "training_hooks",
        "scaffold",
        "evaluation_hooks",
        "prediction_hooks",
    )


# ------------------------------------------------------------------ loss


def test_loss_that_is_no_tensor(graph):
    with pytest.raises(SpecTypeError, match=r"loss must be Tensor, given: 3\.0"):
        EstimatorSpec("eval", loss=3.0)


def test_loss_of_several_elements(graph):
    with pytest.raises(SpecError, match=r"Loss must be scalar, given: Tensor\(.*tf.reduce_mean"):
        EstimatorSpec("eval", loss=tf.constant([1.0, 2.0]))


@pytest.mark.parametrize("shape", [[1], [1, 1], [None]])
def test_loss_of_one_element_becomes_a_scalar(graph, shape):
    loss = tf.compat.v1.placeholder(tf.float32, shape)
    assert EstimatorSpec("eval", loss=loss).loss.shape.as_list() == []


def test_loss_of_unknown_rank_is_left_alone(graph):
    loss = tf.compat.v1.placeholder(tf.float32, None)
    assert EstimatorSpec("eval", loss=loss).loss is loss


# ------------------------------------------------------------------ train_op


@pytest.mark.parametrize("train_op", [lambda: tf.no_op(), lambda: tf.constant(1)])
def test_train_op_may_be_operation_or_tensor(in_graph, train_op):
    def make():
        given = train_op()
        return EstimatorSpec("train", loss=tf.constant(1.0), train_op=given).train_op is given

    assert in_graph(make)


def test_train_op_that_is_an_assignment_becomes_its_operation():
    variable = tf.Variable(0.0)

    def make():
        step = variable.assign_add(1.0)
        return EstimatorSpec("train", loss=tf.constant(1.0), train_op=step).train_op.type

    assert build("function", make) == "AssignAddVariableOp"


def test_train_op_that_is_a_v1_assignment_becomes_its_operation(graph):
    step = tf.compat.v1.train.get_or_create_global_step()
    train_op = tf.compat.v1.assign_add(step, 1)
    spec = EstimatorSpec("train", loss=tf.constant(1.0), train_op=train_op)
    assert "AssignAddVariableOp" in (spec.train_op.type, *(i.op.type for i in spec.train_op.inputs))


def test_train_op_that_is_a_variable_becomes_its_value():
    variable = tf.Variable(0.0)

    def make():
        spec = EstimatorSpec("train", loss=tf.constant(1.0), train_op=variable)
        return isinstance(spec.train_op, tf.Tensor)

    assert build("function", make)


@pytest.mark.parametrize("train_op", ["x", 3, object()])
def test_train_op_of_another_kind(graph, train_op):
    with pytest.raises(SpecTypeError, match="train_op must be Operation or Tensor, given: "):
        EstimatorSpec("train", loss=tf.constant(1.0), train_op=train_op)


def test_train_op_that_is_a_list_hints_at_group(graph):
    with pytest.raises(SpecTypeError, match=r"train_op must be Operation or Tensor.*tf\.group"):
        EstimatorSpec("train", loss=tf.constant(1.0), train_op=[tf.no_op()])


# ------------------------------------------------------------------ predictions


@pytest.mark.parametrize(
    ("predictions", "sentence"),
    [
        (3, "predictions must be Tensor, given: 3"),
        ([1], "predictions must be Tensor, given: [1]"),
        ({"k": 3}, "predictions[k] must be Tensor, given: 3"),
    ],
)
def test_predictions_of_another_kind(graph, predictions, sentence):
    with pytest.raises(SpecTypeError, match=re.escape(sentence)):
        EstimatorSpec("infer", predictions=predictions)


def test_sparse_predictions_hint_at_to_dense(graph):
    sparse = tf.sparse.from_dense([[1, 0]])
    with pytest.raises(SpecTypeError, match=r"must be Tensor, given: SparseTensor.*to_dense"):
        EstimatorSpec("infer", predictions=sparse)


def test_symbolic_keras_tensors_are_explained(graph):
    import keras

    with pytest.raises(SpecTypeError, match="Call the Keras model on the features"):
        EstimatorSpec("infer", predictions=keras.Input((2,)))


@pytest.mark.parametrize("make_variable", ["tf", "keras"])
def test_predictions_that_are_variables_are_read(make_variable):
    import keras

    variable = tf.Variable(2.0) if make_variable == "tf" else keras.Variable(2.0)

    def make():
        return type(EstimatorSpec("infer", predictions={"v": variable}).predictions["v"])

    assert issubclass(build("function", make), tf.Tensor)


def test_the_users_dicts_are_not_changed(graph):
    outputs = {"a": PredictOutput(tf.constant(1.0))}
    predictions = {"p": tf.constant(1.0)}
    spec = EstimatorSpec("infer", predictions=predictions, export_outputs=outputs)
    assert list(outputs) == ["a"]
    assert spec.predictions == predictions and spec.predictions is not predictions


# ------------------------------------------------------------------ the current graph


@pytest.mark.parametrize(
    ("mode", "fields", "sentence"),
    [
        ("eval", lambda t: {"loss": t}, 'loss with "Const:0" must be from the default graph.'),
        (
            "train",
            lambda t: {"loss": tf.constant(1.0), "train_op": t.op},
            'train_op with "Const" must be from the default graph.',
        ),
        (
            "infer",
            lambda t: {"predictions": t},
            'prediction values with "Const:0" must be from the default graph.',
        ),
        (
            "infer",
            lambda t: {"predictions": {"k": t}},
            'prediction values with "k: Const:0" must be from the default graph.',
        ),
        (
            "eval",
            lambda t: {"loss": tf.constant(1.0), "eval_metric_ops": {"a": (t, t)}},
            'eval_metric_ops with "a: Const:0" must be from the default graph.',
        ),
    ],
)
def test_tensors_of_another_graph(in_graph, mode, fields, sentence):
    foreign = foreign_tensor()

    def make():
        with pytest.raises(SpecError) as caught:
            EstimatorSpec(mode, **fields(foreign))
        return str(caught.value)

    text = in_graph(make)
    assert sentence in text
    assert "Possible causes of this error include:" in text


def test_tensors_computed_eagerly_are_of_another_graph(in_graph):
    eager = tf.constant(1.0)

    def make():
        with pytest.raises(SpecError, match="must be from the default graph") as caught:
            EstimatorSpec("eval", loss=eager)
        return caught

    assert in_graph(make)


# ------------------------------------------------------------------ executing eagerly


def test_eager_tensors_are_fine_when_executing_eagerly():
    spec = EstimatorSpec(
        "train",
        predictions={"p": tf.constant([1.0])},
        loss=tf.constant([2.0]),
        train_op="done",
        eval_metric_ops={"m": (1.0, None)},
    )
    assert spec.loss.numpy() == 2.0
    assert spec.loss.shape == []
    assert spec.train_op == "done"


def test_missing_train_op_when_executing_eagerly():
    with pytest.raises(SpecError, match="Missing train_op"):
        EstimatorSpec("train", loss=tf.constant(1.0))


def test_loss_must_be_a_tensor_when_executing_eagerly():
    with pytest.raises(SpecTypeError, match=r"loss must be Tensor, given: 3\.0"):
        EstimatorSpec("train", loss=3.0, train_op="done")


# ------------------------------------------------------------------ hooks and scaffold


@pytest.mark.parametrize(
    "field", ["training_hooks", "training_chief_hooks", "evaluation_hooks", "prediction_hooks"]
)
def test_hooks_must_be_session_run_hooks(graph, field):
    with pytest.raises(SpecTypeError, match="All hooks must be SessionRunHook instances, given: a"):
        EstimatorSpec("eval", loss=tf.constant(1.0), **{field: ["a"]})


def test_hooks_become_a_tuple(graph):
    hook = tf.compat.v1.train.SessionRunHook()
    spec = EstimatorSpec("eval", loss=tf.constant(1.0), evaluation_hooks=iter([hook]))
    assert spec.evaluation_hooks == (hook,)


def test_a_single_hook_is_asked_for_as_a_list(graph):
    hook = tf.compat.v1.train.SessionRunHook()
    with pytest.raises(SpecTypeError, match=r"All hooks must be .*Pass a list of them"):
        EstimatorSpec("eval", loss=tf.constant(1.0), evaluation_hooks=hook)


def test_a_hooks_class_is_not_a_hook(graph):
    hooks = [tf.compat.v1.train.SessionRunHook]
    with pytest.raises(SpecTypeError, match=r"pass an instance: SessionRunHook\(\.\.\.\)"):
        EstimatorSpec("eval", loss=tf.constant(1.0), evaluation_hooks=hooks)


def test_scaffold_of_another_kind(graph):
    with pytest.raises(SpecTypeError, match=r"scaffold must be tf\.train\.Scaffold\. Given: a"):
        EstimatorSpec("eval", loss=tf.constant(1.0), scaffold="a")


def test_scaffold_is_kept(graph):
    scaffold = tf.compat.v1.train.Scaffold()
    assert EstimatorSpec("eval", loss=tf.constant(1.0), scaffold=scaffold).scaffold is scaffold


# ------------------------------------------------------------------ export outputs


def export_keys(outputs, mode="infer"):
    tensor = tf.constant(1.0)
    spec = EstimatorSpec(mode, predictions=tensor, loss=tensor, export_outputs=outputs)
    return spec.export_outputs


def test_without_export_outputs_the_predictions_are_served(graph):
    (key,) = export_keys(None)
    assert key == "serving_default"
    assert list(export_keys(None)[key].outputs) == ["output"]


def test_the_only_export_output_is_the_default(graph):
    output = PredictOutput(tf.constant(1.0))
    assert export_keys({"a": output}) == {"a": output, "serving_default": output}


def test_an_only_default_stays_alone(graph):
    assert list(export_keys({"serving_default": PredictOutput(tf.constant(1.0))})) == [
        "serving_default"
    ]


def test_several_export_outputs_need_a_default(graph):
    output = PredictOutput(tf.constant(1.0))
    sentence = "Multiple `export_outputs` were provided, but none of them are specified as the"
    with pytest.raises(SpecError, match=sentence):
        export_keys({"a": output, "b": output})


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        (3, "`export_outputs` must be dict, received: 3."),
        ({"a": 3}, "Values in `export_outputs` must be ExportOutput objects, received: {'a': 3}."),
    ],
)
def test_export_outputs_of_another_kind(graph, outputs, sentence):
    with pytest.raises(SpecTypeError, match=re.escape(sentence)):
        export_keys(outputs)


def test_export_outputs_are_not_looked_at_in_other_modes(graph):
    assert export_keys(3, mode="eval") == 3


def test_other_peoples_export_outputs_are_known_by_their_method(graph):
    class Foreign:
        def as_signature_def(self, receiver_tensors): ...

    assert "serving_default" in export_keys({"a": Foreign()})


# ------------------------------------------------------------------ _replace


def test_replace_checks_again(graph):
    spec = EstimatorSpec("eval", loss=tf.constant(1.0))
    assert spec._replace(loss=tf.constant([2.0])).loss.shape == []
    with pytest.raises(SpecTypeError, match="loss must be Tensor"):
        spec._replace(loss=3)


def test_replace_of_the_mode(graph):
    spec = EstimatorSpec("eval", loss=tf.constant(1.0))
    assert spec._replace(mode="eval").mode == "eval"
    with pytest.raises(SpecError, match=r"mode of EstimatorSpec cannot be changed\."):
        spec._replace(mode="train")


def test_replace_of_an_unknown_field(graph):
    with pytest.raises(SpecError, match="EstimatorSpec has no field 'foo'"):
        EstimatorSpec("eval", loss=tf.constant(1.0))._replace(foo=1)
