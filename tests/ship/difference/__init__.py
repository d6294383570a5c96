"""Tests of differences in place of whole layers."""
