"""Tests of the host room."""
