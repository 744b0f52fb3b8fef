"""The parts of the server that operations in the HTTP process use."""

from dataclasses import dataclass
from pathlib import Path

from satchel.progress import Progress, silent
from satchel.web.catalogue import Catalogue
from satchel.web.trainings import Trainings


@dataclass(frozen=True)
class ServerContext:
    """The runs, the data and the training of the server."""

    catalogue: Catalogue
    trainings: Trainings
    progress: Progress = silent

    def data(self, name: str) -> Path | str:
        """Return the path of a data file, or the name of a dataset (@NAME)."""
        return self.catalogue.data(name)
