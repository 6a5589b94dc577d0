"""Where documents, chunks and vectors are kept and searched."""
