"""Shared by all tests: hypothesis draws the same examples at every run, and no example has a deadline."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
