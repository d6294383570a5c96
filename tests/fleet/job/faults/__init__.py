"""Faults on every kind of engine, one set of promises: see test_survived.py."""
