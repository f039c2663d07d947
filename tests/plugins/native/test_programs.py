"""Compiled graphs: what C runs equals untraced calls to the bit, a wrong table is an error, and nothing is lost."""

import contextlib
import gc
import signal
import threading
from functools import partial
from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugins.comparing import assert_close_when_traced, assert_same_when_traced, random_tensor
from plugrad.discovery.loading import open_backend
from plugrad.extend import find_groups
from plugrad_cpu.memory import pool
from plugrad_cpu.threads import thread_pool

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
open_backend("cpu")
compiler = import_module("plugrad_native.programs.compile")
elementwise = import_module("plugrad_native.programs.elementwise")

PLACE, NUMBER, COUNT, ABSENT = 4, 0, 1, 3


# --- tables -------------------------------------------------------------------------------------


def make_program(words, sizes=(0, 1, 1, 40, 40), functions=("relu_float32",), constants=()):
    table = np.array(words, np.int64), np.array(sizes, np.int64)
    return variants.current_variant().make_program(*table, functions, constants, np.ufunc)


LOOP, REPEAT, CHOOSE, WHILE = range(4)
LOOP_ONCE_WORDS = [REPEAT, 1, 1, LOOP]
RELU_WORDS = [*LOOP_ONCE_WORDS, 10, 4, 1, 0, PLACE, 1, 0, 4, 0, 4, PLACE, 2, 0, 4, 0, 4, COUNT, 1]


def test_a_table_of_one_call():
    x, y = np.arange(-5, 5, dtype="f4"), np.empty(10, "f4")
    assert make_program(RELU_WORDS)(x, y) is None
    np.testing.assert_array_equal(y, np.maximum(x, 0))


STEP_WORDS = (12, 18)
"""How far places move from time to time, of nodes that run once."""
HARMLESS_WORDS = {1, 5, *STEP_WORDS}
"""With them, how often it runs, and the size of a block."""


@pytest.mark.parametrize("position", range(len(RELU_WORDS)))
@pytest.mark.parametrize("number", [-1, 100, 2**31, 2**62])
def test_any_number_that_is_out_of_range_is_an_error(position, number):
    words = [*RELU_WORDS]
    words[position] = number
    if number <= 100 and position in HARMLESS_WORDS and (number > 0 or position in STEP_WORDS):
        return
    with pytest.raises(ValueError, match="table"):
        make_program(words)


@pytest.mark.parametrize("length", range(1, len(RELU_WORDS)))
def test_a_table_that_ends_early_is_an_error(length):
    with pytest.raises(ValueError, match="table"):
        make_program(RELU_WORDS[:length])


ADD_WORDS = [*LOOP_ONCE_WORDS, 10, 4, 1, 0]
ADD_WORDS += [*[PLACE, 1, 0, 4, 0, 4] * 2, PLACE, 2, 0, 4, 0, 4, COUNT, 1]
"""The steps of both operands follow."""


@pytest.mark.parametrize("step", [0, 1])
def test_arrays_have_the_items_that_numbers_say(step):
    run = make_program([*ADD_WORDS, NUMBER, 1, NUMBER, step], functions=("add_float32",))
    x, y = np.arange(10, dtype="f4"), np.empty(10, "f4")
    run(x, y)
    np.testing.assert_array_equal(y, x + (x if step else np.repeat([0, 4, 8], [4, 4, 2])))


@pytest.mark.parametrize("factor", [2, 3, 1000])
@pytest.mark.parametrize("step", [0, 1])
def test_arrays_with_fewer_items_than_numbers_say_are_errors(factor, step):
    words = [*ADD_WORDS[:-1], factor, NUMBER, 1, NUMBER, step]
    with pytest.raises(ValueError, match="fewer items"):
        make_program(words, functions=("add_float32",))


