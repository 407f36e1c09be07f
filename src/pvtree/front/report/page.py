"""The page of a report: sections of text, tables and charts become one HTML file that loads nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from pvtree.errors import MissingDependencyError
from pvtree.model.number_text import shown_number

LONG = 40  # characters of a cell that needs room even on a phone


@dataclass
class Section:
    """A heading and what stands below it, in order. Pieces are HTML; ``text`` and ``table`` escape what they get."""

    name: str  # of the link to it
    title: str
    pieces: list[str] = field(default_factory=list)
    charts: dict[str, Any] = field(default_factory=dict)  # Vega-Lite specifications by element

    def text(self, words: str) -> None:
        self.pieces.append(f"<p>{escape(words)}</p>")

    def heading(self, words: str) -> None:
        self.pieces.append(f"<h3>{escape(words)}</h3>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> None:
        """Cells that hold numbers, or texts that begin with a digit or a sign, are aligned to the right."""
        self.pieces.append(table(header, rows, caption))

    def facts(self, rows: Sequence[tuple[str, object]]) -> None:
        """Names and values, two columns without a header."""
        lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
        self.pieces.append(f'<table class="facts"><tbody>{lines}</tbody></table>')

    def code(self, text: str) -> None:
        self.pieces.append(f"<pre><code>{escape(text)}</code></pre>")

    def data(self, name: str, value: Any, html: str) -> None:
        """``html`` for a part of page.js, which reads ``value`` as the JSON called ``name``."""
        self.pieces += [_json(name, value), html]

    def chart(self, chart: Any, caption: str, title: str = "") -> None:
        """An altair chart as wide as the page allows; ``title`` for one of several that stand side by side."""
        element = f"{self.name}-chart-{len(self.charts) + 1}"
        self.charts[element] = chart.properties(width="container").to_dict()
        drawn = f'<div class="chart" id="{element}" role="img" aria-label="{escape(caption)}"></div>'
        above = f"<h3>{escape(title)}</h3>" if title else ""
        self.pieces.append(f"<figure>{above}{drawn}<figcaption>{escape(caption)}</figcaption></figure>")

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """Charts that are added meanwhile stand side by side where the page is wide enough."""
        self.pieces.append('<div class="pair">')
        yield
        self.pieces.append("</div>")


def table(header: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    title = f'<p class="caption">{escape(caption)}</p>' if caption else ""  # not in the table, which may be too wide
    return f'{title}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def render(title: str, sections: Sequence[Section], refresh: int | None = None) -> str:
    """The whole page; ``refresh`` lets a browser read it again after this many seconds."""
    charts = {name: spec for section in sections for name, spec in section.charts.items()}
    links = "".join(f'<a href="#{each.name}">{escape(each.title)}</a>' for each in sections)
    body = "".join(
        f'<section id="{each.name}"><h2>{escape(each.title)}</h2>{"".join(each.pieces)}</section>' for each in sections
    )
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    parts = {
        "title": escape(title),
        "heading": f"<h1>{escape(title)}</h1>",
        "refresh": again,
        "style": _asset("page.css"),
        "links": links,
        "body": body,
        "charts": _json("charts", charts),
        "library": chart_library() if charts else "",
        "script": _asset("page.js"),
    }
    text = _asset("page.html")
    for name, part in parts.items():
        before, mark, after = text.partition(f"<!--{name}-->")
        assert mark, name
        text = f"{before}{part}{after}"
    return text


@cache
def chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    bundle: str = load_package("vl_convert").javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")


def load_package(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingDependencyError(
            f"A report needs {name.replace('_', '-')}; install it with pip install 'pvtree[report]'."
        ) from None


def _cell(value: object) -> str:
    shown = shown_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    is_number = bool(shown) and (shown[0].isdigit() or (shown[0] in "+-" and shown[1:2].isdigit()))
    kind = " class=number" if is_number else " class=long" if len(shown) > LONG else ""
    return f"<td{kind}>{escape(shown)}</td>"


def _json(name: str, value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), default=_plain).replace("<", "\\u003c")
    return f'<script type="application/json" id="data-{name}">{text}</script>'


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON")


@cache
def _asset(name: str) -> str:
    return (files("pvtree.front.report") / name).read_text("utf-8")
