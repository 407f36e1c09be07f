"""``PvtreeTrainer``: Ray Train's trainer whose workers can train together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from pvtree.engines.ray.backend import PvtreeConfig
from pvtree.errors import InvalidTypeError


class PvtreeTrainer(DataParallelTrainer):  # type: ignore[misc]
    """Runs a function on all workers of a group, which are joined when it begins.

    Inside, ``fit`` of pvtree's estimators takes ``comm=pvtree.ray.get_comm()`` and each worker's own rows. ``fit``
    without ``comm`` raises an error, because it would train on the rows of one worker alone.

    Parameters
    ----------
    train_loop_per_worker : callable
        Called on every worker, with ``train_loop_config`` if it takes an argument.
    train_loop_config : dict or None, default=None
        The function's argument.
    pvtree_config : PvtreeConfig or None, default=None
        Time limits.
    **others
        As of Ray Train's trainers: ``scaling_config``, ``run_config``, ``datasets``, ``dataset_config`` and so on.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        pvtree_config: PvtreeConfig | None = None,
        **others: Any,
    ) -> None:
        if pvtree_config is not None and not isinstance(pvtree_config, PvtreeConfig):
            raise InvalidTypeError(
                f"pvtree_config is a {type(pvtree_config).__name__}; give a pvtree.ray.PvtreeConfig."
            )
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=pvtree_config or PvtreeConfig(),
            **others,
        )
