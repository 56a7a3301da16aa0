"""Pictures of answers: matplotlib is needed when one is drawn, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpverify.mechanisms.private_quantiles import QuantilesEstimate
from dpverify.session.answers import Quantiles
from dpverify.session.histograms import Histogram, Top, bin_name

if TYPE_CHECKING:
    from dpverify.session.answers import Answer


def draw(answer: Answer, axes: Any = None) -> Any:
    """Draw a histogram with its 95% intervals, quantiles on a line, or a value with its interval;
    return the axes.

    Raises ImportError without matplotlib, and NoAnswer after an abstention.
    """
    result = answer.result
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plot() draws with matplotlib; run `pip install matplotlib`.") from None
    axes = pyplot.subplots()[1] if axes is None else axes
    axes.set_title(answer.question)
    if isinstance(result, (Histogram, Top)):
        _bars(result, axes)
    elif isinstance(result, (Quantiles, QuantilesEstimate)):
        axes.plot(result.value, range(1, len(result.value) + 1), "o-")
        axes.set_ylabel("quantile, in order")
    else:
        _interval(answer, axes)
    return axes


def _bars(result: Histogram | Top, axes: Any) -> None:
    """Draw a bar for each bin, with the interval of its count."""
    low, high = result.interval(0.95)  # for Top it holds for all values at once
    counts = result.value
    places = np.arange(len(counts))
    reach = [[counts[k] - low[k] for k in counts], [high[k] - counts[k] for k in counts]]
    axes.bar(places, list(counts.values()), yerr=reach, capsize=3)
    axes.set_xticks(places, [bin_name(name) for name in counts], rotation=30, ha="right")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_ylabel("records, with 95% intervals of the noise")


def _interval(answer: Answer, axes: Any) -> None:
    """Draw each number of the value, with its interval where there is one."""
    values = np.atleast_1d(np.asarray(answer.value, np.float64))
    ends = answer.result.interval(0.95)
    if values.ndim > 1:
        axes.imshow(values)
        return
    places = np.arange(len(values))
    if ends is not None:
        low, high = (np.atleast_1d(np.asarray(end, np.float64)) for end in ends)
        axes.errorbar(places, values, yerr=[values - low, high - values], fmt="o", capsize=3)
    else:
        axes.plot(places, values, "o")
    axes.set_xticks(places)
