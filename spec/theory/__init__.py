"""Theory shared by several specs: laws, queries, rules, lower bounds, obligations."""
