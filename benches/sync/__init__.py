"""The sync bench: what it takes each tool to keep vectors in step with documents."""
