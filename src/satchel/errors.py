"""What can go wrong that a user can mend, by what has to be mended."""


class SatchelError(Exception):
    """A cause in one line and a remedy in another; the terminal shows both.

    `where` names the file, and the line or byte in it, where the cause was found.
    """

    def __init__(self, cause: str, remedy: str = "", *, where: str = "") -> None:
        self.cause = cause
        self.remedy = remedy
        self.where = where
        super().__init__(cause, remedy, where)

    def __str__(self) -> str:
        first = f"{self.where}: {self.cause}" if self.where else self.cause
        return f"{first}\n{self.remedy}" if self.remedy else first


class DataError(SatchelError):
    """A text or a table has to change."""


class SettingsError(SatchelError):
    """A setting or an option has to change."""


class RunError(SatchelError):
    """A run folder or a model file is not what it should be."""


class MachineError(SatchelError):
    """The disk, the memory or a permission stands in the way."""
