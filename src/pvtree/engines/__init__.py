"""Engines whose users need classes of their own: Spark's pipelines and Ray's trainers.

They are imported as ``pvtree.spark`` and ``pvtree.ray`` (ADR 0060).
"""
