"""Several models under equal conditions: same text, same budget, same labels, one table."""
