"""How good is a model? On text, on suites of sentence pairs (and on tasks)."""
