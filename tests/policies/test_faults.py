from __future__ import annotations

import pickle

from plugins.framework.errors import Fault
from plugins.framework.field import Path
from policies.faults import ExpressionFault


def test_a_fault_names_the_place_and_comes_whole_out_of_a_worker() -> None:
    fault = ExpressionFault(
        Path("spec", "variables").index(0).child("expression"), "no such key: a"
    )
    assert isinstance(fault, Fault)
    again = pickle.loads(pickle.dumps(fault))
    assert str(again) == "spec.variables[0].expression: no such key: a"
    assert (again.path, again.message) == (fault.path, fault.message)
