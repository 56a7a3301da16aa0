"""Names of stages that several mechanisms have."""

from __future__ import annotations

from dpverify.plans import Handle

COUNT = Handle("count")
"""Stage that releases the number of records."""
SUM = Handle("sum")
"""Stage that releases a sum of records."""
SUM_AND_COUNT = Handle("sum and count")
"""Stage that releases a sum of records and their number under one noise."""
