"""What several mechanisms are made of: results, clipping, searches, votes, and shares of a budget."""
