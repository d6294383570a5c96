#!/bin/sh
# Runs a compiler, through ccache where the base has it. Every compiler call of the build comes through here.
if command -v ccache > /dev/null 2>&1; then
    exec ccache "$@"
fi
exec "$@"
