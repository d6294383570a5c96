# shellcheck shell=sh disable=SC2154  # the variables are check.sh's
# Sourced by check.sh: what can be said by running the image's own loader and programs in its own root.

setting() { # NAME: its value in the image's environment
    sed -n "s/^$1=//p" "$environment" | head -n 1
}

# Before a program: leaves it one processor, where the base can do so.
one_processor=
if command -v taskset > /dev/null 2>&1; then
    one_processor="taskset -c $(taskset -pc $$ | sed 's/.*: *//; s/[,-].*//')"
fi

in_image() { # PROGRAM ARGUMENT…: run in the image's root with the image's loader path and nothing else
    # By the loader: without /proc a program does not know its own folder, which $ORIGIN stands for.
    # shellcheck disable=SC2046,SC2086 # words on purpose; a static program asks for no loader
    timeout 120 $one_processor chroot "$image" /usr/bin/env -i PATH="/app/bin:/usr/bin:/bin" HOME=/nonexistent \
        LC_ALL=C LD_LIBRARY_PATH="$(setting LD_LIBRARY_PATH)${stubs:+:$stubs}" $(loader "$1") "$@" < /dev/null
}

loader() { # FILE: the loader that a program of the image asks for; nothing if it asks for none
    readelf -l "$image$1" | sed -n 's/.*Requesting program interpreter: \([^]]*\)\].*/\1/p'
}

check_used() { # check-flags.sh judged the flags, before an hour of compiling; here it is said that it did
    if [ ! -f "$unused" ]; then
        failed flags cmake "every flag that must be used" "nobody looked: there is no ${unused:-list of unused guards}" \
            "let the template run check-flags.sh after cmake, and give its list to check.sh"
        : > "$work/unused"
        unused=$work/unused
        return 0
    fi
    passed flags cmake "every flag that must be used" "used; $(awk 'END { print NR }' "$unused") guards unknown to this source"
}

check_programs() {
    _before=$failures
    # A name with a blank would be two for what follows here, and for many that run the image.
    find "$image/app/bin" "$image/app/lib" -name '*[!A-Za-z0-9._+-]*' 2> /dev/null | sort > "$work/odd"
    if [ -s "$work/odd" ]; then
        failed programs "$(head -n 1 "$work/odd" | sed "s|^$image||")" "a name of letters, digits and . _ + -" "another name" \
            "rename it in the source or in the build stage"
    fi
    _there=''
    for _name in $programs; do
        if [ -f "$image/app/bin/$_name" ] && [ -x "$image/app/bin/$_name" ]; then
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
    if [ "$failures" = "$_before" ]; then passed programs /app/bin "all there" "${_there# }"; fi
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
        readelf -d "$image$_file" > "$work/dynamic" 2> /dev/null || true
        sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' "$work/dynamic" >> "$work/needed"
        grep -q '(NEEDED)' "$work/dynamic" || continue # static: it needs nothing
        # One that brings no path of its own is found by those who need it, so it may look where they look.
        if grep -q 'R[UN]*PATH' "$work/dynamic"; then _own=$_path; else _own=/app/lib:$_path; fi
        # glibc's --list ends at the first library that is missing, were it the driver's; musl knows nothing else.
        case $_loader in *ld-musl*) _list=--list ;; *) _list= ;; esac
        _status=0
        timeout 120 chroot "$image" /usr/bin/env -i LC_ALL=C LD_TRACE_LOADED_OBJECTS=1 \
            "$_loader" --library-path "$_own" $_list "$_file" > "$work/said" 2>&1 < /dev/null || _status=$?
        _missing=$(awk '$2 == "=>" && $3 == "not" && $1 != "libcuda.so.1" { print $1 }
            /^Error loading shared library / && $5 != "libcuda.so.1:" { sub(/:$/, "", $5); print $5 }
            / version .* not found/ { sub(/ not found.*/, ""); sub(/.*\//, ""); sub(/: version ./, " without "); print }
            ' "$work/said" | tr -d "'" | sort -u | tr '\n' ',' | sed 's/,$//; s/,/, /g')
        if [ -n "$_missing" ]; then
            _missing="not found: $_missing"
        elif [ "$_status" != 0 ] && ! grep -q 'shared library libcuda.so.1: ' "$work/said"; then
            _missing="the loader ended with $_status: $(tail -n 1 "$work/said")"
        fi
        if [ -n "$_missing" ]; then
            failed libraries "$_file" "every library found, libcuda.so.1 alone may be the host's" "$_missing" \
                "copy it in the build stage, use a runtime base that has it (as new as the build base), or switch off what needs it"
        fi
    done
    check_backends
    if [ "$failures" = "$_before" ]; then
        passed libraries /app "every library found, libcuda.so.1 alone may be the host's" "$_count files, all found"
    fi
}

check_backends() { # libraries that nothing is linked with are loaded at run time (GGML_BACKEND_DL), from where libggml looks
    # As bytes: what is as short as this folder may stand in an instruction instead of a string.
    if cat "$image"/app/lib/libggml.so* 2> /dev/null | grep -aqF /app/lib; then return 0; fi
    for _file in $(echo "$shipped" | grep '^/app/lib/libggml-.*\.so$' || true); do
        grep -qxF "${_file##*/}" "$work/needed" || failed libraries "$_file" "loaded by libggml when a program starts" \
            "libggml looks beside the program and in its working folder alone" "add GGML_BACKEND_DIR: /app/lib to cmake:"
    done
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
    for _file in $(cd "$image" && grep -ls '^[^#]*stubs' etc/ld.so.conf etc/ld.so.conf.d/*); do
        failed stubs "/$_file" "no folder of stubs" "$(grep -m 1 '^[^#]*stubs' "$image/$_file")" \
            "take the folder out of it: whoever refreshes the loader's cache would find the stub before the driver"
    done
    for _file in $(cd "$image" && find . -xdev \( -name 'libcuda.so*' -o -name 'libnvidia-ml.so*' \) \
        ! -path '*/compat/*' ! -path '*/stubs/*' 2> /dev/null | sed 's/^\.//' | sort); do
        failed stubs "$_file" "no driver library: the host brings its own" "it is in the image" \
            "leave it out of the image: build against the stub, never copy it; with vmm: false nothing needs it"
    done
    if [ "$failures" = "$_before" ]; then
        passed stubs / "no driver library, no folder of stubs for the loader" none
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
        else
            passed version "/app/bin/$_name" "$commit" "$_said"
        fi
    done
}

keep_help() { # what each program can be told, to check arguments against before anything is started
    for _name in $programs llama-rpc-worker; do
        [ -x "$image/app/bin/$_name" ] || continue
        if in_image "/app/bin/$_name" --help > "$work/said" 2> "$work/complained"; then _status=0; else _status=$?; fi
        # A worker tells it on its standard error, where backends first say which processor and cards they found.
        [ -s "$work/said" ] || sed -n '/^ *[Uu]sage/,$p' "$work/complained" > "$work/said"
        [ -s "$work/said" ] || mv "$work/complained" "$work/said"
        # Some versions end with 1 after their help.
        if [ ! -s "$work/said" ] || { [ "$_status" != 0 ] && ! grep -Eqi '^ *(usage|-h,)' "$work/said"; } ||
            [ "$_status" -ge 124 ]; then
            failed help "/app/bin/$_name" "--help prints its arguments" \
                "it ended with $_status: $(tail -n 1 "$work/said")" "run it in the image by hand"
            continue
        fi
        cp "$work/said" "$share/help/$_name.txt"
        passed help "/app/bin/$_name" "--help prints its arguments" "$(awk 'END { print NR }' "$work/said") lines"
    done
}
