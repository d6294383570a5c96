"""`python -m sistership` is `sistership`."""

from sistership.tasks.program import main

main()
