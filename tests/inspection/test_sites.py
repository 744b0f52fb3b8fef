"""Names of sites: the same in `satchel info`, in traces and in patched networks."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from satchel.api.info import describe
from satchel.inspection.patched import patched
from satchel.inspection.sites import site_paths
from satchel.nn.sites import sites
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.translation import TranslationNetwork
from tests.inspection.conftest import train
from tests.models import test_pair
from tests.models.encoders import SETTINGS, make

NAMES = [*SETTINGS, *(f"{name} pair" for name in test_pair.SETTINGS)]


def network_of(name: str) -> nn.Module:
    if name.endswith(" pair"):
        return TranslationNetwork(test_pair.make_pair(test_pair.SETTINGS[name.removesuffix(" pair")]))
    return LanguageNetwork(make(name))


@pytest.mark.parametrize("name", NAMES)
def test_each_site_has_a_name_of_its_own(name: str) -> None:
    network = network_of(name)
    paths = site_paths(network)
    assert sorted(paths.values()) == sorted(sites(network))
    assert "logits" in paths
    assert not any(each.startswith(("pair.", "head.")) for each in paths)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("text.txt", {"model": "transformer", "tokenizer": "word"}),
        ("text.txt", {"model": "backpack", "tokenizer": "word"}),
        ("rows.tsv", {"model": "transformer", "tokenizer": "word"}),
        ("@reverse", {"settings": {"data.size": 50, "model.context": 64}}),
    ],
)
def test_info_traces_and_patches_use_the_same_names(folder: Path, data: str, options: dict[str, Any]) -> None:
    model = train(folder, data, **options)
    names = list(model.trace("abc").sites)
    assert describe(str(model.folder))["sites"] == names
    patches = dict.fromkeys(names, torch.Tensor.clone)
    assert list(site_paths(patched(model.network, patches))) == names
    edited = model.edit(zero=[(0, 0)])
    assert list(edited.trace("abc").sites) == names
    (layer,) = [name for name in names if name.endswith("blocks.0.attention.outputs") and "reader" not in name]
    assert not edited.trace("abc")[layer][0].any()
