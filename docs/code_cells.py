"""Runs the cells of the gallery while Sphinx reads its pages, shows what they print and draw, and writes notebooks.

A page is Markdown with ``{code-cell}`` blocks, the form of Jupyter's MyST notebooks. The cells of a page share their
names. A cell that fails is a warning, which stops ``make docs`` and fails the test that builds the documentation.
"""

import ast
import base64
import contextlib
import html
import io
import json
import os
import re
import tempfile
import traceback
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
FENCE = re.compile(r"^```\{code-cell\} python\n(?P<cell>.*?)^```\n?", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?:)[^)]+\)")  # to other pages, which a downloaded notebook lacks


class CodeCell(SphinxDirective):
    """A cell. ``:caption:`` is the sentence below its picture, and also the text for those who do not see it."""

    has_content = True
    required_arguments = 1  # the language
    option_spec: ClassVar = {"caption": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        source = "\n".join(self.content)
        is_first = "cells" not in self.env.temp_data
        if is_first:
            self.env.temp_data["cells"] = {"__name__": "__main__"}, tempfile.TemporaryDirectory()
        names, folder = self.env.temp_data["cells"]
        caption = self.options.get("caption", "")
        try:
            outputs = execute(source, names, folder.name, caption)
        except Exception:
            logger.warning("A cell failed:\n%s", traceback.format_exc(), location=self.get_location())
            outputs = []
        drawn = sum("image/png" in output.get("data", {}) for output in outputs)
        if drawn != bool(caption):
            needed = "a caption is the sentence of one picture" if caption else "give it a caption"
            logger.warning("A cell draws %d pictures; %s.", drawn, needed, location=self.get_location())
        cell = nodes.container(classes=["code-cell"], outputs=outputs)
        cell += nodes.literal_block(source, source, language="python")
        cell += [shown(output, caption) for output in outputs]
        return [download(self.env), cell] if is_first else [cell]


def download(env) -> nodes.Node:
    link = f'<a href="{env.docname.rpartition("/")[2]}.ipynb" download>Download it as a notebook.</a>'
    return nodes.raw("", f"<p>Run with pvtree {env.config.release} when this page was built. {link}</p>", format="html")


def execute(source: str, names: dict, folder: str, caption: str) -> list[dict]:
    """Run a cell in ``folder``, and return its outputs in the form of notebook files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    *statements, last = ast.parse(source).body
    printed, result, before = io.StringIO(), None, os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(statements, []), "<cell>", "exec"), names)
            if isinstance(last, ast.Expr):
                result = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            else:
                exec(compile(ast.Module([last], []), "<cell>", "exec"), names)
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        pictures = [png(figure) for figure in figures]
    finally:
        os.chdir(before)
        pyplot.close("all")
    outputs = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if result is not None and not pictures and not source.rstrip().endswith(";"):
        data = {"text/plain": repr(result)}
        if hasattr(result, "_repr_html_"):
            data["text/html"] = result._repr_html_()
        outputs.append({"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data})
    for picture in pictures:
        data = {"image/png": picture, "text/plain": caption}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    return outputs


def png(figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100, bbox_inches="tight", facecolor="white")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def shown(output: dict, caption: str) -> nodes.Node:
    if output["output_type"] == "stream":
        return nodes.literal_block(output["text"], output["text"], language="none", classes=["output"])
    data = output["data"]
    if "image/png" in data:
        text = html.escape(caption)
        image = f'<img alt="{text}" src="data:image/png;base64,{data["image/png"]}">'
        return nodes.raw("", f"<figure>{image}<figcaption>{text}</figcaption></figure>", format="html")
    if "text/html" in data:
        return nodes.raw("", f'<div class="output">{data["text/html"]}</div>', format="html")
    return nodes.literal_block(data["text/plain"], data["text/plain"], language="none", classes=["output"])


def notebook(page: str, outputs: list[list[dict]]) -> dict:
    """The page as a notebook file with these outputs, cell by cell."""
    cells, end = [], 0
    for cell, its_outputs in zip(FENCE.finditer(page), outputs, strict=True):
        cells.append(markdown(page[end : cell.start()]))
        source = re.sub(r"\A(:\w+:.*\n)+\n*", "", cell["cell"]).rstrip("\n")
        cells.append(
            {"cell_type": "code", "execution_count": None, "metadata": {}, "source": source, "outputs": its_outputs}
        )
        end = cell.end()
    cells.append(markdown(page[end:]))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "nbformat": 4,
        "nbformat_minor": 4,
        "metadata": {"kernelspec": kernel},
        "cells": [cell for cell in cells if cell["source"]],
    }


def markdown(text: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": LINK.sub(r"\1", text).strip()}


def write_notebooks(app, exception) -> None:
    """Write each page with cells beside its HTML, to be downloaded."""
    if exception is not None or app.builder.format != "html":
        return
    for name in sorted(app.env.found_docs):
        page = Path(app.env.doc2path(name)).read_text(encoding="utf-8")
        if not FENCE.search(page):
            continue
        cells = [node for node in app.env.get_doctree(name).findall(nodes.container) if "outputs" in node]
        if len(cells) == len(FENCE.findall(page)):
            made = notebook(page, [cell["outputs"] for cell in cells])
            (Path(app.outdir) / f"{name}.ipynb").write_text(json.dumps(made, indent=1), encoding="utf-8")


def setup(app) -> dict:
    app.add_directive("code-cell", CodeCell)
    app.connect("build-finished", write_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
