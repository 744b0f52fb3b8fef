"""Tiny networks are quickest on one thread."""

from tests.training.conftest import one_thread as one_thread
