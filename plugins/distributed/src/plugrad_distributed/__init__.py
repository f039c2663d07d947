"""Training in many processes: `init`, `shard`, `broadcast` and `DataParallel`, on collectives that plugins bring."""

from plugrad_distributed.collective import Collective as Collective
from plugrad_distributed.data import shard as shard
from plugrad_distributed.discovery import collectives as collectives
from plugrad_distributed.errors import (
    CollectiveFailed as CollectiveFailed,
    CollectiveNotFound as CollectiveNotFound,
    CollectiveTimeout as CollectiveTimeout,
    CollectiveUnavailable as CollectiveUnavailable,
    RanksDisagree as RanksDisagree,
)
from plugrad_distributed.parallel import DataParallel as DataParallel
from plugrad_distributed.startup import (
    close as close,
    current_world as world,  # noqa: F401  # pyright: ignore[reportUnusedImport] - the name under which it is public
    init as init,
)
from plugrad_distributed.values import (
    all_reduce as all_reduce,
    barrier as barrier,
    broadcast as broadcast,
    load as load,
    moments as moments,
    rank_seed as rank_seed,
    save as save,
    sum_numbers as sum_numbers,
)
from plugrad_distributed.world import Exchange as Exchange, World as World
