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

from pvtree.cli.commands import cli
from pvtree.cli.speaker import is_speaker
from pvtree.errors import PvtreeError

__all__ = ["cli", "main"]

WRONG_INPUT = 2
PIPE_BROKEN = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1


def main(arguments: list[str] | None = None) -> None:
    """Exit code 2 and one sentence for wrong input, once however many ranks there are."""
    try:
        with one_line_warnings(), ended_by_sigterm():
            cli.main(arguments, prog_name="pvtree", standalone_mode=False)
            sys.stdout.flush()  # what cannot be written is told here and not when Python ends
    except (click.Abort, KeyboardInterrupt):
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        forget_output()
        sys.exit(PIPE_BROKEN)
    except click.ClickException as error:
        end(error.format_message())
    except PvtreeError as error:
        end(str(error))
    except MemoryError:
        end("There is not enough memory; use less data at once, or a machine with more.")
    except OSError as error:  # such as a full disk behind standard output
        forget_output()
        where = f" ({error.filename})" if error.filename else ""
        end(f"{error.strerror or error}{where}; see that the files can be read and the output can be written.")


def end(sentence: str) -> NoReturn:
    """One line, whatever line breaks click or a file's name have put into it."""
    if is_speaker():
        click.echo(f"Error: {' '.join(sentence.split())}", err=True)
    sys.exit(WRONG_INPUT)


def forget_output() -> None:
    """Standard output takes no more: let Python not try again when it ends."""
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
    """A polite kill ends like an error: temporary files are taken away."""

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
