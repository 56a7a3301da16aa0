"""Tables of named columns: data of any kind in, records for mechanisms out, each row read by
itself.
"""

from dpverify.tables.selection import Selection
from dpverify.tables.table import Table
from dpverify.tables.types import Boolean, Category, ColumnType, Integer, Number

__all__ = ["Boolean", "Category", "ColumnType", "Integer", "Number", "Selection", "Table"]
