"""The program of each rank in the tests: it runs the scenarios named on the command line in order.

Rank 0 prints the results of all as one line of JSON, after a mark.
"""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import plugrad
import plugrad_distributed as dist
import plugrad_nn as nn

RESULTS_MARK = "RESULTS "
STEP_COUNT = 40


def make_examples():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(77, 6)).astype(np.float32)
    return x, (x[:, 0] > x[:, 1]).astype(np.int32) + (x[:, 2] > 0).astype(np.int32)


def iter_batches():
    """Return batches of 19 examples, which no world size divides, and a last batch with 1."""
    x, y = make_examples()
    epochs = range(STEP_COUNT // 5 + 1)
    return [batch for epoch in epochs for batch in nn.batches(x, y, size=19, seed=epoch)][
        :STEP_COUNT
    ]


def hash_variables(variables):
    return hashlib.sha256(b"".join(v.numpy().tobytes() for v in variables)).hexdigest()


def gather_results(world, **found):
    """Return the results of a rank, and whether all ranks have the same variables."""
    if "digest" in found:
        found["equal"] = (
            len(set(world.submit(world.gather_texts, found.pop("digest")).result())) == 1
        )
    return found


def count_summed_bytes(world):
    """Return the bytes that have been summed over the ranks."""
    return sum(e.nbytes for e in world.exchanges if e.operation == "all_reduce")


DROPOUT_MASK = np.random.default_rng(1).random((19, 8)) < 0.5


def train(
    world, *, jit=False, optimizer=None, dropout=True, steps=STEP_COUNT, accumulate=False, **options
):
    """Train with batch normalization, and dropout with a fixed mask of the examples."""
    before = count_summed_bytes(world)
    first, last = nn.Dense(8, use_bias=False), nn.Dense(3)
    norm = nn.BatchNorm(momentum=0.9)
    params = {
        "first": first.init(world.rank, (6,)),
        "norm": norm.init(0, (8,)),
        "last": last.init(1, (8,)),
    }
    variables = nn.leaves(params)
    dist.broadcast(variables)
    optimizer = dist.DataParallel(
        optimizer or plugrad.optimizers.Momentum(0.1), bucket_bytes=100, **options
    )

    def step(x, y, mask, keeps):
        minimize = optimizer.accumulate if keeps else optimizer.minimize
        training = nn.Training(0, moments=dist.moments if world.size > 1 else None)

        def loss():
            hidden = norm(params["norm"], first(params["first"], x), training["norm"])
            hidden = plugrad.relu(hidden) * mask if dropout else plugrad.relu(hidden)
            return nn.losses.sparse_softmax_cross_entropy(y, last(params["last"], hidden))

        value = minimize(loss, variables)
        training.commit(params)
        return value

    run = plugrad.jit(step) if jit else step
    losses = []
    whole = [
        (x, y, plugrad.asarray(DROPOUT_MASK[: len(x)].astype(np.float32)))
        for x, y in iter_batches()[:steps]
    ]
    for number, (x, y, mask) in enumerate(dist.shard(whole)):
        losses.append(run(x, y, mask, accumulate and number % 2 == 0).item())
    weights = np.concatenate([v.numpy().ravel() for v in variables]).tolist()
    state = optimizer.get_state(variables)
    found = gather_results(world, losses=losses, weights=weights, digest=hash_variables(variables))
    slots = [np.abs(entry["momentum"]).sum() for entry in state["variables"] if "momentum" in entry]
    return {
        **found,
        "slots": float(np.sum(slots)),
        "summed": count_summed_bytes(world) - before,
    }


def train_on_backends(world):
    """Return the same training on each backend, and with ranks on different backends."""
    found = {}
    for name in os.environ["DISTRIBUTED_BACKENDS"].split(","):
        with plugrad.use(name):
            steps = STEP_COUNT if name == "cpu" else int(os.environ.get("DISTRIBUTED_STEPS", "4"))
            found[name] = train(world, steps=steps)
            found[f"{name} traced"] = train(world, jit=True, steps=steps)
    return found


def train_on_mixed_backends(world):
    names = os.environ["DISTRIBUTED_BACKENDS"].split(",")
    with plugrad.use(names[world.rank % len(names)]):
        steps = int(os.environ.get("DISTRIBUTED_STEPS", "4"))
        return train(world, shard_state=True, jit=True, steps=steps)


def train_in_variants(world):
    """Return the weights of trainings that must all agree."""

    def clip(gradients):
        return plugrad.optimizers.clip_by_global_norm(gradients, 0.2)

    return {
        "plain": train(world, steps=10),
        "sharded": train(world, steps=10, shard_state=True),
        "clipped": train(world, steps=10, clip=clip),
        "clipped and sharded": train(world, steps=10, clip=clip, shard_state=True),
        "accumulated": train(world, steps=10, accumulate=True),
        "accumulated traced": train(world, steps=10, accumulate=True, jit=True),
    }


def average_float16_gradients(world):
    """Average float16 gradients, whose sum overflows float16 but whose mean does not."""
    w = plugrad.Variable(plugrad.zeros(3, dtype="float16"))
    b = plugrad.Variable(plugrad.zeros(2))
    optimizer = dist.DataParallel(plugrad.optimizers.SGD(1.0))
    gradient = plugrad.full(3, 40000.0, dtype="float16")
    optimizer.apply_gradients([(w, gradient), (b, plugrad.full(2, world.rank + 1.0))])
    return {"half": w.tolist(), "single": b.tolist()}


def train_with_loss_scale(world):
    """Return the weights of trainings whose losses are scaled, and what is kept after a step that was skipped."""
    x, y = make_examples()
    found = {}
    for name, options in {
        "plain": {},
        "clipped": {"clip": lambda g: plugrad.optimizers.clip_by_global_norm(g, 0.2)},
        "clipped by value": {"clip": lambda g: plugrad.optimizers.clip_by_value(g, 0.01)},
        "sharded": {"shard_state": True},
        "accumulated": {},
    }.items():
        w, b = plugrad.Variable(plugrad.zeros((6, 3))), plugrad.Variable(plugrad.zeros(3))
        inner = plugrad.optimizers.Momentum(0.1).with_loss_scale(plugrad.optimizers.LossScale(8.0))
        optimizer = dist.DataParallel(inner, **options)
        losses = []
        for number, (part, labels) in enumerate(dist.shard([(x, y)] * 4)):

            def loss(
                part=part, labels=labels, w=w, b=b, extra=float("inf") if number == 1 else 0.0
            ):
                logits = plugrad.asarray(part) @ w + b
                # The infinite gradient is that of one element, which one rank of several updates.
                return nn.losses.sparse_softmax_cross_entropy(labels, logits) + b[2] * b[2] * extra

            if name == "accumulated":
                losses.append(optimizer.accumulate(loss, [w, b]).item())
            losses.append(optimizer.minimize(loss, [w, b]).item())
        state = optimizer.get_state([w, b])
        found[name] = gather_results(
            world,
            losses=losses[:1] + losses[-1:],
            weights=[*w.reshape(-1).tolist(), *b.tolist()],
            scale=state["loss_scale"]["scale"],
            digest=hash_variables([w, b]),
        )
    return found


def fit_distributed(world):
    x, y = make_examples()
    model = nn.Sequential(nn.Dense(8, use_bias=False), nn.BatchNorm(), nn.Dense(3))
    params = model.init(world.rank, (6,))
    log = Path(os.environ["DISTRIBUTED_FOLDER"]) / f"log-{world.size}.csv"
    results = nn.fit(
        model,
        params,
        x,
        y,
        loss=nn.losses.sparse_softmax_cross_entropy,
        optimizer=plugrad.optimizers.Adam(0.01),
        epochs=3,
        batch_size=19,
        validation_data=(x[:20], y[:20]),
        metrics={"accuracy": nn.metrics.accuracy, "f1": nn.metrics.F1(3)},
        callbacks=[nn.CSVLogger(log)],
        strategy=dist.DataParallel(),
    )
    return gather_results(
        world,
        results=results,
        logged=len(log.read_text().splitlines()) if world.rank == 0 else None,
        digest=hash_variables(nn.leaves(params)),
        weighted=fit_with_sample_weights(),
    )


def fit_with_sample_weights():
    """Return the results and weights of a training with sample weights and accumulated gradients.

    Examples without weight are part of the batches that `BatchNorm` normalizes. The examples of some ranks have none.
    """
    x, y = make_examples()
    model = nn.Sequential(nn.BatchNorm(), nn.Dense(3))
    params = model.init(1, (6,))
    results = nn.fit(
        model,
        params,
        x,
        y,
        loss=nn.losses.sparse_softmax_cross_entropy,
        optimizer=plugrad.optimizers.SGD(0.1),
        epochs=2,
        batch_size=19,
        class_weight=[1.0, 0.25, 3.0],
        sample_weight=(np.arange(len(x)) % 3 > 0).astype(np.float32),
        accumulate=2,
        validation_data=(x[:20], y[:20], np.maximum(np.linspace(-1, 1, 20, dtype=np.float32), 0)),
        metrics={"accuracy": nn.metrics.accuracy},
        strategy=dist.DataParallel(),
    )
    return [
        *(x for epoch in results for x in epoch.values()),
        *params["dense"]["kernel"].reshape(-1).tolist(),
    ]


def compare_dropout(world):
    """Compare dropout of the ranks: it differs, and on rank 0 it is that of a single process."""
    mode = nn.Training(dist.rank_seed(7))
    own = nn.Dropout(0.5)({}, plugrad.ones((1, 64)), mode).tolist()
    return world.submit(world.gather_texts, json.dumps(own)).result()


def train_with_checkpoints(
    path, first, last, *, load=False, sharded=False, every=12, kill_before=None
):
    """Train from one step to another with checkpoints, and return the weights."""
    w = plugrad.Variable(plugrad.zeros((4,)))
    optimizer = dist.DataParallel(plugrad.optimizers.Adam(0.1), shard_state=sharded)
    if load:
        saved = dist.load(path)
        w.assign(saved["w"])
        optimizer.set_state([w], saved["optimizer"])
        first = saved["step"]
    xs = np.random.default_rng(5).normal(size=(12, 8, 4)).astype(np.float32)
    for step, x in enumerate(dist.shard([(x,) for x in xs[first:last]]), first):
        if step == kill_before and dist.world().rank == dist.world().size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        value = plugrad.asarray(x[0])
        optimizer.minimize(lambda v=value: plugrad.mean(plugrad.square(v @ w - 1)), [w])
        if (step + 1) % every == 0 or step + 1 == last:
            tree = {"w": w, "optimizer": optimizer.get_state([w]), "step": step + 1}
            dist.save(path, tree)
    return w.tolist()


def resume_from_checkpoint(world):
    """Compare a training that is resumed from a sharded checkpoint after 6 steps with an uninterrupted one."""
    path = os.environ["DISTRIBUTED_FOLDER"] + f"/run-{world.size}.safetensors"
    train_with_checkpoints(path, 0, 6, sharded=True)
    return {
        "continued": train_with_checkpoints(path, 6, 12, load=True),
        "whole": train_with_checkpoints(path + "-2.safetensors", 0, 12),
    }


def profile_exchanges(world):
    w = plugrad.Variable(plugrad.zeros((1000,)))
    optimizer = dist.DataParallel(plugrad.optimizers.SGD(0.1), bucket_bytes=1000)
    with plugrad.profile() as measured:
        optimizer.minimize(lambda: plugrad.sum(w * w), [w])
    rows = {k.kernel: (k.backend, k.bytes, k.seconds) for k in measured.kernels}
    return {"all_reduce": rows.get("all_reduce")}


def count_overlapping_sums(world):
    """Return how many sums had ended when the backward pass reached the first of four layers."""
    layers = [plugrad.Variable(plugrad.ones((4, 4)), name=f"w{i}") for i in range(4)]
    optimizer = dist.DataParallel(plugrad.optimizers.SGD(0.0), bucket_bytes=64)

    def count():
        return sum(e.operation == "all_reduce" for e in world.exchanges)

    before = count()
    ended = []

    @plugrad.custom_grad
    def watched(x, save):
        def pull(dy, saved):
            world.submit(int).result()  # when all that was sent has been summed
            ended.append(count() - before)
            return dy

        return +x, pull

    def function():
        x = layers[0] @ plugrad.ones((4, 4))
        for w in layers[1:]:
            x = watched(x) @ w
        return plugrad.sum(x)

    optimizer.minimize(function, layers)
    return {"during": ended, "after": count() - before}


def minimize_different_variables(world):
    """Minimize different variables on the ranks; it is the last scenario, because the world fails."""
    w = plugrad.Variable([1.0], name="w")
    b = plugrad.Variable([1.0, 2.0], name="b")
    optimizer = dist.DataParallel(plugrad.optimizers.SGD(0.1))
    chosen = [w, b] if world.rank == 0 else [b, w]
    before = w.tolist()
    sums = sum(e.operation == "all_reduce" for e in world.exchanges)
    try:
        optimizer.minimize(lambda: plugrad.sum(w * w) + plugrad.sum(b * b), chosen)
    except dist.RanksDisagree as error:
        reduced = sum(e.operation == "all_reduce" for e in world.exchanges) - sums
        return {"message": str(error), "unchanged": before == w.tolist(), "reduced": reduced}
    return {}


def run_conformance_checks(world):
    """Run the conformance checks of collectives; it is the last scenario, because exchanges time out."""
    from plugrad_distributed.testing import check_collective

    return world.submit(check_collective, world.collective).result()


# --- ends of programs, one each -------------------------------------------------------------------


def raise_on_last_rank(world):
    if world.rank == world.size - 1:
        raise ValueError("the last rank has had enough")
    train(world)


def kill_last_rank(world):
    """Train until the last rank is killed before a step."""
    path = os.environ["DISTRIBUTED_FOLDER"] + "/killed.safetensors"
    train_with_checkpoints(path, 0, 12, every=2, kill_before=int(os.environ["DISTRIBUTED_STEP"]))


def restart_from_checkpoint(world):
    """Continue the killed training from its last checkpoint."""
    path = os.environ["DISTRIBUTED_FOLDER"] + "/killed.safetensors"
    return train_with_checkpoints(path, 0, 12, load=os.path.exists(path))


def exit_on_first_rank(world):
    if world.rank == 0:
        sys.exit(0)
    train(world)


def delay_second_rank(world):
    if world.rank == 1:
        time.sleep(60)
    dist.barrier()


def main(names):
    world = dist.init()
    results = {}
    for name in names:
        results[name] = globals()[name](world)
    if world.rank == 0:
        print(RESULTS_MARK + json.dumps(results))
    if world.failure is not None or "run_conformance_checks" in names:
        time.sleep(0.3)
        sys.stdout.flush()
        os._exit(0)  # a world that has failed cannot be left in order


if __name__ == "__main__":
    main(sys.argv[1:])
