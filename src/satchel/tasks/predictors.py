"""The predictor of a network: the interface used by evaluation and generation."""

from satchel.tasks.classification import ClassificationNetwork, NetworkLabeller
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.tasks.tagging import NetworkTagger, TaggingNetwork


def predictor_of(
    network: LanguageNetwork | TaggingNetwork | ClassificationNetwork, boundary: int
) -> NetworkPredictor | NetworkLabeller | NetworkTagger:
    """Return the predictor of a network."""
    match network:
        case LanguageNetwork():
            return NetworkPredictor(network, boundary)
        case TaggingNetwork():
            return NetworkTagger(network, boundary)
        case ClassificationNetwork():
            return NetworkLabeller(network, boundary)
