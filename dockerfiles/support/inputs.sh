#!/bin/sh
# Writes down what the build stage is made of, so that a result that moved can be traced to the input that moved.
#   inputs.sh OUT
#     OUT      gets toolchain.tsv and packages.tsv, lines of NAME<TAB>VERSION, sorted; a line with # is a note
# The image does not depend on it: the same stage always gives the same two files, whoever asks for them.
set -eu
umask 022
export LC_ALL=C
# where NVIDIA's images keep nvcc, should a base not name it
PATH=$PATH:/usr/local/cuda/bin

out=$1
tab=$(printf '\t')
mkdir -p "$out"

# The first line with a version in it: nvcc begins with its name and its copyright.
version() {
    "$1" --version 2>&1 < /dev/null | awk '
        /[0-9]\.[0-9]/ && !found { gsub(/[ \t\r]+/, " "); sub(/^ /, ""); sub(/ $/, ""); print; found = 1 }
        END { if (!found) print "no version told" }'
}

# CMake asks for cc and c++ first. They are told only where they are another program than gcc and g++.
differs() {
    [ "$(readlink -f "$(command -v "$1")")" != "$(readlink -f "$(command -v "$2" || echo /)")" ]
}

for tool in as c++ cc ccache cmake g++ gcc ld ninja nvcc; do
    command -v "$tool" > /dev/null || continue
    case $tool in
    cc) differs cc gcc || continue ;;
    c++) differs c++ g++ || continue ;;
    esac
    printf '%s\t%s\n' "$tool" "$(version "$tool")"
done > "$out/toolchain.tsv"

if command -v dpkg-query > /dev/null; then
    native=$(dpkg --print-architecture)
    # Of db:Status-Abbrev the second letter is the state: only an installed package has all its files.
    # shellcheck disable=SC2016 # for dpkg-query, not for the shell
    dpkg-query -W -f '${db:Status-Abbrev}\t${Package}\t${Architecture}\t${Version}\n' |
        awk -F "$tab" -v OFS="$tab" -v native="$native" '
            substr($1, 2, 1) == "i" { print $2 ($3 == native || $3 == "all" ? "" : ":" $3), $4 }' |
        sort > "$out/packages.tsv"
else
    echo "# this base has no dpkg-query: its packages are not known" > "$out/packages.tsv"
fi
