"""Halving any noise anywhere turns `dpverify audit` red.

Half of the noise of every stage is planted in the audit of its configuration, which is POWERLESS
unless it sees that; CI runs all of these audits. Here draws of one stage of each kind of noise are
halved, as a bug in a sampler would change them: the claim cannot follow, since it is derived from
the plan, and the plan is what it was.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import pytest

from dpverify.audit import Configuration
from dpverify.audit.attack import FixedAttack
from dpverify.audit.audit_targets import AuditTarget, audit_targets
from dpverify.audit.certificates import Certificate
from dpverify.cli import main
from dpverify.plans import (
    AboveThreshold,
    BlockChoices,
    DiscreteLaplace,
    KaryResponse,
    LaplaceTest,
    Noise,
    NoNoise,
    QuantileChoice,
    QuantileChoices,
    RoundedGaussian,
    SmoothNoise,
    Stage,
    ThresholdedGaussian,
    ThresholdedLaplace,
    stages_of,
)
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray
from dpverify.suite.trees import load

KINDS = (
    AboveThreshold,
    BlockChoices,
    DiscreteLaplace,
    KaryResponse,
    LaplaceTest,
    QuantileChoice,
    QuantileChoices,
    RoundedGaussian,
    SmoothNoise,
    ThresholdedGaussian,
    ThresholdedLaplace,
)
"""Every kind of noise that a configuration draws."""
SUITE = load()
TRIALS = (5_000, 20_000, 100_000)
"""Most stages are red with the few already; one that is not has to be with the many."""


def _attacked(configuration: Configuration) -> list[Stage]:
    """List the stages whose noise is attacked here; of one that several configurations have, in
    one of them."""
    return [
        stage
        for stage in stages_of(configuration.mechanism.plan())
        if not isinstance(stage.noise, NoNoise)
        if configuration.target_stages is None or stage.name in configuration.target_stages
        if stage.name not in configuration.elsewhere
    ]


def _stage_of(kind: type[Noise]) -> tuple[str, Stage]:
    """Find the last configuration with this kind of noise, and a stage of it."""
    for name in reversed([*SUITE.entries]):
        for key, configuration in reversed(SUITE.entries[name].keyed.items()):
            for stage in _attacked(configuration):
                if type(stage.noise) is kind:
                    return key, stage
    raise AssertionError(f"no configuration draws {kind.__name__}")


def _halve(patch: pytest.MonkeyPatch, noise: Noise) -> None:
    """Draws of this very noise get half its scale; every other noise stays as it is."""
    right, half = type(noise).sample, Fraction(1, 2)

    def sample(self: Noise, bits: Bits, center: IntArray, size: int) -> IntArray:
        halved = self.rescaled(half) if _begun(self) == _begun(noise) else self
        assert halved is not None
        return right(halved, bits, center, size)

    patch.setattr(type(noise), "sample", sample)


def _begun(noise: Noise) -> Noise:
    """A later round of AboveThreshold starts where the transcript says: all of these are one
    noise."""
    if isinstance(noise, AboveThreshold):
        return dataclasses.replace(noise, start=min(noise.start, 1))
    return noise


def _until_one_is_red(self: FixedAttack, target: Any, stream: int) -> tuple[Certificate, ...]:
    """Study and certify one pair after another, each at its share of alpha, until one refutes
    the claim: no other changes that."""
    return tuple(self.attempt(target, stream, range(len(self.pairs))).tried)


@pytest.mark.parametrize("name", SUITE.entries)
def test_half_of_the_noise_of_every_stage_is_planted(name: str) -> None:
    for configuration in SUITE.entries[name].keyed.values():
        targets = audit_targets(configuration).values()
        planted = {fault.name for target in targets for fault in target.planted()}
        assert {f"{stage.name}: scale x 0.5" for stage in _attacked(configuration)} <= planted


@pytest.mark.parametrize("kind", KINDS)
def test_halving_the_noise_of_a_stage_is_red(
    kind: type[Noise], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key, stage = _stage_of(kind)
    _halve(monkeypatch, stage.noise)
    monkeypatch.setattr(FixedAttack, "all_pairs", _until_one_is_red)
    monkeypatch.setattr("dpverify.suite.runner.traced_keys", lambda of: [])  # of other noise
    monkeypatch.setattr(
        AuditTarget, "planted", lambda self, *, thorough=False: []
    )  # this is the fault
    for trials in TRIALS:
        code = main(["audit", key, "--trials", str(trials), "--seed", "11", "--workers", "1"])
        printed = capsys.readouterr().out
        if code == 1:
            break
        assert code == 4  # not seen, and that is said
    assert code == 1
    assert "VIOLATED" in printed
    parts = ("", ":friendly-core", ":first-stage")  # the whole, or what of it is attacked by itself
    replays = [f"replay: dpverify audit {key}{part} --seed 11 --trials {trials}" for part in parts]
    assert any(replay in printed for replay in replays)


def test_no_kind_of_noise_is_forgotten() -> None:
    every = [stage for one in SUITE.configurations.values() for stage in _attacked(one)]
    assert {type(stage.noise) for stage in every} == {*KINDS}
    assert len(every) >= 150
