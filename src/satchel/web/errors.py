"""Errors of the server that have HTTP statuses of their own. Every other SatchelError is an invalid request."""

from satchel.errors import SatchelError


class NotFoundError(SatchelError):
    """Unknown run, data file or route (404)."""


class ConflictError(SatchelError):
    """The request conflicts with the current state, such as a training that is running (409)."""


class OverloadedError(SatchelError):
    """Too many requests are waiting, or the server is shutting down (503 with Retry-After)."""


class DeadlineError(SatchelError):
    """A request took longer than its time limit (504)."""


class WorkerError(SatchelError):
    """A worker process ended while it answered the request (503), or failed (500)."""


class InvalidFieldError(SatchelError):
    """A field of a request is invalid for the model, such as a token id outside of its vocabulary."""

    def __init__(self, field: str, cause: str, remedy: str = "") -> None:
        super().__init__(cause, remedy)
        self.field = field
