"""Errors of the server, and the form in which clients receive them, which is that of OpenAI's API."""

import json
from typing import Any

from satchel.errors import SatchelError

# Values of `type` in an error, by HTTP status.
ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class ServerError(SatchelError):
    """Base class of errors with an HTTP status of their own. Every other SatchelError is an invalid request."""

    status = 500


class NotFoundError(ServerError):
    """Unknown run, data file or route."""

    status = 404


class ConflictError(ServerError):
    """The request conflicts with the current state, such as a training that is running."""

    status = 409


class OverloadedError(ServerError):
    """Too many requests are waiting, or the server is shutting down."""

    status = 503


class DeadlineError(ServerError):
    """A request took longer than its time limit."""

    status = 504


class WorkerError(ServerError):
    """A worker process ended while it answered the request."""

    status = 503


class InternalError(ServerError):
    """An unexpected error in a worker process; its log contains the details."""

    status = 500


class InvalidFieldError(SatchelError):
    """A field of a request is invalid for the model, such as a token id outside of its vocabulary.

    `code` is a name for programs, such as `context_length_exceeded`.
    """

    def __init__(self, field: str, cause: str, remedy: str = "", code: str | None = None) -> None:
        super().__init__(cause, remedy)
        self.field, self.code = field, code


def error_document(
    message: str, kind: str, *, remedy: str = "", param: str | None = None, code: str | None = None, where: str = ""
) -> dict[str, Any]:
    """Return the JSON document of an error."""
    located = f"{where}: {message}" if where else message
    return {"error": {"message": located, "type": kind, "param": param, "code": code, "remedy": remedy or None}}


def describe(error: SatchelError, default: int) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status of an error and its document; `default` is the status of invalid requests."""
    status = error.status if isinstance(error, ServerError) else default
    kind = ERROR_TYPES.get(status, "invalid_request_error")
    field, code = getattr(error, "field", None), getattr(error, "code", None)
    return status, error_document(error.cause, kind, remedy=error.remedy, param=field, code=code, where=error.where)


def json_bytes(document: Any) -> bytes:
    """Return a document as compact JSON."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
