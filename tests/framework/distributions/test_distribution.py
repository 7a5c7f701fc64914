"""What all distributions share."""

from typing import Any

import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Normal,
    kl_divergence,
)
from vkbackend.framework.distributions.distribution import broadcast_all


def test_values_of_another_shape() -> None:
    with pytest.raises(ValueError, match="it must broadcast with"):
        Normal(fw.zeros(3), fw.ones(3)).log_prob(fw.zeros(2))
    with pytest.raises(ValueError, match="it must be a tensor"):
        Normal(0.0, 1.0).log_prob(0.5)  # type: ignore[arg-type]


def test_parameters_of_another_kind() -> None:
    with pytest.raises(ValueError, match="must be a number or a tensor"):
        broadcast_all("1", 2.0)  # type: ignore[arg-type]


def test_checks_may_be_switched_off() -> None:
    Distribution.set_default_validate_args(False)
    try:
        Normal(0.0, -1.0)
    finally:
        Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="must be a bool"):
        Distribution.set_default_validate_args("no")  # type: ignore[arg-type]


def test_repr_shows_the_parameters() -> None:
    assert (
        repr(Normal(0.0, fw.ones(2)))
        == "Normal(loc: torch.Size([2]), scale: torch.Size([2]))"
    )
    assert repr(Bernoulli(0.5)).startswith("Bernoulli(probs: ")


def test_what_is_not_defined() -> None:
    with pytest.raises(NotImplementedError, match="use sample"):
        Bernoulli(0.5).rsample()
    with pytest.raises(NotImplementedError, match="cannot be listed"):
        Normal(0.0, 1.0).enumerate_support()


@pytest.mark.parametrize(
    "place", ["cpu", pytest.param("device", marks=pytest.mark.device)]
)
def test_replayed(place: str, request: pytest.FixtureRequest) -> None:
    name = "cpu"
    if place == "device":
        found: vkbackend.Device = request.getfixturevalue("device")
        name = found.name

    @fw.jit
    def step(loc: fw.Tensor, scale: fw.Tensor) -> fw.Tensor:
        distribution = Normal(loc, scale)
        drawn = distribution.rsample()
        prior = Normal(loc * 0, scale * 0 + 1)
        entropy = Categorical(logits=loc).entropy()
        divergence = kl_divergence(distribution, prior).sum()
        return distribution.log_prob(drawn).sum() + divergence + entropy

    loc, scale = fw.arange(3.0).to(name), fw.ones(3).to(name)
    results = {step(loc, scale).item() for _ in range(3)}
    # Each call draws anew.
    assert len(results) == 3
    assert step.traces == 1


def test_a_class_that_expands_itself() -> None:
    class Shifted(Normal):
        def __init__(self, loc: fw.Tensor, scale: fw.Tensor, shift: fw.Tensor) -> None:
            self.shift = shift
            super().__init__(loc, scale)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Shifted, _instance)
            new.shift = self.shift.expand(batch_shape)
            return super().expand(batch_shape, _instance=new)

    class Named(Shifted):
        def __init__(self, name: str) -> None:
            super().__init__(fw.zeros(()), fw.ones(()), fw.ones(()))

    made = Shifted(fw.zeros(()), fw.ones(()), fw.ones(())).expand((3,))
    assert type(made) is Shifted
    assert made.loc.shape == made.shift.shape == made.batch_shape == (3,)
    with pytest.raises(NotImplementedError, match=r"Named\.expand: .* define expand"):
        Named("a").expand((3,))
