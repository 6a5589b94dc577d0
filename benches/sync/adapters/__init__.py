"""One file per tool: its settings, each with its reason, and how the bench's verbs are said in it."""
