"""Tests of the image room."""
