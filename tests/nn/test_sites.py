"""Sites: hooks record and replace values, in the context that installed them only."""

import threading

import pytest
import torch
from torch import Tensor, nn

from satchel.errors import SettingsError
from satchel.nn.attention import MultiHead
from satchel.nn.sites import Site, hooked, recording, sites


class Doubling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Site()
        self.outer = Site()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.outer(2 * self.inner(x))
        return result


def test_sites_have_the_names_of_their_modules() -> None:
    assert list(sites(nn.ModuleDict({"block": Doubling()}))) == ["block.inner", "block.outer"]


def test_values_are_recorded_and_replaced() -> None:
    network, x = Doubling(), torch.ones(2)
    with recording(network, "*er") as records:
        network(x)
        network(3 * x)
    assert [value.tolist() for value in records["inner"]] == [[1, 1], [3, 3]]
    assert [value.tolist() for value in records["outer"]] == [[2, 2], [6, 6]]
    with hooked(network, {"inner": lambda value: value + 1}):
        assert network(x).tolist() == [4, 4]
    assert network(x).tolist() == [2, 2]


def test_nested_hooks_keep_those_of_the_outer_block() -> None:
    network, x = Doubling(), torch.ones(1)
    with recording(network, "outer") as records, hooked(network, {"inner": lambda value: 10 * value}):
        network(x)
    assert records["outer"][0].item() == 20


def test_hooks_do_not_affect_other_threads() -> None:
    network, x = Doubling(), torch.ones(1)
    results = []
    with hooked(network, {"inner": lambda value: value + 1}):
        thread = threading.Thread(target=lambda: results.append(network(x).item()))
        thread.start()
        thread.join()
        assert network(x).item() == 4
    assert results == [2]


def test_hooks_are_removed_after_an_error() -> None:
    network = Doubling()
    with pytest.raises(ZeroDivisionError), hooked(network, {"inner": lambda value: value + 1}):
        raise ZeroDivisionError
    assert not network.inner.is_hooked


def test_an_unknown_site_is_an_error_that_lists_the_sites() -> None:
    with (
        pytest.raises(SettingsError, match=r"unknown site outr\nthe sites are inner, outer"),
        hooked(Doubling(), {"outr": lambda value: None}),
    ):
        pass
    with pytest.raises(SettingsError, match=r"no site matches x\*"), recording(Doubling(), "x*"):
        pass


def test_recording_another_site_keeps_fused_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = MultiHead(4, 2)
    monkeypatch.setattr(MultiHead, "_explicit", lambda *arguments: pytest.fail("the explicit implementation was used"))
    with recording(layer, "queries", "outputs") as records:
        layer(torch.ones(1, 3, 4))
    assert records["queries"][0].shape == (1, 2, 3, 2)
