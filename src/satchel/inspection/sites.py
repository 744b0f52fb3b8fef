"""Public names of the sites of a network, the same in `satchel info`, traces and patched networks."""

import re

from torch import nn

from satchel.errors import SettingsError
from satchel.nn.sites import sites

# Modules that contain most sites; public names omit them.
PREFIX = re.compile(r"^(encoder\.)?(pair\.)?(head\.)?")


def site_paths(network: nn.Module) -> dict[str, str]:
    """Return the module path of each site by its public name: `blocks.0.output` for `encoder.blocks.0.output`."""
    return {PREFIX.sub("", path): path for path in sites(network)}


def unknown_site(name: str, network: nn.Module | None) -> SettingsError:
    """Return the error for a name that is not the name of a site."""
    names = [] if network is None else site_paths(network)
    return SettingsError(f"unknown site {name}", f"expected one of {', '.join(names)}" if names else "it has no sites")
