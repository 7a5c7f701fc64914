import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.func import functional_call, stack_module_state


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def test_a_module_is_as_before_after_the_call(place: Device) -> None:
    model = network().to(place)
    before = dict(model.named_parameters())
    x = fw.rand(5, 3, device=place)
    state = {name: each.detach() * 0 for name, each in before.items()}
    assert functional_call(model, state, x).tolist() == [[0, 0]] * 5
    assert all(each is before[name] for name, each in model.named_parameters())
    with pytest.raises(RuntimeError, match=r"2\.weights"):
        functional_call(model, {"2.weights": x}, x, strict=True)
    with pytest.raises(RuntimeError, match="is not given"):
        functional_call(model, {"2.bias": x}, x, strict=True)
    with pytest.raises(ValueError, match="several dicts"):
        functional_call(model, [state, state], x)


def test_an_ensemble_runs_as_a_batch(place: Device) -> None:
    models = [network().to(place) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    x = fw.rand(5, 3, device=place)

    def call(parameters: object, buffers: object, x: fw.Tensor) -> fw.Tensor:
        answer: fw.Tensor = functional_call(models[0], (parameters, buffers), (x,))  # type: ignore[arg-type]
        return answer

    found = fw.func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    wanted = fw.stack([model(x) for model in models])
    np.testing.assert_allclose(
        found.detach().numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6
    )
    assert all(each.requires_grad and each.is_leaf for each in parameters.values())


def test_gradients_of_each_sample(place: Device) -> None:
    model = network().to(place)
    state = {name: each.detach() for name, each in model.named_parameters()}
    x, y = fw.rand(5, 3, device=place), fw.rand(5, 2, device=place)

    def loss(state: dict[str, fw.Tensor], x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        answer = functional_call(model, state, x.unsqueeze(0))
        return nn.functional.mse_loss(answer, y.unsqueeze(0))

    found = fw.func.vmap(fw.func.grad(loss), in_dims=(None, 0, 0))(state, x, y)
    for row in range(5):
        model.zero_grad()
        nn.functional.mse_loss(model(x[row]), y[row]).backward()
        for name, each in model.named_parameters():
            np.testing.assert_allclose(
                found[name][row].numpy(), each.grad.numpy(), rtol=1e-4, atol=1e-6
            )


def test_a_tied_weight_is_replaced_under_all_of_its_names() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    x, twice = fw.ones(2), fw.tensor([[2.0, 0.0], [0.0, 2.0]])
    assert functional_call(model, {"0.weight": twice}, x).tolist() == [4, 4]


def test_models_that_differ_are_not_stacked() -> None:
    with pytest.raises(RuntimeError, match="of one"):
        stack_module_state([nn.Linear(2, 2), nn.Tanh()])
    with pytest.raises(RuntimeError, match="training"):
        stack_module_state([nn.Linear(2, 2), nn.Linear(2, 2).eval()])
    with pytest.raises(RuntimeError, match="no model"):
        stack_module_state([])
