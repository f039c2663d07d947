"""Messages and bytes of algorithms, counted in simulated worlds, are those of the cost model."""

import numpy as np
import pytest

from plugrad_distributed.reduction import make_buckets
from plugrad_distributed.simulation import ALL_REDUCE_ALGORITHMS, estimate_seconds


def arrays_by_rank(size, elements):
    return [
        np.random.default_rng(r).integers(0, 9, elements).astype(np.float32) for r in range(size)
    ]


@pytest.mark.parametrize("name", sorted(ALL_REDUCE_ALGORITHMS))
@pytest.mark.parametrize("size", [2, 8, 256])
def test_every_rank_ends_with_the_sum_and_sends_what_the_model_says(name, size):
    ranks = arrays_by_rank(size, 512)
    total = np.sum(ranks, axis=0)
    traffic = ALL_REDUCE_ALGORITHMS[name](ranks)
    assert all(np.array_equal(rank, total) for rank in ranks)
    bytes_in_seconds = estimate_seconds(
        name, size, 512 * 4, latency_seconds=0.0, bytes_per_second=1.0
    )
    assert traffic.bytes == pytest.approx(bytes_in_seconds)
    assert traffic.rounds == estimate_seconds(name, size, 0, latency_seconds=1.0)


@pytest.mark.parametrize("size", [3, 5, 7])
def test_a_ring_may_have_any_number_of_ranks(size):
    ranks = arrays_by_rank(size, 100)
    total = np.sum(ranks, axis=0)
    traffic = ALL_REDUCE_ALGORITHMS["ring"](ranks)
    assert all(np.array_equal(rank, total) for rank in ranks)
    assert traffic.bytes <= 2 * (size - 1) * -(-100 // size) * 4


def test_256_ranks_send_twice_the_bytes_of_the_gradients_by_a_ring_and_255_times_without():
    elements = 4096
    assert (
        ALL_REDUCE_ALGORITHMS["ring"](arrays_by_rank(256, elements)).bytes
        == 2 * 255 / 256 * elements * 4
    )
    assert (
        ALL_REDUCE_ALGORITHMS["everybody"](arrays_by_rank(256, elements)).bytes
        == 255 * elements * 4
    )


def test_buckets_add_messages_and_no_bytes():
    import plugrad

    variables = [plugrad.Variable(plugrad.zeros(256)) for _ in range(8)]
    whole, parts = (make_buckets(variables, limit) for limit in (8 * 1024, 2 * 1024))
    assert (len(whole), len(parts)) == (1, 4)
    found = [
        [
            ALL_REDUCE_ALGORITHMS["ring"](arrays_by_rank(16, bucket.element_count))
            for bucket in buckets
        ]
        for buckets in (whole, parts)
    ]
    assert sum(t.bytes for t in found[1]) == found[0][0].bytes
    assert sum(t.messages for t in found[1]) == 4 * found[0][0].messages


def test_a_tree_needs_a_power_of_two():
    with pytest.raises(ValueError, match="3 ranks"):
        ALL_REDUCE_ALGORITHMS["tree"](arrays_by_rank(3, 4))