@pytest.mark.parametrize("outer", [1, 2, 3, 2**30])
def test_program_that_sums_too_many_items_is_rejected(outer):
    """The table asks for sums of ten numbers each, of an array of twenty, into an array of two."""
    places = [PLACE, 1, 0, 0, 0, 80, PLACE, 2, 0, 0, 0, 8]
    words = [*LOOP_ONCE_WORDS, 1, 1, 1, 0, *places, NUMBER, outer, NUMBER, 10, NUMBER, 1]
    make = partial(make_program, words, (0, 1, 1, 80, 8), ("sum_float32",))
    if outer > 2:
        with pytest.raises(ValueError, match="fewer items"):
            make()
    else:
        make()(np.ones(20, "f4"), y := np.zeros(2, "f4"))
        np.testing.assert_array_equal(y, [10] * outer + [0] * (2 - outer))


@pytest.mark.parametrize("step", [4, 8])
@pytest.mark.parametrize("count", [1, 2])
def test_numpy_loops_stay_within_their_arrays(step, count):
    places = [PLACE, 1, 0, 4, 0, 4, PLACE, 2, 0, 4, 0, 4]
    steps = [PLACE, 3, 0, 0, 0, 16]
    words = [*LOOP_ONCE_WORDS, 10, 4, 1, 0, COUNT, count, ABSENT, *steps, *places]
    functions = ((np.absolute, np.absolute.types.index("f->f")),)
    make = partial(make_program, words, functions=functions, constants=(np.array([4, step]),))
    if step == 4 and count == 1:
        make()(np.full(10, -1, "f4"), y := np.empty(10, "f4"))
        assert (y == 1).all()
    else:
        with pytest.raises(ValueError, match="fewer items"):
            make()


@pytest.mark.parametrize("changed", range(4))
def test_numpy_products_stay_within_their_matrices(changed):
    sizes = [1, 2, 3, 4]
    sizes[changed] += 1
    steps = np.array([24, 48, 32, 12, 4, 16, 4, 16, 4])
    places = [PLACE, 1, 0, 0, 0, 24, PLACE, 2, 0, 0, 0, 48, PLACE, 3, 0, 0, 0, 32]
    constant_places = [PLACE, 4, 0, 0, 0, 32, PLACE, 5, 0, 0, 0, 72]
    words = [*LOOP_ONCE_WORDS, 1, 1, 1, 0, NUMBER, 0, *constant_places, *places]
    functions = ((np.matmul, np.matmul.types.index("ff->f")),)
    with pytest.raises(ValueError, match="fewer items"):
        make_program(words, (0, 2, 1, 24, 48, 32), functions, (np.array(sizes), steps))


def test_choices_and_loops_follow_flags():
    """A number doubles while it is below 100; then a conditional negates it, or not."""
    x, flag = [PLACE, 1, 0, 0, 0, 4], [PLACE, 2, 0, 0, 0, 1]
    y, small = [PLACE, 2, 4, 0, 0, 4], [PLACE, 0, 0, 0, 0, 1]
    limit = [PLACE, 3, 0, 0, 0, 4]
    steps = [PLACE, 4, 0, 0, 0, 24]
    tail = [COUNT, 1, NUMBER, 0, NUMBER, 0]

    def call(function, *operands):
        return [LOOP, 1, 1, 1, function, *[w for o in operands for w in o]]

    words = [
        *call(0, x, x, y, tail),
        *(WHILE, 1, 1, *call(1, [COUNT, 1, ABSENT], steps, y, limit, small), *small),
        *call(0, y, y, y, tail),
        *(CHOOSE, *flag, 1, 0, *call(2, y, y, [COUNT, 1])),
    ]
    less = np.less, np.less.types.index("ff->?")
    parts = {
        "sizes": (64, 1, 1, 4, 8),
        "functions": ("add_float32", less, "negative_float32"),
        "constants": (np.array([100], "f4"), np.zeros(3, np.int64)),
    }
    run = make_program(words, **parts)
    for is_negated in (False, True):
        out = np.zeros(2, "f4")
        out[:1].view("u1")[0] = is_negated
        run(np.array([3], "f4"), out)
        assert out[1] == (-192 if is_negated else 192)
    for place in range(len(words)):
        for number in (-1, 2**40):
            wrong = [*words]
            wrong[place] = number
            with contextlib.suppress(ValueError):
                make_program(wrong, **parts)
    with pytest.raises(ValueError, match="flag has no bytes"):
        make_program([CHOOSE, *flag[:-1], 0, 0, 0])
    with pytest.raises(ValueError, match="levels"):
        make_program([REPEAT, 1, 1] * 40 + RELU_WORDS)
    with pytest.raises(ValueError, match="too long"):
        make_program([REPEAT, 2**30, 1] * 4 + RELU_WORDS)


