"""Checks of what the files of a suite must contain; everything that a file lacks is named at
once.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from dpverify.audit import BlackBox, Configuration, Fault, NeighboringPair, SmallInstance
from dpverify.audit.subjects import name_of
from dpverify.plans import Mechanism
from dpverify.plans.walking import is_filtered
from dpverify.privacy import Guarantee
from dpverify.rates import Experiment, RateClaim

_LAW = "def law(parameters: Mapping[str, Any], records: Sequence[Fraction]) -> TranscriptLaw"
_SENSITIVITIES = (
    "def sensitivities(parameters: Mapping[str, Any]) -> dict[str, int | Fraction]  # by stage"
)
_OBLIGATION = "def obligation_NAME() -> int  # one or more; each returns how many cases it checked"
_SHAPES = {
    "CONFIGURATIONS": 'CONFIGURATIONS = (Configuration(name="...", mechanism=..., pairs=(...,)),)',
    "SMALL": 'SMALL = (SmallInstance(name="...", mechanism=..., data=(...)),)',
    "RATES": "RATES = (RateClaim(...),)",
    "EXPERIMENTS": "EXPERIMENTS = (Experiment(...),)",
    "BLACK_BOXES": (
        'BLACK_BOXES = (BlackBox(name="...", function=f, claim=PureDP(1), pairs=(...,), '
        "faults=(broken_f,)),)"
    ),
    "EXHIBIT": (
        'EXHIBIT = Exhibit(name="...", function=f, claim=conjecture(...), pairs=(...,), why="...")'
    ),
}
_REQUIRED = ("CONFIGURATIONS", "SMALL")
_METHODS = {
    "plan": "def plan(self) -> Plan",
    "estimate": "def estimate(self, transcript: Transcripts) -> Estimate | Abstained",
}


def class_name_of(name: str) -> str:
    """Return the name of the mechanism's class in a file of this name."""
    return "".join(part.capitalize() for part in name.split("_"))


def shapes_of(tree: str, name: str) -> tuple[str, ...]:
    """List the contents that a file in mechanisms/, spec/ or audits/ must have, as signatures."""
    return {
        "mechanisms": (_class_shape(name), *(f"    {shape}" for shape in _METHODS.values())),
        "spec": (_LAW, _SENSITIVITIES, _OBLIGATION),
        "audits": tuple(_SHAPES[required] for required in _REQUIRED),
    }[tree]


def _class_shape(name: str) -> str:
    return f"class {class_name_of(name)}(Mechanism[Estimate])  # a frozen dataclass"


def lacks_of_mechanism(name: str, module: ModuleType) -> Iterator[str]:
    """Yield what is missing or wrong in mechanisms/NAME.py."""
    candidate = getattr(module, class_name_of(name), None)
    if not (isinstance(candidate, type) and issubclass(candidate, Mechanism)):
        missing = f"there is no mechanism class named {class_name_of(name)}"
        yield f"{missing}; write\n{_class_shape(name)}"
        return
    for method in sorted(getattr(candidate, "__abstractmethods__", ())):
        yield f"{candidate.__name__} has no {method}; write\n{_METHODS[method]}"


def lacks_of_spec(module: ModuleType) -> Iterator[str]:
    """Yield what is missing or wrong in spec/NAME.py."""
    yield from _lacks_of_function(module, "law", 2, _LAW)
    yield from _lacks_of_function(module, "sensitivities", 1, _SENSITIVITIES)
    obligations = obligations_of(module)
    if not obligations:
        yield f"there is no function obligation_*; write\n{_OBLIGATION}"
    for name, obligation in obligations.items():
        if not _takes(obligation, 0):
            yield f"{name} cannot be called without arguments; write\n{_OBLIGATION}"


def _lacks_of_function(module: ModuleType, name: str, arguments: int, shape: str) -> Iterator[str]:
    function = getattr(module, name, None)
    if function is None:
        yield f"there is no function {name}; write\n{shape}"
    elif not callable(function) or not _takes(function, arguments):
        yield f"{name} is {_shown(function)}; write\n{shape}"


def lacks_of_audits(name: str, module: ModuleType, mechanism: type | None) -> Iterator[str]:
    """Yield what is missing or wrong in a mechanism's audits/NAME.py.

    mechanism: its class; None where that is missing itself.
    """
    for exported, kind in (
        ("CONFIGURATIONS", Configuration),
        ("SMALL", SmallInstance),
        ("RATES", RateClaim),
        ("EXPERIMENTS", Experiment),
    ):
        if exported in _REQUIRED or hasattr(module, exported):
            yield from lacks_of_export(module, exported, kind)
    if hasattr(module, "BLACK_BOXES"):
        yield (
            f"black boxes have a file of their own, without mechanisms/{name}.py and spec/{name}.py"
        )
    configurations = list(all_of(module, "CONFIGURATIONS", Configuration) or ())
    for made in (*configurations, *(all_of(module, "SMALL", SmallInstance) or ())):
        if mechanism is not None and type(made.mechanism) is not mechanism:
            given = _shown(made.mechanism)
            yield f"{made.name!r} is not of a {mechanism.__name__}: mechanism={given}"
    for one in configurations:
        yield from _lacks_of_pairs(one.name, one.pairs)
        for fault in one.faults:
            if not isinstance(fault, Fault):
                yield f"{one.name!r}: the fault {_shown(fault)} is none; write Fault(name, law)"
        if (
            isinstance(one.mechanism, Mechanism)
            and is_filtered(one.mechanism.fixed_plan)
            and not one.friendly
        ):
            yield (
                f"{one.name!r} has a filter and no friendly pairs; what runs behind a filter is "
                "attacked on those: write friendly=(...,)"
            )
    yield from _same_names(configurations, module)


