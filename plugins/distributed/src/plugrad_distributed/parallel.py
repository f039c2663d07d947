"""`DataParallel`: an optimizer whose steps take the gradients of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError, ArgumentValueError, static_value
from plugrad_distributed import kernels
from plugrad_distributed.data import shard
from plugrad_distributed.reduction import GradientBucket, GradientReduction, split_flat
from plugrad_distributed.shards import OptimizerShards, find_shards
from plugrad_distributed.startup import current_world
from plugrad_distributed.values import broadcast, moments, rank_seed, sum_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from plugrad import Tensor, Variable
    from plugrad.optimizers import Optimizer
    from plugrad_distributed.world import World

MAX_BUCKET_BYTES: Final = 4 << 20
"""The most bytes of a bucket. Smaller buckets begin earlier, and each costs the latency of an exchange."""


class DataParallel:
    """An optimizer that averages gradients over the examples of all ranks, so that each rank takes the same step.

    >>> world = dist.init("single")
    >>> w = plugrad.Variable([1.0, 2.0])
    >>> optimizer = dist.DataParallel(plugrad.optimizers.SGD(0.5))
    >>> optimizer.minimize(lambda: plugrad.sum(w * w), [w])
    tensor(5., dtype=float32)
    >>> w.tolist()
    [0.0, 0.0]

    Gradients travel in buckets, one or more for each dtype, while the backward pass goes on. A rank counts for as much
    as it has examples: `dist.shard` notes how many the present batch has, and so ranks with fewer, or none, do not
    change the result. Half precision is summed in float32. It works inside `plugrad.jit`, which records the exchanges.

    Where the ranks compute on different kinds of devices, whose last bits differ, each element is updated by one rank
    and sent to the others, as with `shard_state`.

    Args:
        optimizer: an optimizer of `plugrad.optimizers`; `nn.fit` brings its own.
        clip: a function of the list of reduced gradients that returns the ones to use, such as
            ``lambda gradients: plugrad.optimizers.clip_by_global_norm(gradients, 1.0)``.
        shard_state: whether each rank keeps the optimizer's state of its part of the elements only (ZeRO, stage 1).
            That takes 1/N of the memory, and half as many bytes more to exchange. Then `get_state` and `set_state` of
            this object have the state of all ranks, and those of the optimizer do not.
        bucket_bytes: the most bytes that travel together, but for larger variables.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above, or `dist.init` has not been called.
    """

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        *,
        clip: Callable[[list[Tensor]], list[Tensor]] | None = None,
        shard_state: bool = False,
        bucket_bytes: int = MAX_BUCKET_BYTES,
    ) -> None:
        """Check and keep the arguments."""
        if optimizer is not None and not isinstance(optimizer, plugrad.optimizers.Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(
                f"DataParallel: optimizer={optimizer!r:.80} must be one of plugrad.optimizers, such as Adam()"
            )
        if clip is not None and not callable(clip):
            raise ArgumentError(f"DataParallel: clip={clip!r:.80} must be a function of gradients")
        if not isinstance(bucket_bytes, int) or isinstance(bucket_bytes, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(
                f"DataParallel: bucket_bytes={bucket_bytes!r:.80} must be an integer"
            )
        if bucket_bytes < 1:
            raise ArgumentValueError(f"DataParallel: bucket_bytes={bucket_bytes} must be positive")
        self.world: Final[World] = current_world("DataParallel")
        self.clip = clip
        self.shard_state: Final = bool(shard_state) or not self.world.is_uniform
        self.bucket_bytes: Final = bucket_bytes
        self._optimizer = optimizer
        self._reductions: dict[tuple[Variable, ...], GradientReduction] = {}
        self._is_direct: bool | None = None
        """Whether steps are the optimizer's own, because there is nothing to exchange, keep or clip."""

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer that takes the steps.

        Raises:
            ArgumentError: there is none.
        """
        if self._optimizer is None:
            raise ArgumentError(
                "DataParallel: there is no optimizer; pass one, as in DataParallel(Adam())"
            )
        return self._optimizer

    def with_optimizer(self, optimizer: Optimizer) -> DataParallel:
        """Return the same strategy with another optimizer."""
        if optimizer is self._optimizer:
            return self
        return DataParallel(
            optimizer,
            clip=self.clip,
            shard_state=self.shard_state,
            bucket_bytes=self.bucket_bytes,
        )

    @property
    def iterations(self) -> int:
        """The number of steps taken."""
        return self.optimizer.iterations

    # --- what `nn.fit` asks for ------------------------------------------------------------------

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which draws the progress bar and writes files and logs."""
        return self.world.rank == 0

    @property
    def moments(self) -> Any:
        """The function `dist.moments` if there are several ranks, else None."""
        return moments if self.world.size > 1 else None

    @property
    def examples(self) -> float | None:
        """The number of examples that count in this rank's current batch; see `dist.shard`."""
        return self.world.examples

    def count(self, examples: float) -> None:
        """Set the number of examples that count in this rank's current batch, where they have weights."""
        self.world.examples = examples

    def prepare(self, variables: Sequence[Variable]) -> None:
        """Copy the values of rank 0 to all ranks, and divide the optimizer's state where each rank keeps a part.

        A training begins so. Gradients that an interrupted one has accumulated are discarded.
        """
        broadcast(variables)
        self._is_direct = None
        for reduction in self._reductions.values():
            reduction.discard_accumulated()
        if self.shard_state:
            self._shards.add_parts(self.optimizer, variables)

    def shard(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield this rank's share of each batch; see `dist.shard`."""
        return shard(batches)

    def seed(self, seed: int) -> int:
        """Return a seed that is different on each rank; see `dist.rank_seed`."""
        return rank_seed(seed)

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums of numbers over all ranks."""
        return sum_numbers(numbers)

    # --- steps -----------------------------------------------------------------------------------

    def minimize(
        self,
        function: Callable[[], Tensor],
        variables: Collection[Variable],
        *,
        examples: int | None = None,
    ) -> Tensor:
        """Take one step on all ranks, and return the mean of the function over the examples of all ranks.

        After `accumulate`, step and mean are those for the examples of all these batches together.

        Args:
            function: a function without arguments that computes the mean over this rank's examples from variables.
            variables: the variables to move, in the same order on all ranks; see `Optimizer.minimize`.
            examples: how many examples of this rank count; by default those that `dist.shard` has handed out.

        Raises:
            RanksDisagree: another rank takes a step with other variables, or does something else.
            CollectiveTimeout, CollectiveFailed: a rank does not come, or has ended.
            ArgumentError, ShapeError, DTypeError, GradientNotFound: as for `Optimizer.minimize`.
        """
        if self._is_single_rank_without_options():
            return self.optimizer.minimize(function, variables)
        trained = [v for v in variables if v.trainable]
        step = self._begin_step("minimize", trained, examples)
        factor = self._loss_factor(trained)
        value, gradients = step.differentiate(_scale(function, factor), variables, is_sent=True)
        loss = step.receive_all(gradients)
        self._apply_reduced(step.reduction, trained, step.reduced)
        value = value if loss is None else loss.reshape(value.shape)
        return value if factor is None else value / factor

    def accumulate(
        self,
        function: Callable[[], Tensor],
        variables: Collection[Variable],
        *,
        examples: int | None = None,
    ) -> Tensor:
        """Accumulate gradients for the next step of `minimize`, and return this rank's function value.

        Arguments and errors are as for `minimize`.

        Raises:
            ArgumentError: `minimize` was called before, in a way that keeps nothing; call `accumulate` first.
        """
        if self._is_direct:
            raise ArgumentError(
                "accumulate: steps were taken already that keep no gradients; call accumulate before the first minimize"
            )
        self._is_direct = False
        trained = [v for v in variables if v.trainable]
        step = self._begin_step("accumulate", trained, examples)
        factor = self._loss_factor(trained)
        value, gradients = step.differentiate(_scale(function, factor), variables, is_sent=False)
        step.send_remaining(gradients)
        step.finish_accumulating()
        return value if factor is None else value / factor

    def apply_gradients(
        self, pairs: Iterable[tuple[Variable, Tensor]], *, examples: int | None = None
    ) -> None:
        """Take one step on all ranks with the mean of the gradients, weighted by examples.

        A gradient that went through `dist.moments` or `dist.all_reduce` is right only if all ranks have as many
        examples; `minimize` weights the function before it is differentiated.

        Raises:
            RanksDisagree, CollectiveTimeout, CollectiveFailed: as for `minimize`.
            ArgumentError, ShapeError, DTypeError: as for `Optimizer.apply_gradients`.
        """
        pairs = list(pairs)
        if self._is_single_rank_without_options():
            self.optimizer.apply_gradients(pairs)
            return
        variables = [variable for variable, _ in pairs]
        step = self._begin_step("apply_gradients", variables, examples)
        for variable, gradient in pairs:
            step.record_gradient(variable, gradient, is_scaled=False)
        step.receive_all([])
        self._apply_reduced(step.reduction, variables, step.reduced)

    def _is_single_rank_without_options(self) -> bool:
        """Return whether a step is one of the optimizer alone."""
        if self._is_direct is None:
            self._is_direct = self.world.size == 1 and self.clip is None and not self.shard_state
        return self._is_direct

    def _begin_step(
        self, op: str, variables: Sequence[Variable], examples: int | None
    ) -> _TrainingStep:
        """Return a new step for the gradients of some variables."""
        if not variables:
            raise ArgumentError(f"{op}: none of the variables is trainable")
        key = tuple(variables)
        reduction = self._reductions.get(key)
        if reduction is None:
            reduction = GradientReduction(self.world, variables, self.bucket_bytes)
            self._reductions[key] = reduction
        return _TrainingStep(reduction, examples)

    def _apply_reduced(
        self,
        reduction: GradientReduction,
        variables: Sequence[Variable],
        flat_buckets: Sequence[Tensor],
    ) -> None:
        """Take the optimizer's step with the reduced gradients, given as buckets."""
        if self.shard_state:
            self._check_optimizer_supports_shards(variables)
            clipped = flat_buckets
            if self.clip is not None:
                gradients = self._clip_unscaled(variables, _unpack_buckets(reduction, flat_buckets))
                clipped = [_pack_bucket(bucket, gradients) for bucket in reduction.buckets]
            if self._loss_factor(variables) is not None:
                # A rank sees parts of the gradients, and all ranks must skip the same steps.
                clipped = _spread_nonfinite(flat_buckets, clipped)
            self._shards.apply(self.optimizer, variables, reduction.buckets, clipped)
            return
        gradients = _unpack_buckets(reduction, flat_buckets)
        if self.clip is not None:
            gradients = self._clip_unscaled(variables, gradients)
        self.optimizer.apply_gradients(zip(variables, gradients, strict=True))

    def _loss_factor(self, variables: Sequence[Variable]) -> Tensor | None:
        """Return the present factor of the optimizer's loss scale, or None if there is none."""
        scale = static_value(lambda: self.optimizer.loss_scale)
        if scale is None:
            return None
        return plugrad.stop_gradient(scale.factor_on(variables[0].backend))

    def _clip_unscaled(
        self, variables: Sequence[Variable], gradients: list[Tensor]
    ) -> Sequence[Tensor]:
        """Return the gradients, clipped as those of the unscaled loss, but with the loss scale as a factor."""
        assert self.clip is not None
        factor = self._loss_factor(variables)
        if factor is None:
            return self.clip(gradients)
        clipped = self.clip([gradient / factor for gradient in gradients])
        scaled = [(c * factor).astype(v.dtype) for v, c in zip(variables, clipped, strict=True)]
        # `clip` may make finite gradients of infinite ones, whose step must be skipped.
        return _spread_nonfinite(gradients, scaled)

    def _check_optimizer_supports_shards(self, variables: Sequence[Variable]) -> None:
        """Raise if the optimizer has an option that needs whole variables, not parts of them.

        Raises:
            ArgumentError: it has transforms, or variables with coefficients of their own.
        """
        why = "shard_state, or ranks on different kinds of devices, update parts of the elements"
        if self.optimizer.transforms:
            raise ArgumentError(
                f"DataParallel: {why}, of which the transforms of an optimizer cannot see the whole; pass clip= instead"
            )
        if any(self.optimizer.group_of(v) for v in variables):
            raise ArgumentError(
                f"DataParallel: {why}, which have the same coefficients; leave out set_group or shard_state"
            )

    @property
    def _shards(self) -> OptimizerShards:
        """This rank's parts of the variables of the optimizer."""
        return find_shards(self.optimizer, self.world)

    # --- state -----------------------------------------------------------------------------------

    def get_state(self, variables: Collection[Variable]) -> dict[str, Any]:
        """Return the optimizer's state of the variables, as `Optimizer.get_state` does; all ranks call it.

        It is the same for any number of ranks, so that a training can go on with more or fewer.
        """
        if not self.shard_state:
            return self.optimizer.get_state(variables)
        return self._shards.get_state(self.optimizer, list(variables))

    def set_state(self, variables: Collection[Variable], state: Mapping[str, Any]) -> None:
        """Continue from a state that `get_state` returned, on all ranks.

        Raises:
            ArgumentError, ShapeError: as for `Optimizer.set_state`.
        """
        if self.shard_state:
            self._shards.set_state(self.optimizer, list(variables), state)
        else:
            self.optimizer.set_state(variables, state)


class _TrainingStep:
    """One step: each bucket of gradients is sent as soon as it is complete, and received at the end."""

    def __init__(self, reduction: GradientReduction, examples: int | None) -> None:
        self.reduction = reduction
        self.reduced: list[Tensor] = []
        self._backend = reduction.variables[0].backend
        kernels.ensure_registered(self._backend)
        # Begins after what was accumulated before, also if both are in one traced function.
        ticket = kernels.make_call_ticket(self._backend) + reduction.kept_token
        self._token: Any = kernels.begin_reduction(ticket, reduction=reduction, examples=examples)
        self._gradients: dict[Variable, Tensor] = {}
        self._next = 0
        self._sends = True
        self._loss: Tensor | None = None

    def differentiate(
        self, function: Callable[[], Tensor], variables: Collection[Variable], *, is_sent: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the value of the function and its gradients, which are sent, or kept for a later step."""
        self._sends = is_sent
        values: list[Tensor] = []

        def scaled_loss() -> Tensor:
            value = function()
            values.append(plugrad.stop_gradient(value))
            dtype = "float64" if value.dtype is plugrad.float64 else "float32"
            scale = kernels.loss_scale(self._token, reduction=self.reduction, dtype=dtype)
            scaled = value * scale.astype(value.dtype)
            self._loss = plugrad.stop_gradient(scaled)
            return scaled

        _, gradients = plugrad.variable_grads(
            scaled_loss, variables, on_gradient=self.record_gradient
        )
        return values[0], gradients

    def record_gradient(
        self, variable: Variable, gradient: Tensor, *, is_scaled: bool = True
    ) -> None:
        """Record a gradient, and send the buckets that are complete, in order."""
        self._gradients[variable] = gradient
        buckets, variables = self.reduction.buckets, self.reduction.variables
        while self._next < len(buckets):
            bucket = buckets[self._next]
            parts = [self._gradients.get(variables[i]) for i in bucket.positions]
            if any(part is None for part in parts):
                return
            flats = [part.reshape(-1) for part in parts if part is not None]
            if self._carries_loss(self._next):
                assert self._loss is not None
                flats.append(self._loss.reshape(-1))
            self._send_or_accumulate(self._next, _concatenate_flat(flats), is_scaled)
            self._next += 1

    def _carries_loss(self, bucket_index: int) -> bool:
        """Return whether a bucket also carries the function value: the last one, if the dtypes are equal."""
        buckets = self.reduction.buckets
        return (
            self._loss is not None
            and bucket_index == len(buckets) - 1
            and self._loss.dtype == buckets[bucket_index].dtype
        )

    def _send_or_accumulate(
        self, bucket_index: int, flat_gradients: Tensor, is_scaled: bool
    ) -> None:
        """Send a bucket of gradients, or keep it for the step that will send it."""
        if self._sends:
            self._token = kernels.send_bucket(
                flat_gradients,
                self._token,
                reduction=self.reduction,
                index=bucket_index,
                scaled=is_scaled,
            )
        else:
            self._token = kernels.accumulate_bucket(
                flat_gradients, self._token, reduction=self.reduction, index=bucket_index
            )

    def send_remaining(self, gradients: Sequence[Tensor]) -> None:
        """Send the remaining buckets, and the function value if no bucket carries it."""
        variables = self.reduction.variables
        for variable, gradient in zip(variables, gradients, strict=False):
            self.record_gradient(variable, gradient)
        last = len(self.reduction.buckets) - 1
        if self._loss is not None and not self._carries_loss(last):
            self._send_or_accumulate(last + 1, self._loss.reshape(-1), True)

    def finish_accumulating(self) -> None:
        """Assign the token of the last reduction step to a variable, so that a traced program does not leave it out."""
        self.reduction.kept_token.assign(self._token)

    def receive_all(self, gradients: Sequence[Tensor]) -> Tensor | None:
        """Wait for the reduced buckets, and return the reduced function value, if there is one."""
        self.send_remaining(gradients)
        buckets = self.reduction.buckets
        loss: Tensor | None = None
        for index, bucket in enumerate(buckets):
            carries = self._carries_loss(index)
            flat = self._receive_bucket(index, bucket.element_count + carries, bucket.dtype)
            if carries:
                loss, flat = flat[bucket.element_count :], flat[: bucket.element_count]
            self.reduced.append(flat)
        if self._loss is not None and loss is None:
            loss = self._receive_bucket(len(buckets), 1, self._loss.dtype)
        return loss

    def _receive_bucket(self, bucket_index: int, element_count: int, dtype: Any) -> Tensor:
        """Wait for a bucket, and return its mean over all examples of all ranks."""
        return kernels.receive_bucket(
            self._token,
            reduction=self.reduction,
            index=bucket_index,
            size=element_count,
            dtype=str(dtype),
        )


def _scale(function: Callable[[], Tensor], factor: Tensor | None) -> Callable[[], Tensor]:
    """Return a function multiplied by the factor of a loss scale, in float32."""
    return function if factor is None else lambda: function().astype(plugrad.float32) * factor


def _spread_nonfinite(gradients: Sequence[Tensor], clipped: Sequence[Tensor]) -> list[Tensor]:
    """Return clipped gradients, or NaN in all of them if an element of the gradients is infinite or NaN."""
    # 0 times infinity or NaN is NaN, and so is a sum with it.
    zero = plugrad.add_n([plugrad.sum((g * 0).astype(plugrad.float32)) for g in gradients])
    return [plugrad.where(zero == 0, g, plugrad.nan) for g in clipped]


def _concatenate_flat(vectors: Sequence[Tensor]) -> Tensor:
    """Return the elements of all vectors as one vector."""
    return vectors[0] if len(vectors) == 1 else plugrad.concat(vectors)


def _pack_bucket(bucket: GradientBucket, gradients: Sequence[Tensor]) -> Tensor:
    """Concatenate the gradients of a bucket."""
    return _concatenate_flat([gradients[i].reshape(-1) for i in bucket.positions])


def _unpack_buckets(reduction: GradientReduction, flat_buckets: Sequence[Tensor]) -> list[Tensor]:
    """Split buckets into the gradients of the variables, in their order."""
    found: dict[int, Tensor] = {}
    for bucket, flat in zip(reduction.buckets, flat_buckets, strict=True):
        shapes = [reduction.variables[i].shape for i in bucket.positions]
        found.update(zip(bucket.positions, split_flat(flat, shapes), strict=True))
    return [found[i] for i in range(len(reduction.variables))]
