"""Write tables of predictions block by block, as CSV, Parquet or npy. A file appears when it is complete."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pvtree.errors import InvalidParameterError, OutputFileError
from pvtree.model.atomic_file import is_pipe_or_device, replacing
from pvtree.reading.arrow_columns import load_pyarrow

Write = Callable[[np.ndarray], None]  # a block of rows, (n,) or (n, n_names)
STANDARD_OUTPUT = "-"
MUST_BE_QUOTED = set('",\n\r')


@contextlib.contextmanager
def prediction_file(path: str, names: Sequence[str]) -> Iterator[Write]:
    """Yield a function that adds rows. The suffix of ``path`` tells the format; "-" is CSV on standard output."""
    is_stream = path == STANDARD_OUTPUT or is_pipe_or_device(path)
    kind = Path(path).suffix.lower().lstrip(".") or ("csv" if is_stream else "")
    if kind not in WRITERS:
        raise InvalidParameterError(
            f"The suffix of {path} is not a format of predictions; use .csv, .tsv, .parquet or .npy, or - for CSV on "
            "standard output."
        )
    if kind != "npy":
        load_pyarrow()
    with _output(path) as file, WRITERS[kind](file, list(names)) as write:
        yield write


@contextlib.contextmanager
def _output(path: str) -> Iterator[BinaryIO]:
    if path == STANDARD_OUTPUT:
        sys.stdout.flush()
        yield getattr(sys.stdout, "buffer", None) or _AsText(sys.stdout)  # type: ignore[misc]
        sys.stdout.flush()
        return
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: str | os.PathLike[str], error: OSError) -> OutputFileError:
    reason = error.strerror or str(error)
    return OutputFileError(
        f"Cannot write {os.fspath(path)!r} ({reason}); choose a folder that exists, is writable and has space."
    )


@contextlib.contextmanager
def _csv(file: BinaryIO, names: list[str], delimiter: str = ",") -> Iterator[Write]:
    from pyarrow import csv as arrow_csv

    has_head = False

    def write_head() -> None:
        """Write the header with the first rows, so that standard output stays empty if the data is wrong."""
        nonlocal has_head
        if not has_head:
            head = io.StringIO()
            csv.writer(head, delimiter=delimiter, lineterminator="\n").writerow(names)
            file.write(head.getvalue().encode())
            has_head = True

    def write(block: np.ndarray) -> None:
        table = _arrow_table(block, names)
        # Arrow quotes either every text or none, and plain words look better without quotes.
        texts = set(np.unique(block).tolist()) if block.dtype.kind in "OU" else set()
        style = "needed" if any({*MUST_BE_QUOTED, delimiter} & set(str(text)) for text in texts) else "none"
        options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=style)
        write_head()
        lines = io.BytesIO()
        arrow_csv.write_csv(table, lines, options)
        file.write(lines.getbuffer())

    yield write
    write_head()  # if there were no rows


@contextlib.contextmanager
def _tsv(file: BinaryIO, names: list[str]) -> Iterator[Write]:
    with _csv(file, names, "\t") as write:
        yield write


@contextlib.contextmanager
def _parquet(file: BinaryIO, names: list[str]) -> Iterator[Write]:
    from pyarrow import parquet

    writer: Any = None

    def write(block: np.ndarray) -> None:
        nonlocal writer
        table = _arrow_table(block, names)
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield write
        if writer is not None:
            writer.close()
    finally:
        if writer is not None:
            writer.is_open = False  # after a failure, keeps its destructor from completing the file


@contextlib.contextmanager
def _npy(file: BinaryIO, names: list[str]) -> Iterator[Write]:
    """numpy pads the header, so the number of rows can be filled in at the end."""
    blocks: dict[str, Any] = {"rows": 0, "like": None}

    def head() -> None:
        like = blocks["like"]
        shape = (blocks["rows"], *like.shape[1:])
        described = {"descr": np.lib.format.dtype_to_descr(like.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, described)

    def write(block: np.ndarray) -> None:
        if blocks["like"] is None:
            blocks["like"] = block[:0]
            head()
        blocks["rows"] += len(block)
        file.write(block.tobytes())

    yield write
    if blocks["like"] is not None:
        file.seek(0)
        head()


WRITERS: dict[str, Any] = {"csv": _csv, "tsv": _tsv, "parquet": _parquet, "pq": _parquet, "npy": _npy}


def _arrow_table(block: np.ndarray, names: list[str]) -> Any:
    arrow = load_pyarrow()
    columns = [block] if block.ndim == 1 else list(np.ascontiguousarray(block.T))
    return arrow.Table.from_arrays([arrow.array(column) for column in columns], names)


class _AsText(io.RawIOBase):
    """Takes bytes for a standard output that accepts text only, as in tests and notebooks."""

    def __init__(self, text: Any) -> None:
        self.text = text

    def write(self, data: Any) -> int:
        self.text.write(bytes(data).decode())
        return len(data)
