"""plugrad-distributed in a single process, and wrong calls."""

import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest

import plugrad
import plugrad_distributed as dist
import plugrad_nn as nn
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad_distributed.reduction import make_buckets
from plugrad_distributed.world import World


@pytest.fixture
def single_process_world():
    yield dist.init("single")
    dist.close()


@pytest.fixture
def weights():
    return plugrad.Variable([1.0, 2.0], name="w"), plugrad.Variable([[3.0]], name="b")


def loss(w, b):
    return plugrad.sum(w * w) * plugrad.sum(b)


def test_distributed_steps_match_the_plain_optimizer(single_process_world, weights):
    w, b = weights
    copies = [plugrad.Variable(x) for x in weights]
    wrapped = dist.DataParallel(plugrad.optimizers.Adam(0.1))
    plain = plugrad.optimizers.Adam(0.1)
    for _ in range(3):
        values = (
            wrapped.minimize(lambda: loss(w, b), [w, b]),
            plain.minimize(lambda: loss(*copies), copies),
        )
        assert values[0].item() == values[1].item()
    assert [x.tolist() for x in weights] == [x.tolist() for x in copies]


@pytest.mark.parametrize("limit", [None, 0.5])
def test_losses_are_scaled_once_and_gradients_clipped_without_the_scale(
    single_process_world, weights, limit
):
    """A step with an infinite gradient is skipped, also if it becomes finite by clipping."""

    def clip(gradients):
        return plugrad.optimizers.clip_by_value(gradients, limit)

    copies = [plugrad.Variable(x) for x in weights]
    inner, plain = (
        plugrad.optimizers.SGD(0.1).with_loss_scale(plugrad.optimizers.LossScale(8.0))
        for _ in range(2)
    )
    if limit:
        plain.with_transforms(clip)
    wrapped = dist.DataParallel(inner, clip=clip if limit else None)
    for factor in (1.0, float("inf"), 1.0):
        values = (
            wrapped.minimize(lambda f=factor: loss(*weights) * f, weights),
            plain.minimize(lambda f=factor: loss(*copies) * f, copies),
        )
        assert values[0].item() == values[1].item()
    assert [x.tolist() for x in weights] == [x.tolist() for x in copies]
    assert inner.loss_scale.value == plain.loss_scale.value == 4.0


