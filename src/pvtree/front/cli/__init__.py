"""The command line ``pvtree``. Each command is a module here, loaded when it is called, so that --help is quick."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from pvtree.errors import PvtreeError
from pvtree.front.cli.commands import cli
from pvtree.front.cli.speaker import is_speaker

__all__ = ["cli", "main"]

WRONG_INPUT = 2
PIPE_CLOSED = 1  # click's exit code in that case; nobody reads any longer, so nothing is printed


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Wrong input ends with exit code 2 and one sentence, printed by one rank only."""
    # Outside the except clauses: nothing then holds the traceback, and temporary files are deleted at once.
    code, sentence = run(arguments)
    if sentence and is_speaker():
        click.echo(f"Error: {sentence}", err=True)
    if code:
        sys.exit(code)


def run(arguments: list[str] | None) -> tuple[int, str]:
    """Return the exit code and the error message."""
    try:
        with one_line_warnings(), ended_by_sigterm():
            code = cli.main(arguments, prog_name="pvtree", standalone_mode=False)
            sys.stdout.flush()  # raises here, and not when Python ends, if the output cannot be written
        return code if isinstance(code, int) else 0, ""
    except (click.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT, ""
    except BrokenPipeError:
        forget_output()
        return PIPE_CLOSED, ""
    except click.NoSuchOption as error:
        return WRONG_INPUT, as_sentence(unknown_option(error))
    except click.ClickException as error:
        return WRONG_INPUT, as_sentence(error.format_message())
    except PvtreeError as error:
        return WRONG_INPUT, as_sentence(str(error))
    except MemoryError:
        return WRONG_INPUT, "There is not enough memory; use less data or a machine with more memory."
    except OSError as error:  # such as a full disk behind standard output
        forget_output()
        where = f" ({error.filename})" if error.filename else ""
        reason = f"{error.strerror or error}{where}"
        return WRONG_INPUT, f"{reason}; check that the files can be read and the output can be written."


def unknown_option(error: click.NoSuchOption) -> str:
    """Suggest our parameter for another library's name; click suggests options that are spelled alike."""
    from pvtree.parameters.aliases import SYNONYMS, synonym

    right = synonym(error.option_name.lstrip("-").replace("-", "_"), SYNONYMS)
    flag = f"--{right}".replace("_", "-")
    if error.ctx is not None and any(flag in option.opts for option in error.ctx.command.params):
        return f"No such option {error.option_name!r}. Did you mean {flag!r}?"
    return error.format_message()


def as_sentence(text: str) -> str:
    """One line, whatever line breaks click or a file name has put into it."""
    words = " ".join(text.split())
    return words if words.endswith((".", "?", ".)")) else f"{words}."


def forget_output() -> None:
    """Standard output is broken: keep Python from writing to it again when it ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # closed, or no real file
        pass


@contextmanager
def one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *_: Any) -> None:
        if is_speaker():
            click.echo(f"Warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command like an error, so that temporary files are deleted."""

    def leave(number: int, _frame: Any) -> NoReturn:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
