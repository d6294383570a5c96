"""Tests of the compare room."""
