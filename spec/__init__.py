"""The executable specifications: what each mechanism's law is, said independently of the code."""
