"""Contents of objects: whatever an output holds tells outputs apart, and addresses never do."""

from __future__ import annotations

import functools
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

from dpverify.audit import AuditResult, Verdict, added, audit
from dpverify.audit.outputs.encoding import encode
from dpverify.audit.outputs.unseen import noted, remarks_on
from dpverify.privacy import PureDP
from tests.audit.test_outputs import seen


class Model:
    scale = 1.0

    def __init__(self, data: Any) -> None:
        self.data = data

    def predict(self) -> Any:
        return self.data


class Empty:
    pass


class Slots:
    __slots__ = ("__dict__", "data")


class Rows(list[float]):
    pass


class Named(dict[str, float]):
    pass


class Number(float):
    pass


def _carrier(kind: Any, d: Any) -> Any:
    made = kind()
    made.note = d
    return made


def _add(one: Any, two: Any) -> Any:
    return one + two


def _closure(d: Any) -> Any:
    def model() -> Any:
        return d

    return model


def _default(d: Any) -> Any:
    return lambda x=d: x


def _keyword_default(d: Any) -> Any:
    def model(*, x: Any = d) -> Any:
        return x

    return model


def _attribute(d: Any) -> Any:
    def model() -> None:
        pass

    model.data = d  # type: ignore[attr-defined]
    return model


def _documented(d: Any) -> Any:
    def model() -> None:
        pass

    model.__doc__ = f"of {d}"
    return model


def _wrapped(d: Any) -> Any:
    @functools.wraps(_closure(d))
    def model() -> None:
        pass

    return model


def _evaluated(d: Any) -> Any:
    return eval(f"lambda: [lambda: {d}]")


def _of_two(d: Any) -> Any:
    return (lambda x: x + 1) if d == 1 else (lambda x: x - 1)


def _own_globals(d: Any) -> Any:
    space: dict[str, Any] = {"secret": d}
    exec("def model(): return secret", space)
    return space["model"]


def _class(d: Any) -> Any:
    class Local:
        weight = d

    return Local


def _class_with_method(d: Any) -> Any:
    class Local:
        def predict(self) -> Any:
            return d

    return Local


def _heir(d: Any) -> Any:
    class Heir(_class(d)):  # type: ignore[misc]
        pass

    return Heir


def _local_dataclass(d: Any) -> Any:
    @dataclass
    class Local:
        weight: float = d

    return Local()


def _property(d: Any) -> Any:
    return property(lambda self: d)


def _cached(d: Any) -> Any:
    return functools.lru_cache(_closure(d))


def _drawn(source: Any, d: int) -> Any:
    for _ in range(d):
        source.random()
    return source


def _slots(d: Any) -> Any:
    made = Slots()
    made.data = d  # type: ignore[attr-defined]
    return made


def _tree(d: Any) -> Any:
    return DecisionTreeRegressor(random_state=0).fit([[0.0], [1.0]], [0.0, float(d)]).tree_


MAKERS: list[Callable[[Any], Any]] = [
    _closure, _default, _keyword_default, _attribute, _documented, _wrapped, _evaluated, _of_two,
    _own_globals, _class, _class_with_method, _heir, _local_dataclass, _property, _cached, _slots,
    _tree,
    lambda d: _class(d)(),
    lambda d: _heir(d)(),
    lambda d: Model(d).predict,
    lambda d: [d].__len__ if d == 1 else [d, d].__len__,
    lambda d: [d].append,
    lambda d: staticmethod(_closure(d)),
    lambda d: classmethod(_closure(d)),
    lambda d: np.vectorize(_closure(d)),
    lambda d: functools.partial(_add, Model(d)),
    lambda d: functools.partial(_add, two=Model(d)),
    lambda d: functools.partial(_closure(d)),
    lambda d: Model(lambda: d),
    lambda d: Model([{"a": (lambda: d,)}]),
    lambda d: {"a": _closure(d)},
    lambda d: {_closure(d)},
    lambda d: {Model(d), Model(3), Model(4)},
    lambda d: FunctionTransformer(lambda x: x + d),
    lambda d: np.random.default_rng(d),
    lambda d: _drawn(np.random.default_rng(0), d),
    lambda d: _drawn(np.random.RandomState(0), d),
    lambda d: _drawn(random.Random(0), d),
    lambda d: np.random.SeedSequence(d),
    lambda d: _drawn(np.random.Generator(np.random.Philox(0)), d),
    lambda d: np.random.default_rng(0) if d == 1 else np.random.default_rng(0).spawn(1)[0],
    lambda d: np.random.PCG64(d),
    lambda d: deque([Model(d)]),
    lambda d: np.array([(1, 2.5)], dtype=[("a", int), (f"b{d}", float)]),
    lambda d: np.array([(1, d)], dtype=[("a", int), ("b", float)]),
    lambda d: _carrier(Rows, d),
    lambda d: _carrier(Number, d),
    lambda d: [_carrier(Named, d)],
    lambda d: np.int32(1) if d == 1 else np.int64(1),
]  # fmt: skip


