"""Engines: other ways to run an encoder than module by module, behind one function."""
