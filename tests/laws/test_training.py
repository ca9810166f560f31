"""Gradients, optimizer states, losses and the moments of a step, against figures worked out by hand."""

from __future__ import annotations

import pytest

from lib.laws import training
from lib.units import Bytes
from lib.workload import Optimizer


def make_matrices(parameters: int, width: int) -> training.TrainedParameters:
    """Matrices of 100 rows and columns in all."""
    return training.TrainedParameters(parameters, parameters, 100, parameters, width)


def test_adam_in_mixed_precision() -> None:
    """ZeRO counts 16 bytes a parameter: 2 weight, 2 more of master, 4 gradient, 8 moments (2 + 2 + 12 where gradients stay in 16 bits)."""
    states = training.optimizer_states("adamw", make_matrices(1000, 4), foreach=False)
    assert training.gradient_bytes(make_matrices(1000, 4)) + states.resident == 12_000
    assert training.optimizer_states("adamw", make_matrices(1000, 2), foreach=True).temporary == 2000


@pytest.mark.parametrize(
    ("optimizer", "held", "paged"),
    [("adamw_8bit", 2031, 0), ("paged_adamw", 0, 8000), ("adafactor", 400, 0), ("muon", 2000, 0), ("sgd", 0, 0)],
)
def test_states_of_optimizers(optimizer: Optimizer, held: int, paged: int) -> None:
    """A thousand parameters in 16 bits."""
    states = training.optimizer_states(optimizer, make_matrices(1000, 2), foreach=False)
    assert (states.resident, states.paged) == (held, paged)


def test_a_fused_loss_does_not_grow_with_the_vocabulary() -> None:
    """Plain: 10 and then 12 bytes an entry and token, 2 more with a cap, 4 and 6 without a float32 copy.

    Fused: four hidden states a token and one chunk of logits.
    """
    sizes = {"vocabulary": 128_256, "hidden": 4096, "element_bytes": 2}
    assert training.loss_bytes(tokens=4096, fused=False, **sizes) == (4096 * 128_256 * 10, 4096 * 128_256 * 12)
    assert training.loss_bytes(tokens=1, fused=False, capped=True, **sizes) == (128_256 * 12, 128_256 * 14)
    assert training.loss_bytes(tokens=1, fused=False, copied=False, **sizes) == (128_256 * 4, 128_256 * 6)
    longer, shorter = (training.loss_bytes(tokens=tokens, fused=True, **sizes) for tokens in (8192, 4096))
    more = longer.backward - shorter.backward
    assert more == 4096 * 4 * 2 * 4096


def test_moments_of_a_step() -> None:
    """With few tokens the update is the fullest moment, with many the loss; accumulated gradients lie there through all of them."""
    tensors = training.StepTensors(
        states={"weights": 100}, copies=0, copies_in_backward=0, tied_gradients=0, gradients=50, first_gradients=10,
        saved_activations=20, layer=5, activation_gradients=1, kept_inputs=0, loss=training.LossBytes(Bytes(8), Bytes(10)),
        optimizer_temporary=40, accumulates=False, recomputes=True,
    )  # fmt: skip
    few = [sum(moment.values()) for moment in training.find_peaks(tensors)]
    assert few[:5] == [128, 130, 136, 156, 190]
    assert not any(few[5:]), "nothing is rolled out or scored, and there is no tower"
    assert sum(training.find_peaks(tensors._replace(accumulates=True)).loss.values()) == 180
