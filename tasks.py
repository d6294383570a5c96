"""The Invoke namespace of this project: every verb of sistership, and what its developers run (`dev.…`)."""

from __future__ import annotations

from invoke import Collection, Context, task

from sistership.tasks.namespace import namespace


@task(auto_shortflags=False)
def test(c: Context) -> None:
    """All tests, as CI runs them."""
    c.run("scripts/test", pty=True)


@task(auto_shortflags=False)
def lint(c: Context) -> None:
    """ruff, mypy and the import rules."""
    c.run("ruff check . && mypy && lint-imports --no-logo")


ns = namespace()
ns.add_collection(Collection("dev", test, lint))
