"""Figures as SVG, small enough for hundreds of them in one page; colors are the page's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element

from dpverify.report.figures import Axis, Figure, Layer, Point
from dpverify.report.markup import tag

_WIDTH, _PLOT = 360, 236
_LEFT, _RIGHT, _TOP, _BELOW = 52, 18, 10, 40
_LEGEND = 19  # height of a line
_TICKS = 5  # about the largest number of ticks
_SIZE = 3.5  # half the width of a cross
_VISIBLE = 1.0  # pixels: closer points are drawn as one
_Place = Callable[[Point], tuple[float, float]]


def draw(figure: Figure, name: str) -> Element:
    """Draw a figure.

    ``name`` is unique in the page: the ids of the figure's title and description are made from
    it.
    """
    height = _PLOT + _LEGEND * len(figure.layers) + 6

    def place(point: Point) -> tuple[float, float]:
        across = _LEFT + (_WIDTH - _LEFT - _RIGHT) * _share(figure.x, point[0])
        return across, _PLOT - _BELOW - (_PLOT - _BELOW - _TOP) * _share(figure.y, point[1])

    return tag(
        "svg",
        tag("title", figure.title, id=f"{name}t"),
        tag("desc", figure.description, id=f"{name}d"),
        *_axes(figure, place),
        *(element for layer in figure.layers for element in _layer(layer, place)),
        *(_legend(layer, _PLOT + _LEGEND * i + 8) for i, layer in enumerate(figure.layers)),
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        aria_labelledby=f"{name}t {name}d",
    )


def ticks(axis: Axis) -> list[float]:
    """Return round numbers within the axis: powers of ten, and 2 and 5 times these.

    On a logarithmic axis of two decades or more, powers of ten alone.
    """
    if not axis.log:
        raw = (axis.high - axis.low) / _TICKS
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
        count = math.floor((axis.high - axis.low) / step + 1e-9)
        first = math.ceil(axis.low / step - 1e-9)
        return [(first + i) * step for i in range(count + 1)]
    low, high = math.log10(axis.low), math.log10(axis.high)
    decades = range(math.floor(low + 1e-9), math.ceil(high - 1e-9) + 1)
    every = max(1, math.ceil(len(decades) / (_TICKS + 1)))
    steps = (1, 2, 5) if high - low < 2 else (1,)
    marks = [step * 10.0**decade for decade in decades[::every] for step in steps]
    return [mark for mark in marks if low - 1e-9 <= math.log10(mark) <= high + 1e-9]


def _share(axis: Axis, value: float) -> float:
    """Place a value between the ends of the axis, which it does not leave."""
    low, high = axis.low, axis.high
    if axis.log:
        low, high = math.log10(low), math.log10(high)
        value = math.log10(value) if value > 0 else low
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _axes(figure: Figure, place: _Place) -> list[Element]:
    """Draw grid lines in one path, numbers, and the names of both axes."""
    bottom, right = _PLOT - _BELOW, _WIDTH - _RIGHT
    grid, numbers = list[str](), list[Element]()
    for value in ticks(figure.x):
        x, _ = place((value, figure.y.low))
        grid.append(f"M{_short(x)} {_TOP}V{bottom}")
        numbers.append(_number(value, x, bottom + 14, "middle"))
    for value in ticks(figure.y):
        _, y = place((figure.x.low, value))
        grid.append(f"M{_LEFT} {_short(y)}H{right}")
        numbers.append(_number(value, _LEFT - 5, y + 4, "end"))
    across, up = (_LEFT + right) / 2, (_TOP + bottom) / 2
    names = (
        tag("text", figure.x.label, x=across, y=_PLOT - 9, text_anchor="middle"),
        tag(
            "text",
            figure.y.label,
            transform=f"translate(11 {up}) rotate(-90)",
            text_anchor="middle",
        ),
    )
    frame = f"M{_LEFT} {_TOP}V{bottom}H{right}"
    return [
        tag("path", d="".join(grid), class_="grid"),
        tag("path", d=frame, class_="frame"),
        *numbers,
        *names,
    ]


def _number(value: float, x: float, y: float, anchor: str) -> Element:
    return tag("text", _text(value), x=_short(x), y=_short(y), text_anchor=anchor, class_="n")


def _text(value: float) -> str:
    """Write a tick's number, short: 0.001, 10⁻⁶, 20 000."""
    exponent = math.log10(abs(value)) if value else 0.0
    if abs(value) >= 1e5 or 0 < abs(value) < 1e-3:
        power = math.floor(exponent + 1e-9)
        factor = round(value / 10.0**power)
        shown = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{'' if factor == 1 else f'{factor}·'}10{shown}"
    return f"{value:,.6g}".replace(",", "\N{THIN SPACE}").replace("-", "\N{MINUS SIGN}")


def _layer(layer: Layer, place: _Place) -> list[Element]:
    """Draw areas first, then the line, then intervals and marks in one path each."""
    parts: list[Element] = []
    areas = "".join(_area(mark, corners, place) for mark, corners in layer.areas)
    if areas:
        parts.append(tag("path", d=areas, class_=f"area {layer.look}"))
    if layer.line:
        parts.append(
            tag("path", d=_path([place(p) for p in layer.line]), class_=f"line {layer.look}")
        )
    bars = "".join(
        _path([place((x, low)), place((x, high))])
        for (x, _), (low, high) in zip(layer.marks, layer.bars, strict=False)
    )
    if bars:
        parts.append(tag("path", d=bars, class_=f"bar {layer.look}"))
    if layer.marks:
        marks = "".join(_mark(layer, *place(point)) for point in layer.marks)
        parts.append(tag("path", d=marks, class_=f"mark {layer.look}"))
    return parts


def _area(mark: Point, corners: Sequence[Point], place: _Place) -> str:
    """Draw from the mark upward, down the stairs of the corners, and back at the mark's height.

    Steps that nobody could see are left out, by a wider one in their place.
    """
    (x, base), path = place(mark), list[str]()
    right, height = x, min(place(corners[0])[1], base)
    path.append(f"M{_short(x)} {_short(base)}V{_short(height)}")
    for corner, (_, below) in zip(corners, [*corners[1:], (0.0, mark[1])], strict=True):
        across, down = place(corner)[0], min(place((0.0, below))[1], base)
        right = max(right, across)
        if down - height > _VISIBLE or down == base:
            path.append(f"H{_short(right)}V{_short(down)}")
            height = down
        if down == base:
            break
    return f"{''.join(path)}Z"


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in points)


def _short(pixels: float) -> str:
    return f"{pixels:.1f}".removesuffix(".0")


def _mark(layer: Layer, x: float, y: float) -> str:
    """Draw a cross for what refutes; for anything else a point, which a round line cap makes a
    disk.
    """
    if layer.look == "refuted":
        s, size = _SIZE, 2 * _SIZE
        left, top, bottom = _short(x - s), _short(y - s), _short(y + s)
        return f"M{left} {top}l{size} {size}M{left} {bottom}l{size} {-size}"
    return f"M{_short(x)} {_short(y)}h0"


def _legend(layer: Layer, y: float) -> Element:
    """Draw a sample of the layer, and its label."""
    middle = _LEFT + 12
    sample = Layer(
        "",
        layer.look,
        line=((_LEFT, y), (_LEFT + 24, y)) if layer.line else (),
        marks=((middle, y),) if layer.marks else (),
        bars=((y - 6, y + 6),) if layer.bars else (),
    )
    text = tag("text", layer.label, x=_LEFT + 31, y=y + 4)
    return tag("g", *_layer(sample, lambda point: point), text)
