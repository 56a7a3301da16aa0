"""Parts that several mechanisms share: results, clipping, searches, votes and shares of a
budget.
"""
