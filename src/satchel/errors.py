"""Errors that a user can fix. The command line prints them without a traceback and exits with code 2."""

from collections.abc import Mapping
from typing import Any


class SatchelError(Exception):
    """Base class: the cause, a remedy, and optionally the location (`where`: file, line or byte)."""

    def __init__(self, cause: str, remedy: str = "", *, where: str = "") -> None:
        self.cause = cause
        self.remedy = remedy
        self.where = where
        super().__init__(cause, remedy, where)

    def __str__(self) -> str:
        first = f"{self.where}: {self.cause}" if self.where else self.cause
        return f"{first}\n{self.remedy}" if self.remedy else first


class DataError(SatchelError):
    """Invalid text or table."""


class SettingsError(SatchelError):
    """Invalid setting or option."""


class RunError(SatchelError):
    """Invalid or damaged run folder or model file, or a run of the wrong kind."""


class NonFiniteError(RunError):
    """A network computes values that are not finite."""


class MachineError(SatchelError):
    """A limit of the machine: disk, memory, permissions or device."""


class StopRequested(BaseException):
    """A signal requests the end of a training; raised where a step or a validation can be abandoned.

    Derived from BaseException so that no `except Exception` catches it.
    """


# Expected values by type of a pydantic error, with the placeholders of its context.
EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a group of named values",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "a number greater than {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "int_from_float": "an integer",
    "int_type": "an integer",
    "less_than": "a number less than {lt}",
    "less_than_equal": "a number of at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "missing": "a value",
    "model_type": "a group of named values",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "string_too_long": "a text with a length of at most {max_length}",
    "string_too_short": "a text with a length of at least {min_length}",
    "string_type": "a text",
    "too_long": "at most {max_length} values",
    "too_short": "at least {min_length} values",
    "tuple_type": "a list",
    "union_tag_invalid": "{expected_tags}",
    "union_tag_not_found": "a value",
}


def expectation(detail: Mapping[str, Any]) -> str:
    """Return the value that a pydantic error expects, such as "an integer"; `detail` is one of its `errors()`."""
    if template := EXPECTED.get(detail["type"]):
        context = detail.get("ctx", {})
        return template.format(**{key: f"{v:g}" if isinstance(v, float) else v for key, v in context.items()})
    message: str = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return message.removeprefix("expected ")
