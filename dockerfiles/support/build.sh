#!/bin/sh
# Compiles the named targets.
#   build.sh BUILD MIB TARGET…        MIB: memory per compiler; "a|b" means whichever of the two the source has
set -eu

# With it in the environment ggml switches instruction sets off.
unset SOURCE_DATE_EPOCH

build=$1
memory=$2
shift 2
here=$(dirname "$0")
known=$(cmake --build "$build" --target help | sed -n 's/^\([A-Za-z0-9_.-]*\):.*/\1/p; s/^\.\.\. \([A-Za-z0-9_.-]*\).*/\1/p')

count=$#
while [ "$count" -gt 0 ]; do
    names=$(echo "$1" | tr '|' ' ')
    shift
    count=$((count - 1))
    found=
    for name in $names; do
        if echo "$known" | grep -qxF -e "$name"; then found=$name; break; fi
    done
    if [ -z "$found" ]; then
        echo "sistership: this source builds none of: $names" >&2
        exit 1
    fi
    set -- "$@" "$found"
done

jobs=$(sh "$here/jobs.sh" "$memory")
echo "sistership: building $* with $jobs job(s)"
exec cmake --build "$build" --parallel "$jobs" --target "$@"
