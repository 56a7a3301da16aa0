"""Names of stages that several mechanisms have."""

from __future__ import annotations

from dpverify.plans import Handle

COUNT = Handle("count")
"""The number of records."""
SUM = Handle("sum")
"""A sum of records."""
SUM_AND_COUNT = Handle("sum and count")
"""A sum of records and their number under one noise."""