def _same_names(configurations: Sequence[Configuration], module: ModuleType) -> Iterator[str]:
    keys = [
        (str(one.mechanism.adjacency), one.name)
        for one in configurations
        if isinstance(one.mechanism, Mechanism)
    ]
    if len({*keys}) != len(keys):
        yield "two configurations of one mechanism and adjacency have the same name"
    rated = [*(all_of(module, "RATES", RateClaim) or ())]
    named = [one.name for one in (*rated, *(all_of(module, "EXPERIMENTS", Experiment) or ()))]
    if len({*named}) != len(named):
        yield "two rates of one mechanism have the same name"


def lacks_of_boxes(name: str, module: ModuleType) -> Iterator[str]:
    """Yield what is missing or wrong in audits/NAME.py of black boxes."""
    if not hasattr(module, "BLACK_BOXES"):
        configured = hasattr(module, "CONFIGURATIONS") or hasattr(module, "SMALL")
        also = (
            f"it is a mechanism's, and there are no mechanisms/{name}.py and spec/{name}.py"
            if configured
            else f"it exports neither black boxes nor, with mechanisms/{name}.py and "
            f"spec/{name}.py beside it, CONFIGURATIONS and SMALL of a mechanism"
        )
        yield f"{also}; write those, or\n{_SHAPES['BLACK_BOXES']}"
        return
    yield from lacks_of_export(module, "BLACK_BOXES", BlackBox)
    boxes: Sequence[BlackBox] = all_of(module, "BLACK_BOXES", BlackBox) or ()
    for box in boxes:
        for lack in _lacks_of_box(box):
            yield f"the black box {box.name!r}: {lack}"
    keyed = [(str(box.pairs[0].adjacency), box.name) for box in boxes if not [*_lacks_of_box(box)]]
    if len({*keyed}) != len(keyed):
        yield "two black boxes under one adjacency have the same name"


def _lacks_of_box(box: BlackBox) -> Iterator[str]:
    arguments = 1 + box.vectorized + box.seeded
    call = f"f({', '.join(('dataset', *('size',) * box.vectorized, *('rng',) * box.seeded))})"
    if not (isinstance(box.name, str) and box.name and ":" not in box.name):
        yield f"name={box.name!r} is no name; write a text without a colon"
    if not callable(box.function) or not _takes(box.function, arguments):
        given = _shown(box.function)
        yield f"function={given} is not called as {call}; see vectorized= and seeded="
    if not isinstance(box.claim, Guarantee):
        yield f"claim={_shown(box.claim)} is no guarantee; write claim=PureDP(1), say"
    yield from _lacks_of_pairs("", box.pairs)
    if len({str(pair.adjacency) for pair in _pairs_in(box.pairs)}) > 1:
        yield "its pairs are under several adjacencies; write a black box for each"
    faults = box.faults if isinstance(box.faults, (tuple, list)) else ()
    if not faults:
        yield (
            f"faults={_shown(box.faults)}; an audit's silence means something only if it catches "
            "functions that are known to be broken: write faults=(broken_f,), or "
            "faults=scaled_faults(f)"
        )
    for fault in faults:
        if not callable(fault) or not _takes(fault, arguments):
            yield f"the fault {_shown(fault)} is not called as {call}"
    names = Counter(map(name_of, faults))
    for name, times in names.items():
        if times > 1:
            yield f"{times} faults are named {name!r}; give each a name: define it with def"


def _pairs_in(pairs: Any) -> list[NeighboringPair]:
    listed = pairs if isinstance(pairs, (tuple, list)) else ()
    return [pair for pair in listed if isinstance(pair, NeighboringPair)]


def _lacks_of_pairs(name: str, pairs: Any) -> Iterator[str]:
    valid = _pairs_in(pairs)
    if not valid or len(valid) != len(pairs):
        where = f"{name!r}: " if name else ""
        yield (
            f"{where}pairs={_shown(pairs)}; write one or more neighboring pairs, "
            'pairs=(added("one more", [], 1.0),), say'
        )


def lacks_of_export(module: ModuleType, name: str, kind: type) -> Iterator[str]:
    """Yield what is missing or wrong among the things that a file exports under this name."""
    if not hasattr(module, name):
        yield f"there is no {name}; write\n{_SHAPES[name]}"
    elif all_of(module, name, kind) is None:
        given = _shown(getattr(module, name))
        yield f"{name} is {given}, and must be one or more {kind.__name__}; write\n{_SHAPES[name]}"


def all_of(module: ModuleType, name: str, kind: type) -> tuple[Any, ...] | None:
    """Return what a file exports under this name, one thing or several of a kind; None for
    anything else.
    """
    export = getattr(module, name, None)
    if isinstance(export, kind):
        return (export,)
    if isinstance(export, (tuple, list)) and export and all(isinstance(x, kind) for x in export):
        return tuple(export)
    return None


def _takes(function: Callable[..., Any], arguments: int) -> bool:
    """Return whether a function takes so many arguments; a function without a signature is
    assumed to.
    """
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _shown(given: object) -> str:
    if callable(given) and hasattr(given, "__name__"):
        try:
            return f"{given.__name__}{inspect.signature(given)}"
        except (TypeError, ValueError):
            return str(given.__name__)
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}..."


def told(lacks: Iterable[tuple[str, str]]) -> str:
    """Format all that is missing or wrong, by file; each signature stands on its own line."""
    lines = [f"  {file}: " + lack.replace("\n", "\n      ") for file, lack in lacks]
    return "\n".join(lines)


def obligations_of(module: ModuleType) -> dict[str, Callable[[], int]]:
    """Collect the obligations defined in a module of spec/, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if name.startswith("obligation_")
        and callable(value)
        and getattr(value, "__module__", None) == module.__name__
    }
