"""``pvtree completion``: the script with which a shell completes commands, options, their values and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell script that completes commands and options. To install it:

    \b
    bash:  echo 'eval "$(pvtree completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(pvtree completion zsh)"' >> ~/.zshrc
    fish:  pvtree completion fish > ~/.config/fish/completions/pvtree.fish
    """
    from pvtree.front.cli.commands import cli

    kind = get_completion_class(shell)
    assert kind is not None  # click knows these three
    click.echo(kind(cli, {}, "pvtree", "_PVTREE_COMPLETE").source())
