"""The group of commands: what there is, told without loading any of them."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import click

# Shown by ``pvtree --help``. The module of a command has its name, and holds it under its name.
COMMANDS = {
    "train": "Train a model on files.",
    "predict": "Predict for the rows of files.",
    "evaluate": "Measure how well a model predicts.",
    "inspect": "Tell what a model is, and show its trees.",
    "export": "Write a model in another program's format.",
    "plan": "Tell what training costs on a cluster, and which strategy to take.",
    "demo": "Train on real data beside scikit-learn, then by every strategy.",
    "completion": "Print the script that completes commands and options in a shell.",
}


class Commands(click.Group):
    """Loads a command when it is called: most of them need libraries that take a second or two."""

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
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(COMMANDS)}."
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
    """Decision trees, forests and boosting whose workers vote (PV-Tree)."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
