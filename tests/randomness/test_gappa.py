"""The proof of the polynomial's float error is checked again where gappa (and coq) are
installed."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import pytest

from dpverify.randomness import inversion

PROOF = Path(__file__).parents[1] / "proofs" / "horner.gappa"
BOUND = "1b-52"


def proved(text: str) -> bool:
    gappa = shutil.which("gappa")
    if gappa is None:
        pytest.skip("gappa is not installed; the proof in tests/proofs/horner.gappa is not run")
    # The shipped scheme needs no interval halved; of a false one gappa would halve for seconds.
    done = subprocess.run([gappa, "-Edichotomy=10"], input=text, text=True, capture_output=True)
    return done.returncode == 0


def test_the_scheme_is_within_its_bound() -> None:
    assert proved(PROOF.read_text())


def test_coq_checks_the_certificate_that_gappa_writes(tmp_path: Path) -> None:
    """Check with Coq, whose kernel knows nothing of gappa's algorithms (about ten seconds)."""
    gappa, coqc = shutil.which("gappa"), shutil.which("coqc")
    if gappa is None or coqc is None:
        pytest.skip("gappa, coq and its library for gappa are not all installed")
    written = subprocess.run(
        [gappa, "-Bcoq"], input=PROOF.read_text(), text=True, capture_output=True, check=True
    )
    (tmp_path / "horner.v").write_text(written.stdout)
    checked = subprocess.run([coqc, "horner.v"], cwd=tmp_path, capture_output=True, timeout=300)
    if b"Cannot find a physical path bound to logical path" in checked.stderr:
        pytest.skip("coq's library for gappa is not installed")
    assert checked.returncode == 0, checked.stderr
    assert (tmp_path / "horner.vo").exists()
    assert "Qed." in written.stdout
    assert "Admitted" not in written.stdout


def test_a_false_twin_is_not_proved() -> None:
    """2^-54 is what the last addition alone can err by."""
    text = PROOF.read_text()
    assert text.count(BOUND) == 1
    assert not proved(text.replace(BOUND, "1b-54"))


def test_the_proof_is_about_the_shipped_scheme() -> None:
    """The same coefficients, the same degree, one product and one sum each."""
    statements = PROOF.read_text()
    degree = len(inversion._COEFFICIENTS) - 1
    for k, coefficient in enumerate(inversion._COEFFICIENTS):
        sign = "-" if k % 2 else ""
        assert coefficient == (-1) ** k / math.factorial(k)
        assert f"c{k} = rnd({sign}1 / {math.factorial(k)});" in statements
    for k in range(degree):
        before = f"h{k + 1}" if k + 1 < degree else f"c{degree}"
        assert f"p{k} = rnd({before} * g);\nh{k} = rnd(p{k} + c{k});" in statements
