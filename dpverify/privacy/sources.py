"""Where every statement comes from, and whether it holds as its paper prints it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper, report or set of slides."""

    key: str
    title: str
    authors: str
    where: str


PAPERS: dict[str, Paper] = {
    paper.key: paper
    for paper in (
        Paper(
            "DMNS06",
            "Calibrating noise to sensitivity in private data analysis",
            "Dwork, McSherry, Nissim, Smith",
            "TCC 2006",
        ),
        Paper(
            "DKMMN06",
            "Our data, ourselves: privacy via distributed noise generation",
            "Dwork, Kenthapadi, McSherry, Mironov, Naor",
            "EUROCRYPT 2006",
        ),
        Paper(
            "GRS09",
            "Universally utility-maximizing privacy mechanisms",
            "Ghosh, Roughgarden, Sundararajan",
            "STOC 2009",
        ),
        Paper(
            "HT10",
            "On the geometry of differential privacy",
            "Hardt, Talwar",
            "STOC 2010",
        ),
        Paper(
            "KOV15",
            "The composition theorem for differential privacy",
            "Kairouz, Oh, Viswanath",
            "ICML 2015",
        ),
        Paper(
            "K19",
            "Privately learning high-dimensional distributions (slides)",
            "Kamath, on work with Li, Singhal, Ullman",
            "Simons Institute, 8 March 2019",
        ),
        Paper(
            "CKS20",
            "The discrete Gaussian for differential privacy",
            "Canonne, Kamath, Steinke",
            "NeurIPS 2020",
        ),
        Paper(
            "DR14",
            "The algorithmic foundations of differential privacy",
            "Dwork, Roth",
            "Foundations and Trends in Theoretical Computer Science 9, 2014",
        ),
        Paper(
            "W65",
            "Randomized response: a survey technique for eliminating evasive answer bias",
            "Warner",
            "Journal of the American Statistical Association 60, 1965",
        ),
        Paper(
            "KBR16",
            "Discrete distribution estimation under local privacy",
            "Kairouz, Bonawitz, Ramage",
            "ICML 2016",
        ),
        Paper("OURS", "dpverify: derived here, with its proof", "dpverify", "this repository"),
    )
}


class SourceStatus(Enum):
    """How a paper's statement fared when it was derived again."""

    HOLDS = "holds"
    CHANGED_CONSTANTS = "holds with changed constants"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class Source:
    """One item of one paper, and its status; ``note`` says what differs."""

    paper: str
    item: str
    status: SourceStatus = SourceStatus.HOLDS
    note: str = ""

    def __post_init__(self) -> None:
        if self.paper not in PAPERS:
            raise ValueError(
                f"{self.paper!r} is not a known paper; add it to dpverify/privacy/sources.py "
                f"(known: {', '.join(sorted(PAPERS))})."
            )

    def __str__(self) -> str:
        return f"{self.paper}, {self.item}"


_Item = TypeVar("_Item", bound=Callable[..., Any])
_ATTRIBUTE = "__dpverify_sources__"


def states(*sources: Source) -> Callable[[_Item], _Item]:
    """Mark a function or class as stating these items of these papers."""

    def mark(item: _Item) -> _Item:
        setattr(item, _ATTRIBUTE, sources)
        return item

    return mark


def sources_of(item: object) -> tuple[Source, ...]:
    """The items that ``states`` recorded on ``item`` itself, none if it was not marked."""
    found: tuple[Source, ...] = getattr(item, "__dict__", {}).get(_ATTRIBUTE, ())
    return found
