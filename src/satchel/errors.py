"""Errors that a user can fix. The command line prints them without a traceback and exits with code 2."""


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
