"""Whole jobs on the practice fleet; tests share what they build."""