def test_wrong_functions_sizes_and_arrays_are_errors():
    with pytest.raises(AttributeError, match="no kernel 'absent'"):
        make_program(RELU_WORDS, functions=("absent",))
    with pytest.raises(ValueError, match="ufunc"):
        make_program(RELU_WORDS, functions=((np.add, 1000),))
    with pytest.raises(ValueError, match="ufunc"):
        make_program(RELU_WORDS, functions=((len, 0),))
    for sizes in ((0, 1, 1, 40), (-1, 1, 1, 40, 40), (0, 1, 1, 40, -40), (0, 2**40, 1, 40, 40)):
        with pytest.raises(ValueError, match="sizes"):
            make_program(RELU_WORDS, sizes=sizes)
    run = make_program(RELU_WORDS)
    x = np.zeros(10, "f4")
    with pytest.raises(ValueError, match="36 bytes instead of 40"):
        run(x[1:], x)
    with pytest.raises(BufferError):
        run(np.zeros(20, "f4")[::2], x)
    with pytest.raises(TypeError, match="takes 2 arrays"):
        run(x)


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(), (3,), (700,), (33, 70)])
def test_groups_of_each_dtype(dtype, shape):
    x, y = random_tensor(*shape, dtype=dtype), random_tensor(*shape[-1:], dtype=dtype, seed=1)

    def f(x, y):
        a = x * y + x
        b = plugrad.where(a > y, a, x)
        return b - y, plugrad.maximum(b, y).astype("float32"), (a == b) | (x > y)

    assert_same_when_traced(f, x, y)


@pytest.mark.parametrize("size", [5, 300, 5000])
def test_functions_of_each_size(size):
    x = random_tensor(size)

    def f(x):
        y = plugrad.exp(-plugrad.abs(x)) + 1
        z = plugrad.tanh(plugrad.log(y) * x) + plugrad.sin(x) * plugrad.sigmoid(x)
        whole = plugrad.floor(x) + plugrad.round(z) * plugrad.ceil(y) - plugrad.trunc(x)
        return z, plugrad.gelu(z) / plugrad.sqrt(y), plugrad.elu(x) - plugrad.softplus(z), whole

    assert_same_when_traced(f, x)


def test_broadcasting_along_every_axis():
    a, b, c, d = (
        random_tensor(5, 1, 7),
        random_tensor(1, 6, 1),
        random_tensor(6, 7),
        random_tensor(5, 6, 7),
    )
    assert_same_when_traced(
        lambda a, b, c, d: ((a + b) * c - d, a * 2 + b, d / (c * b)), a, b, c, d
    )
    rows, columns, table = random_tensor(300, 1), random_tensor(700), random_tensor(300, 700)
    assert_same_when_traced(lambda r, c, t: t * r + c - plugrad.exp(c), rows, columns, table)


def test_results_that_are_arguments_constants_views_or_twice_the_same():
    x, closed_over = random_tensor(4, 6), random_tensor(3)

    def f(x, y):
        z = x + 1
        return x, closed_over, z, z, z.reshape(24), x.reshape(3, 8), y

    assert_same_when_traced(f, x, random_tensor(2))


def test_arrays_that_are_not_contiguous_are_replayed():
    x = random_tensor(40, 30)
    assert_same_when_traced(lambda x: plugrad.sum(plugrad.exp(x) * 2 - x, axis=0), x.T)
    assert_same_when_traced(lambda x: plugrad.exp(x) * 2, x[::2])


def test_calls_that_read_noncontiguous_parts_are_replayed(monkeypatch):
    """Other steps that could run in one program with it were once replayed, too."""
    replayed = []
    run = compiler._LoopwiseReplay.__call__
    monkeypatch.setattr(
        compiler._LoopwiseReplay,
        "__call__",
        lambda self, *arrays: replayed.append(self.caller.body) or run(self, *arrays),
    )

    def function(x, w):
        start = plugrad.sin(plugrad.reshape(x[:, 2:3], (1, 20)))  # which no group slices itself
        return plugrad.exp(start @ w) @ w, plugrad.exp(x[2:4])

    assert_same_when_traced(function, random_tensor(20, 5), random_tensor(20, 20))
    assert {len(body.steps) for body in replayed} == {1}


