"""Where documents live: one package a kind of source, the only importers of its drivers."""
