"""Data sets, and functions that turn them into batches."""
