#compdef sistership
# Completion of sistership for zsh.
#   source <(sistership completion zsh)        (after compinit)
# or for good, in a folder of $fpath:
#   sistership completion zsh > ~/.zfunc/_sistership

_sistership() {
    local head line
    local -a lines found plain suffix
    lines=("${(@f)$("$words[1]" --complete zsh "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
    head=$lines[1]
    for line in "${(@)lines[2,-1]}"; do
        [[ -n $line ]] || continue
        plain+=("${line%%$'\t'*}")
        found+=("${line%%$'\t'*}  -- ${line#*$'\t'}")
    done
    [[ $head == *open* ]] && suffix=(-S '')
    (( $#plain )) && compadd -Q $suffix -l -d found -a plain
    case $head in
        *files*) compset -P '*='; _files ;;
        *folders*) compset -P '*='; _files -/ ;;
    esac
}

if [[ $funcstack[1] == _sistership ]]; then
    _sistership "$@"
else
    compdef _sistership sistership
fi
