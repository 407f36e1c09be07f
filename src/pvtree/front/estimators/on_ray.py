"""fit with Ray Datasets: actors train where the blocks are, and the first one returns the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pvtree.comm import Communicator
from pvtree.comm import ray as engine
from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidParameterError, InvalidTypeError, WorkerTimeoutError
from pvtree.front.estimators.eval_arguments import given_sets
from pvtree.front.estimators.worker_parts import WorkerAnswer, WorkerTask, pickled, result_of, train_parts
from pvtree.parameters.params import refuse_serial
from pvtree.reading.ray_data import Block, Form, Piece, blocks_of, form_of, is_dataset, read_parts, share_out

if TYPE_CHECKING:
    from pvtree.front.estimators.fit import Fitting
    from pvtree.front.estimators.fit_options import FitOptions
    from pvtree.reading.training_rows import GivenRows
    from pvtree.training.train import TrainResult


# At the driver.


def fit_on_ray(estimator: Fitting, given: GivenRows, options: FitOptions) -> TrainResult:
    """Train on actors. y and all other columns are named, and the remaining columns of the Dataset are features.

    Evaluation sets may be Ray Datasets, or in memory; then they are sent to the first worker. Callbacks run on the
    first worker: what they keep stays there, and what they print appears in Ray's logs.
    """
    if options.comm is not None:
        raise InvalidParameterError(
            "comm is for rows that each worker passes itself, but X is a Ray Dataset; leave comm out, or pass each "
            "worker's own rows in memory."
        )
    ray = engine.load_ray()
    check_scaling(options.client)
    sets = given_sets(options.evaluation, given)
    forms: list[Form] = [form_of(given.X, columns_of(given), None)]
    for each in sets.values():
        if is_dataset(each.X):
            forms.append(form_of(each.X, columns_of(each), forms[0].features, each.suffix))
        else:
            forms.append(Form((), {name: name for name in columns_of(each)}))
    from ray import cloudpickle

    by_column = [("X", *form.columns) for form in forms]
    task = pickled(WorkerTask.of(estimator, options, sets, by_column), cloudpickle.dumps, "Ray's actors")
    blocks = [blocks_of(each.X) if is_dataset(each.X) else None for each in (given, *sets.values())]
    assert blocks[0] is not None
    with placed(options.client, blocks[0], options.timeout) as places:
        refuse_serial(estimator.tree_learner, len(places))
        if len(places) > 1 and estimator.n_workers > 1:
            warn_user(f"n_workers does nothing on Ray, where {len(places)} actors train; leave it out.")
        with engine.Crew(places, options.timeout) as crew:
            nodes = [place.node for place in crew.places]
            shares = [
                in_memory(each, len(nodes)) if own is None else share_out(own, nodes)
                for each, own in zip((given, *sets.values()), blocks, strict=True)
            ]
            sent = ray.put(task)
            arguments = [(sent, forms, [share[rank] for share in shares]) for rank in range(len(nodes))]
            return result_of(crew.run(train_here, arguments, timeout=options.timeout))


def check_scaling(scaling: Any) -> None:
    """``client`` tells how many workers there are and what each gets, by Ray Train's ``ScalingConfig``."""
    if scaling is not None and not hasattr(scaling, "num_workers"):
        raise InvalidTypeError(
            f"client is a {type(scaling).__name__}; together with a Ray Dataset, give a ray.train.ScalingConfig, or "
            "None for one worker on each node that holds rows."
        )
    if scaling is not None and (not isinstance(scaling.num_workers, int) or scaling.num_workers < 1):
        raise InvalidParameterError(
            f"num_workers of the ScalingConfig is {scaling.num_workers!r}; give one number of at least 1, because a "
            "training keeps its workers to the end."
        )


def columns_of(given: GivenRows) -> dict[str, Any]:
    """The columns that were passed, under worker_parts' names."""
    if given.group is not None:
        raise InvalidParameterError(
            f"{given.prefix}group does not tell which rows of a Ray Dataset belong together; give "
            f"{given.prefix}qid, the column of query ids."
        )
    columns = {"y": given.y, "sample_weight": given.weight, "qid": given.qid, "init_score": given.init_score}
    return {name: column for name, column in columns.items() if column is not None}


def in_memory(given: GivenRows, n_workers: int) -> list[list[Piece]]:
    """All rows of an evaluation set go to the first worker."""
    held = engine.load_ray().put({"X": given.X, **columns_of(given)})
    return [[Piece(0, held, 0, 0)], *([] for _ in range(n_workers - 1))]


@contextmanager
def placed(scaling: Any, blocks: Sequence[Block], timeout: float) -> Iterator[list[Mapping[str, Any]]]:
    """Ray's options for each actor, while there is room for all of them."""
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

    if scaling is None:
        nodes = sorted({min(block.nodes) for block in blocks if block.nodes})
        near: list[Any] = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes] or ["DEFAULT"]
        yield [{"num_cpus": 1, "scheduling_strategy": each} for each in near]
        return
    resources = dict(scaling.resources_per_worker or {"CPU": 1})
    group = placement_group([resources] * scaling.num_workers, strategy=scaling.placement_strategy)
    try:
        if not group.wait(max(timeout, engine.START_SECONDS)):
            raise WorkerTimeoutError(
                f"Ray has no room for {scaling.num_workers} workers with {resources} each; ask for fewer workers or "
                "less for each, give Ray more nodes, or raise timeout if others will finish."
            )
        cpus, memory = resources.pop("CPU", 0), resources.pop("memory", None)
        yield [
            {
                "num_cpus": cpus,
                "num_gpus": resources.get("GPU", 0),
                "memory": memory,
                "resources": {name: amount for name, amount in resources.items() if name != "GPU"},
                "scheduling_strategy": PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank),
            }
            for rank in range(scaling.num_workers)
        ]
    finally:
        remove_placement_group(group)


# On a worker.


def train_here(
    comm: Communicator, packed_task: bytes, forms: Sequence[Form], pieces: Sequence[Sequence[Piece]]
) -> WorkerAnswer:
    """Train on this worker's pieces of the training data and of each evaluation set, together with the others."""
    import ray
    from ray import cloudpickle

    n_cpus = int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1))
    return train_parts(
        comm,
        cloudpickle.loads(packed_task),
        lambda: [read_parts(own, form) for own, form in zip(pieces, forms, strict=True)],
        max(1, n_cpus),
    )
