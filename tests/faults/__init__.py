"""Kills, signals and rival writers; the long versions are in benchmarks/soak_faults.py."""
