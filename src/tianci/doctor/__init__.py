"""Is this machine fit for tianci? Facts, a self-test, and what is wrong in plain sentences."""
