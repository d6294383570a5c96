#!/bin/sh
# Fails if the source did not use a flag it was given, unless that flag is a guard.
#   check-flags.sh FILE [GUARD…]      FILE: what `cmake` wrote to its standard error
# CMake only warns about a flag it does not know and exits 0; the build would then lack what the matrix says.
set -eu

file=$1
shift
cat "$file" >&2

unused=$(awk '
    /Manually-specified variables were not used by the project/ { inside = 1; next }
    inside && /^    [A-Za-z_]/ { print $1; next }
    inside && NF { inside = 0 }
' "$file")

wrong=
for name in $unused; do
    case " $* " in
    *" $name "*) echo "sistership: this source has no $name; the flag only guards, that is fine" ;;
    *) wrong="$wrong $name" ;;
    esac
done
if [ -n "$wrong" ]; then
    echo "sistership: this source does not know the flag(s):$wrong" >&2
    echo "sistership: the image would not be what the matrix says; correct the variant, or pin a commit that knows them" >&2
    exit 1
fi
