"""Tests of the documentation share `pages`."""