def test_a_training_step():
    def train():
        w = plugrad.Variable(random_tensor(8, 4).numpy(), name="w")
        optimizer = plugrad.optimizers.Adam(0.1)
        x, labels = random_tensor(16, 8, seed=2), plugrad.one_hot(np.arange(16) % 4, 4)

        def step(x, labels):
            return optimizer.minimize(
                lambda: plugrad.losses.softmax_cross_entropy(labels, plugrad.relu(x @ w)), [w]
            )

        return w, step, x, labels

    w, step, x, labels = train()
    other, plain, _, _ = train()
    run = plugrad.jit(step)
    for _ in range(4):
        assert run(x, labels).item() == plain(x, labels).item()
        assert w.numpy().tobytes() == other.numpy().tobytes()


def test_overrides_and_settings_take_effect_in_compiled_functions():
    x = random_tensor(3)
    f = plugrad.jit(lambda x: plugrad.relu(x) + 1)
    expected = f(x).numpy()
    with plugrad.override_kernel("Relu", "cpu", lambda x: x * 0 + 5):
        np.testing.assert_array_equal(f(x).numpy(), [6, 6, 6])
    np.testing.assert_array_equal(f(x).numpy(), expected)
    calls = []
    noted = plugrad.jit(lambda x: calls.append(1) or x + 1)
    with plugrad.config.override("jit", "off"):
        noted(x)
        noted(x)
    assert len(calls) == 2
    with plugrad.config.override("jit", "replay"):
        noted(x)
        noted(x)
    assert len(calls) == 3