def test_fit_in_one_process_scales_the_loss_once(single_process_world):
    found = []
    for strategy in (None, dist.DataParallel()):
        model = nn.Dense(1)
        params = model.init(0, (2,))
        optimizer = plugrad.optimizers.SGD(0.1).with_loss_scale(plugrad.optimizers.LossScale(8.0))
        nn.fit(
            model,
            params,
            plugrad.ones((4, 2)),
            plugrad.ones((4, 1)),
            loss=plugrad.losses.mean_squared_error,
            optimizer=optimizer,
            strategy=strategy,
        )
        found.append(params["kernel"].tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("is_traced", [False, True])
def test_accumulated_gradients_are_part_of_the_step(is_traced, single_process_world):
    w = plugrad.Variable([0.0])
    optimizer = dist.DataParallel(plugrad.optimizers.SGD(1.0))

    def step(x, is_last):
        take = optimizer.minimize if is_last else optimizer.accumulate
        return take(lambda: plugrad.sum(w * x), [w])

    run = plugrad.jit(step) if is_traced else step
    losses = [run(plugrad.asarray(x), is_last).item() for x, is_last in [(1.0, False), (3.0, True)]]
    assert (w.item(), losses) == (-2, [0, 0])
    losses = [run(plugrad.asarray(x), is_last).item() for x, is_last in [(1.0, False), (5.0, True)]]
    assert (w.item(), losses) == (-5, [-2, -6])  # -2 times the mean of 1 and 5

    def both(x, y):
        step(x, False)
        return step(y, True)

    run = plugrad.jit(both) if is_traced else both
    assert run(plugrad.asarray(1.0), plugrad.asarray(3.0)).item() == -10
    assert w.item() == -7


@pytest.mark.parametrize("jit", [False, True])
def test_fit_accumulates_as_without_a_strategy(jit, single_process_world):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(23, 3)).astype(np.float32), rng.integers(0, 2, 23).astype(np.int32)
    weights, model, found = rng.random(23).astype(np.float32), nn.Dense(2), []
    for strategy in (None, dist.DataParallel()):
        params = model.init(0, (3,))
        results = nn.fit(
            model,
            params,
            x,
            y,
            loss=nn.losses.sparse_softmax_cross_entropy,
            optimizer=plugrad.optimizers.SGD(0.5),
            epochs=2,
            batch_size=5,
            sample_weight=weights,
            accumulate=2,
            strategy=strategy,
            jit=jit,
        )
        found.append([*(result["loss"] for result in results), *params["kernel"].numpy().ravel()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_sharded_optimizer_state_has_the_loss_scale(single_process_world, weights):
    inner = plugrad.optimizers.Adam(0.1).with_loss_scale(plugrad.optimizers.LossScale(8.0))
    sharded = dist.DataParallel(inner, shard_state=True)
    sharded.minimize(lambda: loss(*weights) * float("inf"), weights)
    state = sharded.get_state(weights)
    assert state["loss_scale"] == {"scale": 4.0, "good_steps": 0.0}
    inner.loss_scale.set_state({"scale": 2.0, "good_steps": 1.0})
    sharded.set_state(weights, state)
    assert inner.loss_scale.get_state() == state["loss_scale"]


def test_sharded_optimizer_state_matches_the_full_state(single_process_world, weights):
    sharded = dist.DataParallel(plugrad.optimizers.Adam(0.1), shard_state=True)
    sharded.minimize(lambda: loss(*weights), weights)
    state = sharded.get_state(weights)
    plain = plugrad.optimizers.Adam(0.1)
    plain.set_state(weights, state)
    again = plain.get_state(weights)
    assert state["iterations"] == again["iterations"] == 1
    for entry, other in zip(state["variables"], again["variables"], strict=True):
        assert entry.keys() == other.keys() == {"steps", "m", "s"}
        np.testing.assert_array_equal(entry["m"], other["m"])
    with pytest.raises(ArgumentError, match="2 variables, but 1"):
        sharded.set_state(weights[:1], state)


@pytest.mark.parametrize("shard_state", [False, True])
def test_fit_saves_and_continues_with_the_state(shard_state, single_process_world, tmp_path):
    x, y = np.float32([[0, 1], [1, 0], [2, 2]]), np.float32([[1], [2], [3]])

    def train(params, optimizer, strategy, **options):
        loss = plugrad.losses.mean_squared_error
        nn.fit(model, params, x, y, loss=loss, optimizer=optimizer, strategy=strategy, **options)
        return [x.tolist() for x in nn.leaves(params)]

    model = nn.Sequential(nn.BatchNorm(), nn.Dense(1))  # whose averages are not trained
    parallel = dist.DataParallel(shard_state=shard_state)
    save = nn.Checkpoint(tmp_path / "{epoch}.safetensors")
    adam = plugrad.optimizers.Adam(0.1)
    whole = train(model.init(0, (2,)), adam, parallel, epochs=4, callbacks=[save])
    assert whole == train(model.init(0, (2,)), plugrad.optimizers.Adam(0.1), None, epochs=4)

    params, state = plugrad.load(tmp_path / "2.safetensors")
    assert [entry["steps"] for entry in state["variables"]] == [2, 2, 0, 0, 2, 2]
    adam = plugrad.optimizers.Adam(0.1)
    adam.set_state(nn.leaves(params), state)
    assert train(params, adam, parallel, initial_epoch=2, epochs=4) == whole


@pytest.mark.parametrize("shard_state", [False, True])
def test_states_have_an_entry_for_a_variable_that_is_not_trained(
    shard_state, single_process_world, weights
):
    frozen = plugrad.Variable([1.0], trainable=False)
    variables = [weights[0], frozen, weights[1]]
    parallel = dist.DataParallel(plugrad.optimizers.Adam(0.1), shard_state=shard_state)
    parallel.minimize(lambda: loss(*weights) * frozen[0], variables)
    state = parallel.get_state(variables)
    assert [entry["steps"] for entry in state["variables"]] == [1, 0, 1]
    other = dist.DataParallel(plugrad.optimizers.Adam(0.1), shard_state=shard_state)
    other.set_state(variables, state)
    found = other.get_state(variables)
    assert [entry["steps"] for entry in found["variables"]] == [1, 0, 1]
    np.testing.assert_array_equal(found["variables"][2]["m"], state["variables"][2]["m"])


def test_trainings_with_one_strategy_do_not_depend_on_those_before(single_process_world):
    class Interruption(nn.Callback):
        def on_batch_end(self, run, number, loss):
            if number == 3:
                raise KeyboardInterrupt

    def scale(params, x, mode):
        return x * params["w"]

    x = np.arange(8, dtype=np.float32).reshape(8, 1) / 8
    found = []
    for strategy in (None, dist.DataParallel(plugrad.optimizers.SGD(0.1))):
        params = {"w": plugrad.Variable([0.0])}
        options = {
            "loss": plugrad.losses.mean_squared_error,
            "optimizer": strategy.optimizer if strategy else plugrad.optimizers.SGD(0.1),
            "batch_size": 1,
            "strategy": strategy,
        }
        for accumulate in (1, 2):
            options["accumulate"] = accumulate
            with pytest.raises(KeyboardInterrupt):
                nn.fit(scale, params, x, x * 2, **options, callbacks=[Interruption()])
        nn.fit(scale, params, x, x * 2, **options)
        found.append(params["w"].item())
    assert found[0] == pytest.approx(found[1], rel=1e-6)


@pytest.mark.filterwarnings("error")
def test_infinite_gradients_are_accumulated_without_warnings(single_process_world):
    w = plugrad.Variable([1.0])
    optimizer = plugrad.optimizers.SGD(1.0).with_loss_scale(plugrad.optimizers.LossScale(8.0))
    parallel = dist.DataParallel(optimizer)
    for factor in (float("inf"), float("-inf")):
        parallel.accumulate(lambda f=factor: plugrad.sum(w * f), [w])
    parallel.minimize(lambda: plugrad.sum(w), [w])
    assert (w.item(), optimizer.loss_scale.value) == (1, 4)


def test_sharded_state_belongs_to_the_optimizer_and_its_variables(single_process_world, weights):
    """Other lists of variables, and other objects with the same optimizer, go on with it."""
    w, b = weights
    copies = [plugrad.Variable(x) for x in weights]
    inner, plain = plugrad.optimizers.Adam(0.1), plugrad.optimizers.Adam(0.1)
    for chosen in ([0, 1], [1], [0, 1]):
        sharded = dist.DataParallel(inner, shard_state=True)
        sharded.minimize(lambda: loss(w, b), [weights[i] for i in chosen])
        plain.minimize(lambda: loss(*copies), [copies[i] for i in chosen])
    assert [x.tolist() for x in weights] == [x.tolist() for x in copies]
    state = sharded.get_state(weights)
    assert [entry["steps"] for entry in state["variables"]] == [2, 3]


def test_traced_step_cannot_divide_a_state(single_process_world, weights):
    adam = plugrad.optimizers.Adam(0.1)
    adam.minimize(lambda: loss(*weights), weights)
    sharded = dist.DataParallel(adam, shard_state=True)
    step = plugrad.jit(lambda: sharded.minimize(lambda: loss(*weights), weights))
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"call prepare\(variables\)"):
            step()
    sharded.prepare(weights)
    assert [entry["steps"] for entry in adam.get_state(weights)["variables"]] == [0, 0]  # moved
    step()
    assert sharded.get_state(weights)["variables"][0]["steps"] == 2


def test_sharded_optimizer_rejects_transforms_and_groups(single_process_world, weights):
    w, b = weights
    inner = plugrad.optimizers.Adam(0.1).with_transforms(plugrad.optimizers.centralize)
    sharded = dist.DataParallel(inner, shard_state=True)
    with pytest.raises(ArgumentError, match=r"transforms of an optimizer.*pass clip= instead"):
        sharded.minimize(lambda: loss(w, b), [w, b])
    inner.with_transforms().set_group([b], learning_rate=0.5)
    with pytest.raises(ArgumentError, match="leave out set_group or shard_state"):
        sharded.minimize(lambda: loss(w, b), [w, b])


def test_sums_over_ranks_are_of_numbers(single_process_world):
    with pytest.raises(DTypeError, match=r"x is bool, which has no sums; convert it"):
        dist.all_reduce(plugrad.asarray([True]))


def test_buckets_begin_with_the_last_variables_and_hold_one_dtype():
    variables = [
        plugrad.Variable(plugrad.zeros(size, dtype=dtype))
        for size, dtype in ((4, "float32"), (2, "float16"), (3, "float32"), (100, "float32"))
    ]
    found = make_buckets(variables, 28)
    assert [(str(b.dtype), b.positions, b.element_count) for b in found] == [
        ("float32", (3,), 100),
        ("float32", (2, 0), 7),
        ("float16", (1,), 2),
    ]


class CountingCollective:
    """A collective of one rank of a world, without communication."""

    name = "counting"
    local_rank = 0

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_batches_are_divided_among_ranks_without_overlap_or_gap(monkeypatch, size, count):
    seen = []
    for rank in range(size):
        world = World(CountingCollective(rank, size), timeout=1.0)
        monkeypatch.setattr("plugrad_distributed.startup._current_world", world)
        (share,) = dist.shard([{"x": np.arange(count), "y": [np.arange(count)]}])
        assert len(share["x"]) == len(share["y"][0]) > 0
        world.examples = None
        for _ in dist.shard([np.arange(count)]):
            seen += share["x"].tolist()[: world.examples]
    monkeypatch.undo()
    assert seen == list(range(count))


def test_batches_are_checked(single_process_world):
    with pytest.raises(ShapeError, match=r"\[2, 3\] examples"):
        list(dist.shard([(np.zeros(2), np.zeros(3))]))
    with pytest.raises(ArgumentError, match="first axis"):
        list(dist.shard([1.0]))


def test_a_loop_in_a_loop_leaves_the_examples_of_the_outer_batch(single_process_world):
    for _ in dist.shard([np.arange(5)]):
        for _ in dist.shard([np.arange(3)]):
            assert single_process_world.examples == 3
        assert single_process_world.examples == 5
    assert single_process_world.examples is None


def test_named_tuples_are_divided(single_process_world):
    pair = namedtuple("Pair", ["x", "y"])
    (share,) = dist.shard([pair(np.arange(2), np.arange(2))])
    assert share.y.tolist() == [0, 1]


def test_gradients_are_kept_only_if_requested_before_the_step(single_process_world, weights):
    optimizer = dist.DataParallel(plugrad.optimizers.SGD(0.1))
    optimizer.minimize(lambda: loss(*weights), weights)
    with pytest.raises(ArgumentError, match="before the first minimize"):
        optimizer.accumulate(lambda: loss(*weights), weights)


def test_wrong_arguments_are_named(single_process_world):
    dist.close()
    with pytest.raises(dist.CollectiveNotFound, match=r"'mpj'.* gloo, mpi, single"):
        dist.init("mpj")
    dist.init("single")
    with pytest.raises(ArgumentError, match="joined a world by 'single'"):
        dist.init("gloo")
    with pytest.raises(ArgumentError, match="optimizer=3"):
        dist.DataParallel(3)
    with pytest.raises(ArgumentValueError, match="bucket_bytes=0"):
        dist.DataParallel(bucket_bytes=0)
    with pytest.raises(ArgumentError, match="pass one"):
        _ = dist.DataParallel().optimizer
    with pytest.raises(ArgumentError, match="is not a Variable"):
        dist.broadcast([plugrad.ones(1)])
    with pytest.raises(ArgumentError, match="root=1"):
        dist.broadcast([], root=1)
    dist.close()
    with pytest.raises(ArgumentError, match=r"call dist\.init"):
        dist.barrier()
    with pytest.raises(ArgumentValueError, match="timeout=0"):
        dist.init(timeout=0)


def test_error_for_a_missing_collective_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(dist.CollectiveUnavailable, match=r'pip install "plugrad\[mpi\]"'):
        dist.init("mpi")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(dist.CollectiveUnavailable, match="torch cannot be imported"):
        dist.init("gloo")


def test_importing_plugrad_distributed_imports_no_collective_library():
    code = (
        "import sys, plugrad; assert 'plugrad_distributed' not in sys.modules\n"
        "import plugrad_distributed as dist; dist.init()\n"
        "assert not {'mpi4py', 'torch', 'ray', 'plugrad_nn'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("options", [{}, {"class_weight": [1.0, 0.5]}, {"ignore_index": 1}])
@pytest.mark.parametrize("make", [np.asarray, plugrad.asarray])
def test_weights_are_not_read_in_each_batch(single_process_world, monkeypatch, options, make):
    def count_reads(batches):
        x, y = np.ones((4 * batches, 2), np.float32), np.arange(4 * batches, dtype=np.int32) % 2
        reads.clear()
        nn.fit(
            nn.Dense(2),
            params,
            make(x),
            make(y),
            sample_weight=make(y.astype(np.float32)),
            loss=nn.losses.sparse_softmax_cross_entropy,
            optimizer=plugrad.optimizers.SGD(0.1),
            batch_size=4,
            strategy=dist.DataParallel(),
            jit=False,
            **options,
        )
        return len(reads)

    params = nn.Dense(2).init(0, (2,))
    reads = []
    backend = params["kernel"].backend
    read = backend.to_numpy
    monkeypatch.setattr(backend, "to_numpy", lambda array: [reads.append(array), read(array)][1])
    assert count_reads(9) == count_reads(2)


def test_weights_of_an_iterable_may_be_tensors_or_arrays(single_process_world):
    def train(convert):
        params = nn.Dense(2).init(0, (2,))
        batch = (x, convert(y), convert(np.float32([0, 1, 2])))
        optimizer = plugrad.optimizers.SGD(0.1)
        options = {"loss": nn.losses.sparse_softmax_cross_entropy, "optimizer": optimizer}
        options |= {"class_weight": [1.0, 0.5], "strategy": dist.DataParallel()}
        return nn.fit(nn.Dense(2), params, [batch], **options), params["kernel"].tolist()

    x, y = np.float32([[1, 2], [3, 4], [5, 6]]), np.int32([0, 1, 0])
    assert train(np.asarray) == train(plugrad.asarray) == train(lambda a: a.tolist())
