"""``--config FILE``: options from a TOML file. Options on the command line take precedence."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any

import click

from pvtree.front.cli.commands import COMMANDS, cli
from pvtree.front.cli.data_options import FilePath
from pvtree.parameters.aliases import SYNONYMS, synonym
from pvtree.parameters.suggestions import closest


def read_config(ctx: click.Context, _option: click.Parameter, path: str | None) -> None:
    """Make the file's values the defaults of the other options, which click reads after this one."""
    if path is None:
        return
    try:
        with open(path, "rb") as file:
            given = tomllib.load(file)
    except OSError as error:
        raise click.UsageError(f"The config file {path} cannot be read ({error.strerror}); check the path.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"The config file {path} is not TOML ({str(error).rstrip('.')}); fix it.") from error
    command = ctx.command
    # Some options take tables too, such as monotone_constraints = {age = 1}.
    sections = {key: value for key, value in given.items() if isinstance(value, dict) and key not in _keys(command)}
    common = {key: value for key, value in given.items() if key not in sections}
    for name in sections:
        if name not in COMMANDS:
            raise click.UsageError(f"{path} has a section [{name}]; {_hint(name, COMMANDS)}")
    mine = sections.get(str(command.name), {})
    _check_keys(mine, _keys(command), f"{path}, section [{command.name}],")
    if not common.keys() <= _keys(command).keys():  # keys outside sections may be for other commands
        _check_keys(common, _all_keys(ctx), path)
    keys = _keys(command)
    options = {str(option.name): option for option in command.params}
    ctx.default_map = {
        keys[key]: _as_option(value, options[keys[key]]) for key, value in {**common, **mine}.items() if key in keys
    }


def config_option(command: Any) -> Any:
    return click.option(
        "--config",
        type=FilePath(allow_dash=False),
        metavar="FILE",
        is_eager=True,  # click must read it before the other options
        expose_value=False,
        callback=read_config,
        help="A TOML file of options. Options on the command line take precedence.",
    )(command)


def _keys(command: click.Command) -> dict[str, str]:
    """click's name of an option, by the keys that a file may use for it."""
    keys = {}
    for option in command.params:
        for flag in [*option.opts, option.name or ""]:
            if option.name not in (None, "config", "help"):
                keys[flag.lstrip("-")] = str(option.name)
                keys[flag.lstrip("-").replace("-", "_")] = str(option.name)
    return keys


def _all_keys(ctx: click.Context) -> dict[str, str]:
    commands = (cli.get_command(ctx, name) for name in COMMANDS)
    return {key: name for command in commands if command is not None for key, name in _keys(command).items()}


def _check_keys(given: Iterable[str], known: Iterable[str], where: str) -> None:
    known = list(known)
    for key in given:
        if key not in known:
            raise click.UsageError(f"{where} has the key {key!r}; {_hint(key, known)}")


def _hint(word: str, known: Iterable[str]) -> str:
    known = sorted({each.replace("_", "-") for each in known})
    right = synonym(word.replace("-", "_"), SYNONYMS)  # our name, if this is another library's
    is_known = right is not None and right.replace("_", "-") in known
    near = str(right).replace("_", "-") if is_known else closest(word, known)
    return f"did you mean {near!r}?" if near else f"use one of {', '.join(known[:40])}."


def _as_option(value: Any, option: click.Parameter) -> Any:
    """The value as text on the command line, which click checks. An option that may be repeated takes a list."""
    if isinstance(value, list) and not option.multiple:
        sets = [",".join(map(str, each)) for each in value if isinstance(each, list)]
        return ";".join(sets) if sets else ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{name}:{each}" for name, each in value.items())
    if option.multiple:
        return [str(each) for each in (value if isinstance(value, list) else [value])]
    return str(value)
