#!/bin/sh
# Checks the finished image from the inside and writes its report; fails when a check failed.
#   check.sh --image DIR --report DIR --environment FILE --backend cuda|cpu --commit HASH --worker NAMES|- \
#            --programs NAMES [--archs ARCH:CODE|CODE…] [--sets NAMES] [--unjudged WHY] [--unused FILE]
#     --image        root of the image, in a mount that may be written to and is thrown away
#     --report       gets app/share/sistership/{checks.tsv,version.txt,help/}, a layer of the image
#     --environment  what `env` printed in the image
#     --worker       the worker's possible names, "a|b"; "-" for none
#     --archs        what the matrix asks for, and by which names the code of each is known
#     --sets         instruction sets of ggml that are on; every other one must not be there
#     --unjudged     why instruction sets are not judged at all
#     --unused       guards that this source does not know, one per line, as check-flags.sh wrote them
# Nothing in the report depends on the machine: the programs see no /proc and no /sys, one processor, and an empty HOME.
set -eu
umask 022
export LC_ALL=C

here=$(dirname "$0")
archs='' sets='' unjudged='' unused=''
while [ $# -gt 0 ]; do
    case $1 in
    --image) image=$2 ;;
    --report) report=$2 ;;
    --environment) environment=$2 ;;
    --backend) backend=$2 ;;
    --commit) commit=$2 ;;
    --worker) worker=$2 ;;
    --programs) programs=$2 ;;
    --archs) archs=$2 ;;
    --sets) sets=$2 ;;
    --unjudged) unjudged=$2 ;;
    --unused) unused=$2 ;;
    *) echo "check.sh: $1 is no option" >&2; exit 2 ;;
    esac
    shift 2
done
: "${backend:?}" "${commit:?}" "${environment:?}" "${programs:?}" "${worker:?}" "${image:?}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
share=$report/app/share/sistership
mkdir -p "$share/help"
REPORT=$share/checks.tsv
printf '# sistership checks 1\n' > "$REPORT"
# shellcheck source=dockerfiles/support/findings.sh
. "$here/findings.sh"
# shellcheck source=dockerfiles/support/check-run.sh
. "$here/check-run.sh"
# shellcheck source=dockerfiles/support/check-code.sh
. "$here/check-code.sh"

# Every program and library that the build put into the image, as the image names it.
shipped=$(cd "$image" && find app -type f | sort | while IFS= read -r file; do
    if elf "$file"; then echo "/$file"; fi
done)

check_used
check_programs
check_libraries
check_stubs
if [ "$backend" = cuda ]; then check_archs; fi
check_instructions
check_paths
check_version
keep_help

(cd "$report" && find app -type f | sort | while read -r file; do sha256sum "$file"; done) |
    sed 's|  |  /|' > "$report/sums"
chmod 644 "$report/sums"
mv "$report/sums" "$share/40-report.sha256"
if [ "$failures" != 0 ]; then
    echo "sistership: $failures check(s) of the image failed" >&2
    exit 1
fi
