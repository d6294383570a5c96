#!/bin/sh
# Fails if the source did not use a flag it was given, unless that flag is a guard.
#   check-flags.sh FILE UNUSED BACKEND [GUARD…]
#     FILE     what `cmake` wrote to its standard error
#     UNUSED   gets the guards that this source does not know, one per line
#     BACKEND  cuda or cpu
# CMake only warns about a flag it does not know and exits 0; the build would then lack what the matrix says.
set -eu
# shellcheck source=dockerfiles/support/findings.sh
. "$(dirname "$0")/findings.sh"

file=$1 known=$2 backend=$3
shift 3
cat "$file" >&2
: > "$known"

unused=$(awk '
    /Manually-specified variables were not used by the project/ { inside = 1; next }
    inside && /^    [A-Za-z_]/ { print $1; next }
    inside && NF { inside = 0 }
' "$file")

for name in $unused; do
    case " $* " in
    *" $name "*)
        echo "sistership: this source has no $name; the flag only guards, that is fine"
        echo "$name" >> "$known"
        ;;
    *)
        failed flags "$name" "used by the source" "not used by the project" \
            "correct its name in cmake: or options:, or pin a commit that knows it"
        ;;
    esac
done

# Before an hour of compiling rather than after it.
if [ "$backend" = cuda ] && ! command -v cuobjdump > /dev/null 2>&1; then
    failed tools cuobjdump "in the build base, to read the archs of the built library" "not there" \
        "add the package of your toolkit to packages:, such as cuda-cuobjdump-12-8"
fi
[ "$failures" = 0 ]
