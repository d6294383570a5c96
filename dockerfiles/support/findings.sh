# shellcheck shell=sh
# Sourced by the checks: how they say what they found.
#   The report of an image has one line per check: CHECK RESULT SUBJECT EXPECTED FOUND CURE, separated by tabs.
#   A failed check also says so in the log of the build, where sistership reads it; the build fails when all have spoken.

failures=0

_tab=$(printf '\t')
_breaks=$(printf '\t\n\r')

_line() { # WORD…: one line of words with tabs between them; what stands in a word cannot break the line
    _text=
    for _word in "$@"; do
        case $_word in *["$_breaks"]*) _word=$(printf '%s' "$_word" | tr '\t\n\r' '   ') ;; esac
        _text=$_text$_tab$_word
    done
    printf '%s\n' "${_text#?}"
}

passed() { # CHECK SUBJECT EXPECTED FOUND
    _line "$1" ok "$2" "$3" "$4" "" >> "${REPORT:-/dev/null}"
}

unjudged() { # CHECK SUBJECT EXPECTED WHY
    _line "$1" "not judged" "$2" "$3" "$4" "" >> "${REPORT:-/dev/null}"
}

failed() { # CHECK SUBJECT EXPECTED FOUND CURE
    failures=$((failures + 1))
    _line "sistership-check:" "$@" >&2
    _line "$1" failed "$2" "$3" "$4" "$5" >> "${REPORT:-/dev/null}"
}

elf() { # FILE: is it a program or library?
    [ "$(head -c 4 "$1" | od -An -tx1 | tr -d ' \n')" = 7f454c46 ]
}
