"""The group of commands, which it lists without loading any of them."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import click

# Shown by ``pvtree --help``. A command, its module and the function in the module have the same name.
COMMANDS = {
    "train": "Train a model on files.",
    "predict": "Predict the rows of files.",
    "evaluate": "Measure how well a model predicts.",
    "inspect": "Describe a model, or show one of its trees.",
    "report": "Write an HTML page about a model and its predictions.",
    "export": "Write a model in another program's format.",
    "plan": "Estimate training costs on a cluster; recommend a strategy.",
    "warmup": "Compile kernels now, so that no later fit waits for it.",
    "demo": "Compare with scikit-learn on real data, then all strategies.",
    "completion": "Print a shell script that completes commands and options.",
}


class Commands(click.Group):
    """Loads a command when it is called: most of them import libraries that take a second or two."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"pvtree.front.cli.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Use one of {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {name!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pvtree", prog_name="pvtree")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Train decision trees, forests and gradient boosting, on one machine or many (PV-Tree)."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
