"""``pvtree inspect``: what a model file holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pvtree.front.cli.config import config_option
from pvtree.front.cli.data_options import model_option

if TYPE_CHECKING:
    from pvtree.model.model import Model


@click.command()
@config_option
@model_option
@click.option("--tree", type=click.IntRange(min=0), metavar="N", help="Show tree N, counted from 0, as text.")
@click.option(
    "--importance",
    default="split",
    show_default=True,
    type=click.Choice(["split", "gain"]),
    help="Importance of a column: the number of its splits, or their total gain.",
)
@click.option(
    "--top", default=20, show_default=True, type=click.IntRange(min=0), help="How many columns to list; 0 for all."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def inspect(model: str, tree: int | None, importance: str, top: int, as_json: bool) -> None:
    """Describe a model: its task, trees, columns and their importance; or show one of its trees.

    \b
    pvtree inspect --model model.json --tree 0
    """
    from pvtree.model.model import Model

    loaded = Model.load(model)
    if tree is not None:
        text = loaded.tree_text(tree)
        click.echo(json.dumps({"tree": tree, "text": text}) if as_json else text)
        return
    found = description(loaded, importance)
    click.echo(json.dumps(found, indent=1) if as_json else as_text(found, importance, top))


def description(model: Model, importance: str) -> dict[str, Any]:
    from pvtree.model.tree_text import NUMBERED

    names = model.column_names(NUMBERED)
    leaves = [tree.n_leaves for tree in model.trees]
    return {
        "ensemble": model.ensemble,
        "objective": model.objective,
        "classes": None if model.classes is None else list(model.classes),
        "trees": len(model.trees),
        "iterations": model.n_iterations,
        "leaves": sum(leaves),
        "largest_tree": max(leaves, default=0),
        "deepest_leaf": max((depth(tree) for tree in model.trees), default=0),
        "training_rows": max((int(tree.count[0]) for tree in model.trees), default=0),
        "init_score": model.init_score.tolist(),
        "columns": names,
        "categorical": {names[j]: list(values) for j, values in model.categories.items()},
        "importance": dict(zip(names, model.feature_importance(importance).tolist(), strict=True)),
    }


def depth(tree: Any) -> int:
    """The number of splits above the deepest leaf."""
    import numpy as np

    n_levels, level = 0, np.zeros(1, np.int64)
    while len(level):
        left = tree.left_child[level[tree.feature[level] >= 0]]
        level, n_levels = np.concatenate((left, left + 1)), n_levels + 1
    return n_levels - 1


def as_text(found: dict[str, Any], importance: str, top: int) -> str:
    kinds = {"gbdt": "gradient boosting", "forest": "a forest"}
    lines = [
        f"task         {found['objective']}, {kinds[found['ensemble']]}",
        f"trees        {found['trees']} in {found['iterations']} iterations, {found['leaves']:,} leaves, at most "
        f"{found['largest_tree']} in a tree and {found['deepest_leaf']} splits deep",
        f"trained on   {found['training_rows']:,} rows",
        f"columns      {len(found['columns'])}, {len(found['categorical'])} of them categorical",
    ]
    if found["classes"] is not None:
        lines.insert(1, f"classes      {', '.join(map(repr, found['classes']))}")
    ranked = sorted(found["importance"].items(), key=lambda item: -item[1])
    used = [(name, value) for name, value in ranked if value]
    shown = used[:top] if top else used
    width = max((len(name) for name, _ in shown), default=0)
    lines.append(f"importance   by {'splits' if importance == 'split' else 'gain'}, of {len(used)} columns in use")
    lines += [f"  {name:<{width}}  {value:.6g}" for name, value in shown]
    if len(shown) < len(used):
        lines.append(f"  ... and {len(used) - len(shown)} more; --top 0 lists all")
    return "\n".join(lines)
