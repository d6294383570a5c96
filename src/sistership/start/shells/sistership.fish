# Completion of sistership for fish.
#   sistership completion fish | source
# or for good:
#   sistership completion fish > ~/.config/fish/completions/sistership.fish

function __sistership_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l lines ($words[1] --complete fish $words[2..-1] "$word" 2>/dev/null)
    # fish wants whole words back, also behind a =
    set -l head (string match -r '^.*=' -- "$word")
    set -l rest (string replace -r '^.*=' '' -- "$word")
    switch "$lines[1]"
        case '*files*'
            string replace -r '^' -- "$head" (__fish_complete_path "$rest")
        case '*folders*'
            string replace -r '^' -- "$head" (__fish_complete_directories "$rest")
    end
    test (count $lines) -gt 1; and string join \n -- $lines[2..-1]
end

complete -c sistership -f -a '(__sistership_complete)'
