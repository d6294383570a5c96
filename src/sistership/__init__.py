"""sistership: one build, the same bytes on every host, proven before anything runs."""

__version__ = "0.1.0"
