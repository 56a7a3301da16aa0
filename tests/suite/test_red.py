"""Halving any noise anywhere turns `dpverify audit` red.

The claim cannot follow: it is derived from the plan, and the plan is what it was. Only the draws
change, as a bug in a sampler would change them.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpverify.cli import main
from dpverify.plans import DiscreteLaplace, KaryResponse, NoNoise, stages_of
from dpverify.randomness import Bits, discrete_laplace, randomized_response
from dpverify.randomness.bits import IntArray
from dpverify.suite.trees import load

SUITE = load()
STAGES = [
    (key, stage.name, stage.noise)
    for key, configuration in SUITE.configurations.items()
    for stage in stages_of(configuration.mechanism.plan())
    if not isinstance(stage.noise, NoNoise)
]


def _halve(patch: pytest.MonkeyPatch, noise: DiscreteLaplace | KaryResponse) -> None:
    """Draws of this very noise get half its scale; every other noise stays as it is."""

    def scale(other: DiscreteLaplace | KaryResponse) -> Fraction:
        return other.scale / 2 if other == noise else other.scale

    def laplace(self: DiscreteLaplace, bits: Bits, center: IntArray, size: int) -> IntArray:
        drawn: IntArray = discrete_laplace(bits, scale(self), size)[:, None] + center
        return drawn

    def response(self: KaryResponse, bits: Bits, center: IntArray, size: int) -> IntArray:
        return randomized_response(bits, center, self.categories, scale(self), size)

    patch.setattr(DiscreteLaplace, "sample", laplace)
    patch.setattr(KaryResponse, "sample", response)


@pytest.mark.parametrize(("key", "stage", "noise"), STAGES, ids=[f"{k}:{s}" for k, s, _ in STAGES])
def test_halving_the_noise_of_a_stage_is_red(
    key: str,
    stage: str,
    noise: DiscreteLaplace | KaryResponse,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _halve(monkeypatch, noise)
    assert main(["audit", key, "--trials", "100000", "--seed", "11", "--workers", "1"]) == 1
    printed = capsys.readouterr().out
    assert "VIOLATED" in printed
    assert f"replay: dpverify audit {key} --seed 11 --trials 100000" in printed


def test_there_is_a_stage_of_every_kind_to_halve() -> None:
    assert {type(noise) for _, _, noise in STAGES} == {DiscreteLaplace, KaryResponse}
    assert len(STAGES) >= 12
