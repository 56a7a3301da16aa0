"""Sources of every statement, and whether it holds as its paper prints it."""

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
            "NRS07",
            "Smooth sensitivity and sampling in private data analysis",
            "Nissim, Raskhodnikova, Smith",
            "STOC 2007",
        ),
        Paper(
            "DL09",
            "Differential privacy and robust statistics",
            "Dwork, Lei",
            "STOC 2009",
        ),
        Paper(
            "AD20",
            "Instance-optimality in differential privacy via approximate inverse sensitivity "
            "mechanisms",
            "Asi, Duchi",
            "NeurIPS 2020",
        ),
        Paper(
            "HT10",
            "On the geometry of differential privacy",
            "Hardt, Talwar",
            "STOC 2010",
        ),
        Paper(
            "T87",
            "A distribution-free M-estimator of multivariate scatter",
            "Tyler",
            "Annals of Statistics 15, 1987",
        ),
        Paper(
            "KT91",
            "Redescending M-estimates of multivariate location and scatter",
            "Kent, Tyler",
            "Annals of Statistics 19, 1991",
        ),
        Paper(
            "HRMS10",
            "Boosting the accuracy of differentially private histograms through consistency",
            "Hay, Rastogi, Miklau, Suciu",
            "VLDB 2010",
        ),
        Paper(
            "LMHMR15",
            "The matrix mechanism: optimizing linear counting queries under differential privacy",
            "Li, Miklau, Hay, McGregor, Rastogi",
            "VLDB Journal 24, 2015",
        ),
        Paper(
            "ZZ25",
            "Private statistical estimation via truncation",
            "Zampetakis, Zhou",
            "arXiv 2505.12541, 2025",
        ),
        Paper(
            "S11",
            "Privacy-preserving statistical estimation with optimal convergence rates",
            "Smith",
            "STOC 2011",
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
        Paper(
            "DRV10",
            "Boosting and differential privacy",
            "Dwork, Rothblum, Vadhan",
            "FOCS 2010",
        ),
        Paper(
            "MT07",
            "Mechanism design via differential privacy",
            "McSherry, Talwar",
            "FOCS 2007",
        ),
        Paper(
            "M09",
            "Privacy integrated queries: an extensible platform for privacy-preserving data "
            "analysis",
            "McSherry",
            "SIGMOD 2009",
        ),
        Paper(
            "KKMN09",
            "Releasing search queries and clicks privately",
            "Korolova, Kenthapadi, Mishra, Ntoulas",
            "WWW 2009",
        ),
        Paper(
            "BS16",
            "Concentrated differential privacy: simplifications, extensions, and lower bounds",
            "Bun, Steinke",
            "TCC 2016",
        ),
        Paper(
            "V17",
            "The complexity of differential privacy",
            "Vadhan",
            "Tutorials on the Foundations of Cryptography, 2017",
        ),
        Paper(
            "BW18",
            "Improving the Gaussian mechanism for differential privacy",
            "Balle, Wang",
            "ICML 2018",
        ),
        Paper(
            "KV18",
            "Finite sample differentially private confidence intervals",
            "Karwa, Vadhan",
            "ITCS 2018",
        ),
        Paper(
            "DKKLMS19",
            "Robust estimators in high dimensions without the computational intractability",
            "Diakonikolas, Kamath, Kane, Li, Moitra, Stewart",
            "FOCS 2016; SIAM Journal on Computing 48, 2019",
        ),
        Paper(
            "SMM19",
            "Privacy loss classes: the central limit theorem in differential privacy",
            "Sommer, Meiser, Mohammadi",
            "PoPETs 2019",
        ),
        Paper(
            "DDR20",
            "Optimal differential privacy composition for exponential mechanisms",
            "Dong, Durfee, Rogers",
            "ICML 2020",
        ),
        Paper(
            "DH20",
            "Designing differentially private estimators in high dimensions",
            "Dhar, Huang",
            "preprint, 2020",
        ),
        Paper(
            "CR21",
            "Bounding, concentrating, and truncating: unifying privacy loss composition for data "
            "analytics",
            "Cesar, Rogers",
            "ALT 2021",
        ),
        Paper(
            "GL95",
            "Applications of the van Trees inequality: a Bayesian Cramer-Rao bound",
            "Gill, Levit",
            "Bernoulli 1, 1995",
        ),
        Paper(
            "BDKU20",
            "CoinPress: practical private mean and covariance estimation",
            "Biswas, Dong, Kamath, Ullman",
            "NeurIPS 2020",
        ),
        Paper(
            "DRS22",
            "Gaussian differential privacy",
            "Dong, Roth, Su",
            "Journal of the Royal Statistical Society B 84, 2022",
        ),
        Paper(
            "ZDW22",
            "Optimal accounting of differential privacy via characteristic function",
            "Zhu, Dong, Wang",
            "AISTATS 2022",
        ),
        Paper(
            "DGKKM22",
            "Connect the dots: tighter discrete approximations of privacy loss distributions",
            "Doroshenko, Ghazi, Kamath, Kumar, Manurangsi",
            "PoPETs 2022",
        ),
        Paper(
            "TCKMS22",
            "FriendlyCore: practical differentially private aggregation",
            "Tsfadia, Cohen, Kaplan, Mansour, Stemmer",
            "ICML 2022",
        ),
        Paper(
            "BHS23",
            "Fast, sample-efficient, affine-invariant private mean and covariance estimation for "
            "subgaussian distributions",
            "Brown, Hopkins, Smith",
            "COLT 2023",
        ),
        Paper(
            "KDH23",
            "A pretty fast algorithm for adaptive private mean estimation",
            "Kuditipudi, Duchi, Haque",
            "COLT 2023",
        ),
        Paper(
            "DJYZZ24",
            "Dimension-free private mean estimation for anisotropic distributions",
            "Dagan, Jordan, Yang, Zakynthinou, Zhivotovskiy",
            "NeurIPS 2024; items are numbered as on arXiv",
        ),
        Paper(
            "PH24",
            "Lower bounds for private estimation of Gaussian covariance matrices under all "
            "reasonable parameter regimes",
            "Portella, Harvey",
            "arXiv 2404.17714, 2024",
        ),
        Paper(
            "ALNP23",
            "PLAN: variance-aware private mean estimation",
            "Aumueller, Lebeda, Nelson, Pagh",
            "PoPETs 2024",
        ),
        Paper(
            "KSU20",
            "Private mean estimation of heavy-tailed distributions",
            "Kamath, Singhal, Ullman",
            "COLT 2020",
        ),
        Paper(
            "KLSU19",
            "Privately learning high-dimensional distributions",
            "Kamath, Li, Singhal, Ullman",
            "COLT 2019",
        ),
        Paper(
            "BNSV15",
            "Differentially private release and learning of threshold functions",
            "Bun, Nissim, Stemmer, Vadhan",
            "FOCS 2015",
        ),
        Paper(
            "DHS15",
            "Differentially private learning of structured discrete distributions",
            "Diakonikolas, Hardt, Schmidt",
            "NeurIPS 2015",
        ),
        Paper(
            "ASZ21",
            "Differentially private Assouad, Fano, and Le Cam",
            "Acharya, Sun, Zhang",
            "ALT 2021",
        ),
        Paper(
            "KSS22",
            "Differentially private approximate quantiles",
            "Kaplan, Schnapp, Stemmer",
            "ICML 2022",
        ),
        Paper(
            "DR19",
            "Practical differentially private top-k selection with pay-what-you-get composition",
            "Durfee, Rogers",
            "NeurIPS 2019",
        ),
        Paper(
            "KMS22",
            "New lower bounds for private estimation and a generalized fingerprinting lemma",
            "Kamath, Mouzakis, Singhal",
            "NeurIPS 2022",
        ),
        Paper(
            "RRUV16",
            "Privacy odometers and filters: pay-as-you-go composition",
            "Rogers, Roth, Ullman, Vadhan",
            "NeurIPS 2016",
        ),
        Paper(
            "ST22",
            "Fully adaptive composition for Gaussian differential privacy",
            "Smith, Thakurta",
            "arXiv 2210.17520, 2022",
        ),
        Paper(
            "KTH23",
            "Individual privacy accounting with Gaussian differential privacy",
            "Koskela, Tobaben, Honkela",
            "ICLR 2023; arXiv 2209.15596, 2022",
        ),
        Paper("OURS", "dpverify: derived here, with its proof", "dpverify", "this repository"),
    )
}


class SourceStatus(Enum):
    """The result of deriving a paper's statement again."""

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
    """Return the items that ``states`` recorded on ``item`` itself, none if it was not marked."""
    sources: tuple[Source, ...] = getattr(item, "__dict__", {}).get(_ATTRIBUTE, ())
    return sources
