"""Bytes: the canonical form of an image, its identity, the store that keeps it and the archive that carries it."""
