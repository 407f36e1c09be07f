"""Charts in one style: lines that differ in dash as well as colour, bars with plain axes.

Fields are always called x, y and by: names of columns may hold anything, and Vega reads dots and brackets in fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pvtree.front.plotting.axes import COLOURS
from pvtree.front.report.page import load_package

HEIGHT = 240
DOTTED = {"strokeDash": [2, 3], "color": "#888888"}
MAX_LINE_POINTS = 400  # of one line: more cannot be told apart on a screen


def altair() -> Any:
    return load_package("altair")


def records(**columns: Sequence[Any]) -> Any:
    """A chart of these columns, without pandas."""
    values = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return altair().Chart(altair().Data(values=values))


def number(channel: str, title: str | None, **options: Any) -> Any:
    """The encoding of a quantity; its axis need not begin at 0."""
    alt = altair()
    kind = {"x": alt.X, "y": alt.Y}[channel]
    options.setdefault("scale", alt.Scale(zero=False))
    options.setdefault("axis", alt.Axis(labelOverlap=True, labelSeparation=6))
    return kind(channel, type="quantitative", title=title, **options)


def legend(order: Sequence[str]) -> Any:
    """The encoding of ``by``: a colour each, with a legend above the chart."""
    alt = altair()
    scale = alt.Scale(domain=list(order), range=list(COLOURS[: len(order)]))
    above = alt.Legend(orient="top", title=None, columns=4)
    return alt.Color("by", type="nominal", sort=list(order), scale=scale, legend=above)


def tips(**titles: str) -> list[Any]:
    alt = altair()
    return [
        alt.Tooltip(field, type="nominal" if field in ("by", "name") else "quantitative", title=title or "value")
        for field, title in titles.items()
    ]


def line_chart(
    x: Sequence[float],
    y: Sequence[float],
    titles: tuple[str, str],
    by: Sequence[str] | None = None,
    span: tuple[float, float] | None = None,
) -> Any:
    """Lines of ``y`` over ``x``, one for each value of ``by``; ``span`` are the ends of the x-axis."""
    alt = altair()
    scale = alt.Scale(zero=False) if span is None else alt.Scale(domain=list(span), nice=False)
    encodings = {"x": number("x", titles[0], scale=scale), "y": number("y", titles[1])}
    tooltip = tips(x=titles[0], y=titles[1])
    if by is None:
        chart = records(x=x, y=y, place=range(len(x)))
    else:
        chart, order = records(x=x, y=y, place=range(len(x)), by=by), list(dict.fromkeys(by))
        encodings["color"] = legend(order)
        encodings["strokeDash"] = alt.StrokeDash("by", type="nominal", sort=order, legend=None)
        tooltip += tips(by="set")
    mark = chart.mark_line(strokeWidth=2, color=COLOURS[0])
    # In the given order: curves may go straight up.
    encodings["order"] = alt.Order("place", type="quantitative")
    return mark.encode(**encodings, tooltip=tooltip).properties(height=HEIGHT)


# Lines across a chart of the same titles: Vega writes each different title of two layers.
def vertical(at: float, title: str) -> Any:
    return records(x=[at]).mark_rule(**DOTTED).encode(x=number("x", title))


def horizontal(at: float, title: str) -> Any:
    return records(y=[at]).mark_rule(**DOTTED).encode(y=number("y", title))


def diagonal(titles: tuple[str, str], low: float = 0.0, high: float = 1.0) -> Any:
    chart = records(x=[low, high], y=[low, high]).mark_line(**DOTTED)
    return chart.encode(x=number("x", titles[0]), y=number("y", titles[1]))


def bar_chart(names: Sequence[str], values: Sequence[float], title: str) -> Any:
    """Horizontal bars in the given order, with room for long names."""
    alt = altair()
    chart = records(name=names, x=values).mark_bar(color=COLOURS[0])
    return chart.encode(
        x=number("x", title, scale=alt.Scale()),
        y=alt.Y("name", type="nominal", sort=None, title=None, axis=alt.Axis(labelLimit=140)),
        tooltip=tips(name="name", x=title),
    ).properties(height=max(80, 20 * len(names)))


def stacked_bars(bars: Sequence[tuple[int, float, str]], titles: tuple[str, str]) -> Any:
    """Bars over whole numbers, (x, height, part of the bar); the first part is at the bottom."""
    alt = altair()
    x, y, by = zip(*bars, strict=True)
    order = list(dict.fromkeys(by))
    chart = records(x=x, y=y, by=by, place=[order.index(each) for each in by]).mark_bar()
    return chart.encode(
        x=alt.X("x", type="ordinal", title=titles[0], axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("y", type="quantitative", title=titles[1], stack="zero"),
        color=legend(order),
        order=alt.Order("place", type="quantitative"),
        tooltip=tips(x=titles[0], y=titles[1], by="of"),
    ).properties(height=HEIGHT)


def histogram(edges: Sequence[float], counts: Sequence[float], title: str) -> Any:
    """Bars between the edges."""
    alt = altair()
    chart = records(x=edges[:-1], until=edges[1:], y=counts).mark_bar(color=COLOURS[0])
    return chart.encode(
        x=number("x", title, bin="binned"),
        x2="until:Q",
        y=alt.Y("y", type="quantitative", title="rows"),
        tooltip=tips(x="from", until="to", y="rows"),
    ).properties(height=HEIGHT)


def with_distribution(chart: Any, edges: Sequence[float], counts: Sequence[float], title: str) -> Any:
    """The chart with grey bars at its foot, in its lowest fifth, that show where the values of x lie."""
    alt = altair()
    bars = records(x=edges[:-1], until=edges[1:], y=counts).mark_rect(color="#888888", opacity=0.4)
    foot = bars.encode(
        x=number("x", title),
        x2="until:Q",
        y=alt.Y("y", type="quantitative", scale=alt.Scale(domain=[0, 5 * max(counts)]), axis=None),
        y2=alt.Y2Datum(0),
        tooltip=tips(x="from", until="to", y="rows"),
    )
    return alt.layer(foot, chart).resolve_scale(y="independent")


def points(x: Sequence[float], y: Sequence[float], titles: tuple[str, str], size: int = 18) -> Any:
    chart = records(x=x, y=y).mark_circle(size=size, opacity=0.5, color=COLOURS[0])
    encoded = chart.encode(x=number("x", titles[0]), y=number("y", titles[1]), tooltip=tips(x=titles[0], y=titles[1]))
    return encoded.properties(height=HEIGHT)


def heat_table(x: Sequence[str], y: Sequence[str], values: Sequence[float], titles: tuple[str, str]) -> Any:
    """Cells shaded by their values, which are also written into them."""
    alt = altair()
    base = records(x=x, y=y, value=values).encode(
        x=alt.X("x", type="nominal", sort=None, title=titles[0], axis=alt.Axis(labelAngle=0)),
        y=alt.Y("y", type="nominal", sort=None, title=titles[1]),
    )
    shades = alt.Scale(range=["#0072B200", "#0072B299"])
    shade = base.mark_rect().encode(color=alt.Color("value", type="quantitative", scale=shades, legend=None))
    return (shade + base.mark_text().encode(text=alt.Text("value", type="quantitative"))).properties(height=HEIGHT)


def thinned(n: int, most: int = MAX_LINE_POINTS) -> list[int]:
    """Evenly spaced places of a long curve, its ends included."""
    if n <= most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})
