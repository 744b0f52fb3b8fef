"""Sites can be read and rewritten by whoever runs the network, and by nobody else."""

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


def test_sites_have_the_names_of_their_places() -> None:
    assert list(sites(nn.ModuleDict({"block": Doubling()}))) == ["block.inner", "block.outer"]


def test_what_passes_is_recorded_and_can_be_rewritten() -> None:
    network, x = Doubling(), torch.ones(2)
    with recording(network, "*er") as found:
        network(x)
        network(3 * x)
    assert [value.tolist() for value in found["inner"]] == [[1, 1], [3, 3]]
    assert [value.tolist() for value in found["outer"]] == [[2, 2], [6, 6]]
    with hooked(network, {"inner": lambda value: value + 1}):
        assert network(x).tolist() == [4, 4]
    assert network(x).tolist() == [2, 2]


def test_who_watches_inside_does_not_blind_who_watches_outside() -> None:
    network, x = Doubling(), torch.ones(1)
    with recording(network, "outer") as found, hooked(network, {"inner": lambda value: 10 * value}):
        network(x)
    assert found["outer"][0].item() == 20


def test_another_thread_sees_the_network_as_it_is() -> None:
    network, x = Doubling(), torch.ones(1)
    results = []
    with hooked(network, {"inner": lambda value: value + 1}):
        thread = threading.Thread(target=lambda: results.append(network(x).item()))
        thread.start()
        thread.join()
        assert network(x).item() == 4
    assert results == [2]


def test_after_an_error_nobody_watches_any_more() -> None:
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


def test_reading_another_site_keeps_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = MultiHead(4, 2)
    monkeypatch.setattr(MultiHead, "_explicit", lambda *arguments: pytest.fail("nobody asked for the weights"))
    with recording(layer, "queries", "outputs") as found:
        layer(torch.ones(1, 3, 4))
    assert found["queries"][0].shape == (1, 2, 3, 2)