def alike(one: Any, two: Any) -> bool:
    """Return whether two outputs look alike, alone, in one batch, and within others."""
    batch = encode([one, two])
    alone = seen(encode([one]), 0) == seen(encode([two]), 0)
    inside = encode([[(one,)], [(two,)]])
    assert (seen(batch, 0) == seen(batch, 1)) is alone is (seen(inside, 0) == seen(inside, 1))
    return alone


@pytest.mark.parametrize("make", MAKERS)
def test_what_an_output_holds_tells_outputs_apart(make: Callable[[Any], Any]) -> None:
    assert not alike(make(1), make(2))
    assert alike(make(1), make(1))
    assert "0x" not in str(encode([make(1)]).labels[0])


def test_numbers_in_functions_are_numbers() -> None:
    """A threshold on them is an event."""
    for make in (_closure, _default, _attribute, _evaluated, _own_globals, _class):
        assert 2.5 in encode([make(2.5)]).numbers[0]


def test_states_of_generators_are_few_numbers() -> None:
    for source in (np.random.RandomState(0), random.Random(0), np.random.MT19937(0)):
        assert encode([source]).numbers.shape[1] < 50


def test_importable_functions_and_classes_are_told_by_name() -> None:
    labels = encode([_add, Model, len, np.sin, Model(1.0)]).labels.tolist()
    assert labels == [
        "function(name='tests.audit.test_contents._add')",
        "<class 'tests.audit.test_contents.Model'>",
        "<built-in function len>", "<ufunc 'sin'>", "Model(data=float)",
    ]  # fmt: skip


def _holds_itself(d: Any) -> Any:
    def model() -> Any:
        return model, d

    return model


def _class_holds_itself(d: Any) -> Any:
    class Local:
        def __init__(self) -> None:
            super().__init__()
            self.me = self
            self.methods = [self.predict] * 5
            self.data = d

        def predict(self) -> Any:
            return Local, self.data

    return Local()


def _all_hold_all(d: Any, number: int = 5) -> Any:
    made = [Model(i) for i in range(number)]
    for one in made:
        vars(one).update({f"other {i}": other for i, other in enumerate(made)})
    made[0].data = d
    return made[0]


@pytest.mark.parametrize("make", [_holds_itself, _class_holds_itself, _all_hold_all])
def test_cycles_end(make: Callable[[Any], Any]) -> None:
    assert not alike(make(1), make(2))
    assert alike(make(1), make(1))


def test_an_empty_cell_is_nothing() -> None:
    def outer(d: Any) -> Any:
        def model() -> Any:
            return later

        if d == 1:
            return model
        later = 1
        return model

    assert alike(outer(1), outer(1))
    assert not alike(outer(1), outer(2))


def unseen(*outputs: Any) -> tuple[str, ...]:
    with noted() as kinds:
        encode(outputs)
    return remarks_on(kinds)


def test_what_nobody_can_look_at_is_noted() -> None:
    for output, name in (
        (threading.Lock(), "lock"),
        (Model(threading.Lock()), "lock"),
        (np.frompyfunc(_closure(1), 0, 1), "ufunc"),
        (_closure(itertools.count()), "count"),
        (_all_hold_all(1, 8), "objects in one output"),
    ):
        (remark,) = unseen(1.0, output)
        assert name in remark
        assert "whose contents nobody looked at" in remark
    cached = _cached(1)
    assert not unseen(cached)
    cached()
    assert "lru_cache" in unseen(cached)[0]
    nested: Any = 1
    for _ in range(14):
        nested = [nested]
    assert "list within 12 other containers" in unseen(nested)[0]


def test_what_is_seen_in_full_is_not_noted() -> None:
    makers = [make(1) for make in MAKERS]
    assert not unseen(object(), Empty(), len, Ellipsis, slice(1), range(3), Model(1), *makers)
    with pytest.raises(ValueError, match="is a count"):
        encode([Model(itertools.count())])


PAIR = added("a row enters", [0.0] * 3, 0.0)


def audited(function: Callable[[Any], Any]) -> AuditResult:
    return audit(function, claim=PureDP(1), pairs=[PAIR], trials=500, seed=1)


def test_a_closure_over_the_data_is_a_violation() -> None:
    result = audited(lambda data: _closure(data))
    assert result.verdict is Verdict.VIOLATED
    assert "nobody looked at" not in str(result)


def test_a_private_closure_is_not_flagged_and_what_is_unseen_is_a_remark() -> None:
    rng = np.random.default_rng(0)

    def private(data: Any) -> Any:
        value, lock = round(len(data) + float(rng.laplace()), 3), threading.Lock()
        return lambda: (value, lock)

    result = audit(private, claim=PureDP(1), pairs=[PAIR], trials=2000, seed=1, faults=[_closure])
    assert result.verdict is Verdict.CONSISTENT
    (remark,) = result.remarks
    assert remark.startswith("outputs hold objects whose contents nobody looked at: lock.")
