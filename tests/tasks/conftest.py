"""Tests run on one thread, which is fastest for tiny networks."""

from tests.training.conftest import one_thread as one_thread
