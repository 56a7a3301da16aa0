"""One file a mechanism; spec/ and audits/ have a file of the same name for each."""
