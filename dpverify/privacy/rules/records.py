"""Rules for a mechanism behind a map of single records: columns of a table, records left out."""

from __future__ import annotations

from dpverify.privacy.adjacency import Adjacency, AnyDomain, Domain, TableDomain
from dpverify.privacy.derivation import Derivation, PrivacyClaim
from dpverify.privacy.rules.making import claim_of, claims_among, derive, require_closed
from dpverify.privacy.sources import Source, states

_EACH = Source("OURS", "a total map of single records takes neighbors to neighbors")
_KEPT = Source("OURS", "a map that leaves records out turns a replacement into two steps")


@states(_EACH)
def of_each_record(
    claim: Derivation[PrivacyClaim], *, domain: AnyDomain, by: str
) -> Derivation[PrivacyClaim]:
    """Carry a mechanism's claim over to another domain, whose records a public function maps.

    by: the function, in words. It maps each record of the domain to one that the mechanism
    takes. It is total, has no coins and sees one record: neither its place nor the others. Then
    F(x_1, ..., x_n) = (f(x_1), ..., f(x_n)) has as many records as x. Where x and y differ at
    one place, F(x) and F(y) differ there or nowhere; where y is x without a row, F(y) is F(x)
    without the image of that row. So images of neighbors are neighbors under the same
    adjacency, or equal, and what the mechanism does on x is its law on F(x).
    """
    adjacency = _adjacency_of(claim, domain, "of_each_record")
    conclusion = claim_of(claim.conclusion.guarantee, claim, adjacency=adjacency, domain=domain)
    return derive(conclusion, f"a map of each record alone: {by}", (claim,), _EACH)


@states(_KEPT)
def of_kept_records(
    claim: Derivation[PrivacyClaim], *, domain: AnyDomain, adjacency: Adjacency, by: str
) -> Derivation[PrivacyClaim]:
    """Carry an add-remove claim over to another domain, whose records are mapped or left out.

    by: the public function that maps records or leaves them out, in words. It has no coins and
    sees one record: neither its place nor the others. F(x) has the images of the records that f
    keeps, in their order. Where y is x without a row, F(y) is F(x), or F(x) without one row:
    the same guarantee under add-remove. Where x and y differ at one place, let z be x without
    that row: F(x) is F(z) or has one row more, and so has F(y). So F(z) is a step or none from
    each of them, and belongs to the mechanism's domain: under replace the guarantee for two
    steps. A claim under replace says nothing here: it takes the number of records to be public,
    and that of the kept ones is not.
    """
    if not isinstance(adjacency, Adjacency):
        raise TypeError(
            f"adjacency = {adjacency!r}; write Adjacency.ADD_REMOVE or Adjacency.REPLACE."
        )
    about = _adjacency_of(claim, domain, "of_kept_records")
    if about is not Adjacency.ADD_REMOVE:
        raise ValueError(
            f"A claim under {about} ({claim.conclusion}) takes the number of records to be public, "
            "and how many are left after some are left out is not. Build the mechanism for "
            f"{Adjacency.ADD_REMOVE}; under {Adjacency.REPLACE} its guarantee is then paid for "
            "twice."
        )
    guarantee = claim.conclusion.guarantee
    if adjacency is Adjacency.REPLACE:
        guarantee = guarantee.for_group(2)
    conclusion = claim_of(guarantee, claim, adjacency=adjacency, domain=domain)
    twice = ", a replacement being two steps" * (adjacency is Adjacency.REPLACE)
    return derive(
        conclusion, f"records mapped or left out, each alone{twice}: {by}", (claim,), _KEPT
    )


def _adjacency_of(claim: Derivation[PrivacyClaim], domain: AnyDomain, rule: str) -> Adjacency:
    """Return the claim's adjacency, once the claim and the domain are what both rules are about."""
    claims_among([claim])
    require_closed(claim, rule)
    if not isinstance(domain, (Domain, TableDomain)):
        raise TypeError(f"domain = {domain!r}; give a Domain or a TableDomain.")
    about, taken = claim.conclusion.adjacency, claim.conclusion.domain
    if not isinstance(about, Adjacency):
        raise ValueError(f"{about} is about records that are friends, whose images need not be.")
    if not isinstance(taken, Domain):
        raise ValueError(f"The claim is for {taken} already; give the mechanism's own derivation.")
    most = domain.most_rows
    if taken.most_rows is not None and (most is None or most > taken.most_rows):
        raise ValueError(
            f"The claim is for {taken}, and {domain} has datasets of more rows. Build the "
            "mechanism without a bound on the number of rows."
        )
    return about
