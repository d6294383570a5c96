"""The verbs."""

from sistership.tasks.lean import import_invoke

import_invoke()
