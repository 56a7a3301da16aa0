"""False claims, kept to be refuted. None of them is importable from dpverify."""
