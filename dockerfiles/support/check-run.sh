# shellcheck shell=sh disable=SC2154  # the variables are check.sh's
# Sourced by check.sh: what can be said by running the image's own loader and programs in its own root.

setting() { # NAME: its value in the image's environment
    sed -n "s/^$1=//p" "$environment" | head -n 1
}

one_processor() { # prefix that leaves one processor, where there is such a program
    if command -v taskset > /dev/null 2>&1; then
        echo "taskset -c $(taskset -pc $$ | sed 's/.*: *//; s/[,-].*//')"
    fi
}

in_image() { # PROGRAM ARGUMENT…: run in the image's root with the image's loader path and nothing else
    # By the loader: without /proc a program does not know its own folder, which $ORIGIN stands for.
    # shellcheck disable=SC2046 # words on purpose
    timeout 120 $(one_processor) chroot "$image" /usr/bin/env -i PATH="/app/bin:/usr/bin:/bin" HOME=/nonexistent \
        LC_ALL=C LD_LIBRARY_PATH="$(setting LD_LIBRARY_PATH)${stubs:+:$stubs}" "$(loader "$1")" "$@" < /dev/null
}

loader() { # FILE: the loader that a program of the image asks for
    readelf -l "$image$1" | sed -n 's/.*Requesting program interpreter: \([^]]*\)\].*/\1/p'
}

check_programs() {
    _there=''
    for _name in $programs; do
        if [ -x "$image/app/bin/$_name" ]; then
            _there="$_there $_name"
        else
            failed programs "/app/bin/$_name" "there, executable" "not there" \
                "a layer was left out of the final stage, or this source no longer builds it: pin a commit that does"
        fi
    done
    if [ "$worker" != - ]; then
        if [ -x "$image/app/bin/llama-rpc-worker" ]; then
            _there="$_there llama-rpc-worker"
        else
            failed programs /app/bin/llama-rpc-worker "the worker, one of $worker" "not there" \
                "rpc: true needs a source that builds a worker; see options in the matrix"
        fi
    fi
    if [ "$failures" = 0 ]; then passed programs /app/bin "all there" "${_there# }"; fi
}

check_libraries() { # what the loader finds in the finished file system, for each program and library
    _before=$failures
    _count=0
    _loader=''
    for _file in $shipped; do
        [ -n "$_loader" ] || _loader=$(loader "$_file")
    done
    _path=$(setting LD_LIBRARY_PATH)
    for _file in $shipped; do
        _count=$((_count + 1))
        # One that brings no path of its own is found by those who need it, so it may look where they look.
        if readelf -d "$image$_file" | grep -q 'R[UN]*PATH'; then _own=$_path; else _own=/app/lib:$_path; fi
        _missing=$(chroot "$image" "$_loader" --library-path "$_own" --list "$_file" 2>&1 |
            awk '/=> not found/ && $1 != "libcuda.so.1" { print $1 }
                 /cannot open shared object file/ && !/libcuda\.so\.1/ { sub(/^.*libraries: /, ""); sub(/:.*/, ""); print }' |
            sort -u | tr '\n' ' ')
        if [ -n "$_missing" ]; then
            failed libraries "$_file" "every library found, libcuda.so.1 alone may be the host's" \
                "not found: ${_missing% }" \
                "copy it in the build stage, use a runtime base that has it, or switch off what needs it"
        fi
    done
    if [ "$failures" = "$_before" ]; then
        passed libraries /app "every library found, libcuda.so.1 alone may be the host's" "$_count files, all found"
    fi
}

check_stubs() { # a stub in place of the driver answers every call with an error
    _before=$failures
    _path=$(setting LD_LIBRARY_PATH)
    case $_path in
    *stubs*)
        failed stubs LD_LIBRARY_PATH "no folder of stubs" "$_path" \
            "take it out of the ENV of the template or of the runtime base; it is for linking only"
        ;;
    esac
    for _file in $(cd "$image" && find . -xdev \( -name 'libcuda.so*' -o -name 'libnvidia-ml.so*' \) \
        ! -path '*/compat/*' ! -path '*/stubs/*' 2> /dev/null | sed 's/^\.//' | sort); do
        failed stubs "$_file" "no driver library: the host brings its own" "it is in the image" \
            "leave it out of the image: build against the stub, never copy it; with vmm: false nothing needs it"
    done
    if [ "$failures" = "$_before" ]; then
        passed stubs / "no driver library, no folder of stubs in LD_LIBRARY_PATH" none
    fi
}

lend_stub() { # a program that needs the driver's library to start gets the stub, for this check alone
    stubs=
    [ -e /stubs/libcuda.so.1 ] || return 0
    mkdir -p "$image/.sistership-stubs"
    cp -L /stubs/libcuda.so.1 "$image/.sistership-stubs/libcuda.so.1"
    stubs=/.sistership-stubs
}

check_version() {
    lend_stub
    _before=$failures
    for _name in llama-cli llama-server; do
        [ -x "$image/app/bin/$_name" ] || continue
        if in_image "/app/bin/$_name" --version > "$work/said" 2>&1; then _status=0; else _status=$?; fi
        _said=$(grep -a -m 1 '^version: ' "$work/said" || true)
        if [ "$_status" != 0 ]; then
            failed version "/app/bin/$_name" "--version prints the commit" \
                "it ended with $_status: $(tail -n 1 "$work/said")" "run it in the image by hand; the log has no more"
            continue
        fi
        echo "$_name: $_said" >> "$share/version.txt"
        if grep -qx LLAMA_BUILD_COMMIT "$unused"; then
            unjudged version "/app/bin/$_name" "$commit" "this source takes no LLAMA_BUILD_COMMIT; the image's label has it"
        elif ! echo "$_said" | grep -qF "$(echo "$commit" | cut -c1-7)"; then
            failed version "/app/bin/$_name" "$commit" "${_said:-no line with a version}" \
                "leave LLAMA_BUILD_COMMIT to sistership, and no .git in the context"
        elif [ "$failures" = "$_before" ]; then
            passed version "/app/bin/$_name" "$commit" "$_said"
        fi
    done
}

keep_help() { # what each program can be told, to check arguments against before anything is started
    for _name in $programs llama-rpc-worker; do
        [ -x "$image/app/bin/$_name" ] || continue
        if in_image "/app/bin/$_name" --help > "$work/said" 2> "$work/complained"; then _status=0; else _status=$?; fi
        [ -s "$work/said" ] || mv "$work/complained" "$work/said"
        if [ "$_status" -ge 124 ] || [ ! -s "$work/said" ]; then
            failed help "/app/bin/$_name" "--help prints its arguments" \
                "it ended with $_status: $(tail -n 1 "$work/said")" "run it in the image by hand"
            continue
        fi
        cp "$work/said" "$share/help/$_name.txt"
        passed help "/app/bin/$_name" "--help prints its arguments" "$(awk 'END { print NR }' "$work/said") lines"
    done
    chmod -R u=rwX,go=rX "$share"
}
