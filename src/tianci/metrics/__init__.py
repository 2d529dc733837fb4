"""Scores of predictions, their thresholds, calibration and intervals: arrays in, numbers out."""
