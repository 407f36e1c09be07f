"""A report of a model and its training: one HTML file that needs no network."""

from pvtree.front.report.live import live_report
from pvtree.front.report.writing import write_report

__all__ = ["live_report", "write_report"]
