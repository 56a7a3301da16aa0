"""Every rule on whole finite mechanisms: all datasets of a small graph, all edges, exact laws."""
