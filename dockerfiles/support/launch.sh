#!/bin/sh
# Runs a compiler, through ccache where the base has it. Every compiler call of the build comes through here.
#   launch.sh COMPILER ARGUMENT…
# What a compiler would draw by chance is given to it, so that the same source gives the same bytes:
#   nvcc writes process numbers into symbol names (-objtemp) and module ids (-frandom-seed, CUDA 12.9 and later),
#   gcc names a file without global symbols after a random number (-frandom-seed).
set -eu

# A compiler set as "ccache g++": the cache is called below, and not by itself.
if [ "${1##*/}" = ccache ]; then shift; fi

source=
take=
for word in "$@"; do
    if [ -n "$take" ]; then
        source=$word
        break
    fi
    case $word in -c | -dc) take=1 ;; esac
done
# One seed for all files would be worse than none.
case $source in -*) source= ;; esac

private=
if [ -n "$source" ]; then
    seed=${source#/src/}
    seed=${seed#/build/}
    case ${1##*/} in
    nvcc*)
        help=$("$1" --help)
        case $help in *--objdir-as-tempdir*) set -- "$@" -objtemp ;; esac
        case $help in *--frandom-seed*) set -- "$@" "-frandom-seed=$seed" ;; esac
        # Names made of small process numbers meet in one folder when compilers run in containers.
        private=$(mktemp -d)
        trap 'rm -rf "$private"' EXIT
        trap 'exit 130' INT
        trap 'exit 143' HUP TERM
        export TMPDIR="$private"
        ;;
    *clang*) ;;
    cc | c++ | *-cc | *-c++ | *gcc* | *g++*) set -- "$@" "-frandom-seed=$seed" ;;
    esac
fi

# By content: bases give every file one time, so a newer compiler of the same size would be taken for the older one.
export CCACHE_COMPILERCHECK=content
if command -v ccache > /dev/null 2>&1; then set -- ccache "$@"; fi
if [ -z "$private" ]; then exec "$@"; fi
"$@"
