"""What several specs share: laws, queries, rules, lower bounds, obligations."""
