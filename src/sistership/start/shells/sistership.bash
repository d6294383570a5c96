# Completion of sistership for bash (3.2 and later).
#   . <(sistership completion bash)
# or for good:
#   sistership completion bash > ~/.local/share/bash-completion/completions/sistership

_sistership() {
    local head line own=$2 IFS=$'\n'
    COMPREPLY=()
    while read -r line; do
        if [ -z "${head+set}" ]; then head=$line; else COMPREPLY+=("${line%%$'\t'*}"); fi
    done < <("$1" --complete bash "$own" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    # bash replaces what follows = only, although it gives the = alone as the word
    [ "$own" = "=" ] && own=
    case $head in
        *files*) COMPREPLY+=($(compgen -f -- "${own##*=}")) ;;
        *folders*) COMPREPLY+=($(compgen -d -- "${own##*=}")) ;;
    esac
    if type compopt >/dev/null 2>&1; then
        case $head in
            *files* | *folders*) compopt -o filenames ;;
            *open*) compopt -o nospace ;;
        esac
    fi
}
complete -F _sistership sistership
