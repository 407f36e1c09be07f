"""Numbers as people write them, for labels of plots, reports and trees."""

from __future__ import annotations


def shown_number(value: float) -> str:
    """Such as 19,024, 0.8231 or 1.2e-07."""
    if value == int(value) if abs(value) < 1e15 else False:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"


def trimmed(value: float, precision: int) -> str:
    """At most ``precision`` digits after the point, without zeros at the end; small numbers keep as many in all."""
    text = f"{value:.{precision}f}"
    if value and not float(text):
        return f"{value:.{max(precision, 1)}g}"
    return text.rstrip("0").rstrip(".") if "." in text else text