def test_threads_share_a_program():
    f = plugrad.jit(lambda x: plugrad.exp(x) * 2 + plugrad.sum(x))
    xs = [random_tensor(20_000, seed=seed) for seed in range(4)]
    expected = [f(x).numpy() for x in xs]
    wrong = []

    def work(x, y):
        for _ in range(50):
            if f(x).numpy().tobytes() != y.tobytes():
                wrong.append(x)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(xs, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_interrupt_between_steps_changes_no_variable():
    v = plugrad.Variable(random_tensor(1_000_000).numpy())
    before = v.numpy().copy()

    @plugrad.jit
    def step():
        y = v
        for _ in range(30):
            y = plugrad.exp(y - plugrad.max(y))
        v.assign(y)

    step()
    v.assign(before)

    def repeat():
        for _ in range(1000):
            step()
            v.assign(before)

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    old = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        with pytest.raises(Stop):
            repeat()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_every_elementwise_rule_names_a_function_that_exists():
    assert len(elementwise.ELEMENTWISE_RULES) > 60
    graph = plugrad.make_graph(lambda x: plugrad.exp(x) + x)(random_tensor(4))
    assert find_groups(graph)
    assert compiler.compile_graph(graph) is not None


# --- loops over rows ----------------------------------------------------------------------------


def softmax(x):
    y = plugrad.exp(x - plugrad.max(x, axis=-1, keepdims=True))
    return y / plugrad.sum(y, axis=-1, keepdims=True)


def layer_norm(x):
    centred = x - plugrad.mean(x, axis=-1, keepdims=True)
    return centred / plugrad.sqrt(plugrad.mean(centred * centred, axis=-1, keepdims=True) + 1e-3)


def cross_entropy(x):
    return -plugrad.mean(plugrad.sum(plugrad.log_softmax(x) * plugrad.abs(x), axis=-1))


def pairwise_directions(x):
    between = x[:, None, :] - x[None, :, :]
    squares = plugrad.sum(between * between, axis=-1, keepdims=True) + 0.1
    return plugrad.sum(between * plugrad.rsqrt(squares), axis=1), squares


def scaled_by_row_sums(x):
    total = plugrad.sum(x, axis=1)
    wide = plugrad.broadcast_to(total[:, None], x.shape)
    return wide * x + total[:, None], wide, (wide - x).reshape(x.shape[0], -1, 1) * 2


ROW_FUNCTIONS = [softmax, layer_norm, cross_entropy, pairwise_directions, scaled_by_row_sums]


@pytest.mark.parametrize("function", ROW_FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(2, 3), (64, 10), (40, 256), (3, 1), (300, 16)])
def test_row_loops_match_untraced_calls(function, shape):
    x = random_tensor(*shape)
    assert_same_when_traced(function, x)

    def loss(x):
        found = function(x)
        parts = found if isinstance(found, tuple) else (found,)
        return sum(plugrad.sum(plugrad.sin(y)) for y in parts)

    assert_close_when_traced(plugrad.grads(loss), x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8"])
def test_rows_that_read_wider_elements_than_they_make(dtype):
    """The scratch memory of a loop over rows once had the size of the results only."""
    a, b = random_tensor(5, dtype=dtype), random_tensor(6, 7, dtype=dtype, seed=1)

    def compare(a, b):
        return plugrad.reshape(a, (5, 1, 1)) <= b

    def choose(a, b):
        below = compare(a, b)
        return plugrad.where(plugrad.logical_and(below, plugrad.reshape(a, (5, 1, 1)) > 0), b, 0)

    assert_same_when_traced(compare, a, b)
    assert_same_when_traced(choose, a, b)


@pytest.mark.parametrize("function", [lambda x: x, plugrad.exp])
def test_rows_that_are_repeated_and_then_have_another_shape(function):
    def repeat(x):
        rows = plugrad.broadcast_to(plugrad.reshape(function(x), (33, 1, 70, 1)), (33, 2, 70, 1))
        return plugrad.reshape(rows, (33, 1, 2, 70, 1)), plugrad.mean(rows, axis=3)

    assert_same_when_traced(repeat, random_tensor(33, 70, dtype="float64"))


# --- products -------------------------------------------------------------------------------------


def attention_loss(x, w):
    """Return a loss of self-attention: views, products of them, and sums over the results."""

    def heads(x, *order):
        return plugrad.permute_dims(plugrad.reshape(x, (16, 32, 4, 8)), order)

    scores = heads(x @ w, 0, 2, 1, 3) @ heads(x, 0, 2, 3, 1)
    y = plugrad.permute_dims(plugrad.softmax(scores) @ heads(x, 0, 2, 1, 3), (0, 2, 1, 3))
    return plugrad.mean(plugrad.square(plugrad.reshape(y, (16, 32, 32)) @ w.T))


def test_products_of_transposed_matrices():
    assert_same_when_traced(
        plugrad.value_and_grad(attention_loss, (0, 1)),
        random_tensor(16, 32, 32),
        random_tensor(32, 32),
    )


def test_a_transformer_trains_to_the_same_bits():
    nn = pytest.importorskip("plugrad_nn")
    attend = nn.Residual(nn.LayerNorm(), nn.MultiHeadAttention(4, 8, causal=True), nn.Dropout(0.1))
    think = nn.Residual(nn.LayerNorm(), nn.Dense(64, plugrad.relu), nn.Dense(32))
    model = nn.Sequential(
        nn.Embedding(20, 32), nn.PositionEmbedding(32), attend, think, nn.Dense(20)
    )
    x, y = (plugrad.asarray(np.random.default_rng(i).integers(20, size=(16, 32))) for i in (0, 1))

    def trained(wrap):
        params, optimizer = model.init(0, (32,)), plugrad.optimizers.Adam(lambda n: 0.01 / (n + 1))
        mode = nn.Training(lambda: optimizer.iterations)

        def loss():
            return nn.losses.sparse_softmax_cross_entropy(y, model(params, x, mode))

        step = wrap(lambda: optimizer.minimize(loss, nn.leaves(params)))
        return [step().item() for _ in range(3)], [v.numpy() for v in nn.leaves(params)]

    (losses, values), (others, expected) = trained(plugrad.jit), trained(lambda f: f)
    assert losses == others
    for a, b in zip(values, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("turned", [{}, {"transpose_a": True}, {"transpose_b": True}])
@pytest.mark.parametrize("shapes", [((32, 32, 32), (32, 32, 32)), ((32, 32), (16, 32, 32))])
def test_products_of_many_small_matrices(shapes, turned):
    a, b = (random_tensor(*shape) for shape in shapes)
    assert_same_when_traced(lambda a, b: plugrad.matmul(a, b, **turned), a, b)
    exact = [x.numpy().astype("f8") for x in (a, b)]
    if turned:
        place = "transpose_b" in turned
        exact[place] = exact[place].swapaxes(-1, -2)
    found = plugrad.matmul(a, b, **turned)
    np.testing.assert_allclose(found.numpy(), exact[0] @ exact[1], atol=2e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize(
    "shapes",
    [
        *(((32, 1), (1, 32)), ((5, 1), (1, 7)), ((1, 1), (1, 9)), ((3, 4, 1), (3, 1, 5))),
        *(((2, 3, 4, 1), (1, 6)), ((3, 4, 1), (1, 1, 5)), ((3, 1, 4, 1), (2, 1, 5))),
    ],
)
def test_outer_products(dtype, shapes):
    """Results have the bits of BLAS, which adds products to 0 and so turns -0 into 0."""
    a, b = (
        random_tensor(*shape, dtype=dtype, seed=i).numpy().copy() for i, shape in enumerate(shapes)
    )
    a[..., 0, 0], b[..., -1] = -1, 0
    if a.dtype.kind == "f":
        a[..., -1, 0], b[..., 0, 0] = 1e-5, -np.inf
    x, y = (plugrad.asarray(z, device="cpu") for z in (a, b))
    assert_same_when_traced(lambda x, y: plugrad.tanh((x @ y).astype("float32")), x, y)
    assert_same_when_traced(lambda x, y: x @ y, x, y)
    assert_same_when_traced(
        lambda x, y: x.mT @ y, plugrad.asarray(a.swapaxes(-1, -2).copy(), device="cpu"), y
    )
    assert_same_when_traced(
        lambda x, y: x @ y.mT, x, plugrad.asarray(b.swapaxes(-1, -2).copy(), device="cpu")
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_array_of_all_pairs_is_never_materialized(threads, monkeypatch):
    monkeypatch.setattr(thread_pool, "count", threads)
    x = random_tensor(1000, 3)
    run = plugrad.jit(lambda x: pairwise_directions(x)[0])
    run(x)
    monkeypatch.setattr(pool, "_peak", 0)  # that of other tests
    before = plugrad.memory().backends["cpu:0"].bytes
    run(x)
    assert plugrad.memory().backends["cpu:0"].peak - before < 10 * 1000 * 1000 * 4
    assert_close_when_traced(lambda x: (pairwise_directions(x)[0],), x)


@pytest.mark.parametrize("mode", ["compile", "replay"])
def test_200_interrupts_of_a_training_loop_lose_no_step(mode):
    w = plugrad.Variable(np.zeros(3000, "f4"), name="w")
    optimizer = plugrad.optimizers.SGD(1.0)
    step = plugrad.jit(lambda: optimizer.minimize(lambda: plugrad.sum(w * 1), [w]))

    class Stop(Exception):
        pass

    rung = False

    def stop(*_):
        nonlocal rung
        rung = True
        raise Stop

    def train(pause):
        nonlocal rung
        rung = False
        signal.setitimer(signal.ITIMER_REAL, pause)
        while not rung:
            step()

    gc.collect()  # Python drops what is raised while it collects what other tests have left

    pauses = np.random.default_rng(0).uniform(1e-4, 2e-3, 200)
    old = signal.signal(signal.SIGALRM, stop)
    try:
        with plugrad.config.override("jit", mode):
            step()
            for pause in pauses:
                with pytest.raises(Stop):  # else what the alarm raised has been dropped
                    train(pause)
                assert (w.numpy() == -optimizer.iterations).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_reshaped_large_constants_share_memory(rng):
    """A reshaped constant that is too large to be computed while tracing shares the constant's memory."""
    w = plugrad.asarray(rng.normal(size=(1, 64, 32)).astype(np.float32), device="cpu")

    def f(x):
        return plugrad.tanh(plugrad.tanh(x @ plugrad.reshape(w, (64, 32))) + 1)

    x = plugrad.asarray(rng.normal(size=(8, 64)).astype(np.float32), device="cpu")
    np.testing.assert_array_equal(plugrad.jit(f)(x).numpy(), f(x).numpy())
