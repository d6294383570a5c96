#!/bin/sh
# Sorts what was built into one folder per layer of the image, from what changes least to what changes most.
#   collect.sh BUILD OUT RUNTIME BACKEND WORKER PROGRAM…
#     BUILD    build tree with bin/
#     OUT      gets 10-ggml-BACKEND, 20-libs and 30-bin
#     RUNTIME  root of the image that runs, to know which libraries it has
#     BACKEND  cuda or cpu: libggml-BACKEND is the large library with a layer of its own
#     WORKER   the worker's possible names, "a|b", or "-" for none; it gets the stable name llama-rpc-worker
# Each layer carries the sha256 of its own files, so no folder is empty and the finished image can be checked.
set -eu
umask 022
export LC_ALL=C

# shellcheck source=dockerfiles/support/findings.sh
. "$(dirname "$0")/findings.sh"
build=$1 out=$2 runtime=$3 backend=$4 worker=$5
shift 5
bin=$build/bin
large=$out/10-ggml-$backend libs=$out/20-libs bins=$out/30-bin

lacking() { # CHECK SUBJECT EXPECTED FOUND CURE
    failed "$@"
    echo "sistership: $bin holds:" >&2
    # shellcheck disable=SC2012 # for people, not for parsing
    ls "$bin" 2>&1 | sed 's/^/  /' >&2
    exit 1
}

put() { # FILE TARGET MODE
    if [ -e "$2" ]; then
        lacking programs "/${2#"$out"/*/}" "one file" "two files of the build would become it" \
            "this source builds two libraries of one SONAME; leave one out by its switch in cmake:"
    fi
    cp -L "$1" "$2"
    chmod "$3" "$2"
}

soname() {
    name=
    if elf "$1"; then name=$(readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p'); fi
    echo "${name:-$(basename "$1")}"
}

in_runtime() {
    for folder in lib lib64 lib/*-linux-gnu usr/lib usr/lib64 usr/lib/*-linux-gnu usr/local/lib \
        usr/local/cuda*/lib64 usr/local/cuda*/targets/*/lib; do
        # shellcheck disable=SC2086 # the pattern has to expand
        for found in "$runtime"/$folder/"$1"; do
            if [ -e "$found" ] || [ -L "$found" ]; then return 0; fi
        done
    done
    return 1
}

rm -rf "$out"
mkdir -p "$large/app/lib" "$libs/app/lib" "$bins/app/bin"

for program in "$@"; do
    [ -f "$bin/$program" ] || lacking programs "/app/bin/$program" "built" "$program was not built" \
        "pin a commit that builds it (LLAMA_BUILD_TOOLS came with b5269), and leave its switch in cmake: on"
    put "$bin/$program" "$bins/app/bin/$program" 755
done

if [ "$worker" != - ]; then
    for name in $(echo "$worker" | tr '|' ' ') -; do
        if [ "$name" = - ]; then
            lacking programs /app/bin/llama-rpc-worker "built" "no worker was built: looked for $worker" \
                "pin a commit that has one of these, or set options: rpc to false"
        fi
        [ -f "$bin/$name" ] || continue
        put "$bin/$name" "$bins/app/bin/$name" 755
        ln -s "$name" "$bins/app/bin/llama-rpc-worker"
        break
    done
fi

for library in "$bin"/*.so "$bin"/*.so.*; do
    if [ ! -f "$library" ] || [ -L "$library" ]; then continue; fi
    name=$(soname "$library")
    case $name in
    libggml-"$backend".so*) put "$library" "$large/app/lib/$name" 644 ;;
    *) put "$library" "$libs/app/lib/$name" 644 ;;
    esac
done
if [ "$backend" = cuda ] && ! ls "$large"/app/lib/libggml-cuda.so* > /dev/null 2>&1; then
    lacking archs /app/lib/libggml-cuda.so "built" "no libggml-cuda was built: the image would compute on the CPU alone" \
        "leave GGML_CUDA and BUILD_SHARED_LIBS in cmake: to sistership"
fi

# What the programs and libraries need: "name path", or "name not" where the loader finds nothing.
# A library asked alone may miss what the program's RPATH finds, so any path counts more than none, ours most.
needed=$(
    find "$bin" -type f | sort | while read -r file; do
        if elf "$file"; then ldd "$file" 2> /dev/null | awk '$2 == "=>" { print $1, $3 }'; fi
    done | sort -u | awk -v own="$bin/" '
        $2 == "not" { if (!($1 in path)) path[$1] = $2; next }
        !($1 in path) || path[$1] == "not" || index($2, own) == 1 { path[$1] = $2 }
        END { for (name in path) print name, path[name] }
    ' | sort
)
echo "$needed" | while read -r name path; do
    case $name in
    '' | ld-linux* | libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libresolv.so* | libutil.so*) continue ;;
    libcuda.so* | libnvidia-*) continue ;; # the driver's: the host brings them
    esac
    case $path in
    not) if [ ! -e "$large/app/lib/$name" ] && [ ! -e "$libs/app/lib/$name" ]; then
            lacking libraries "$name" "found, since a program or library of the build needs it" "nowhere to be found" \
                "add its package to packages:, or switch off what needs it in cmake:"
        fi
        ;;
    "$bin"/*) ;;
    *)
        if ! in_runtime "$name"; then
            put "$path" "$libs/app/lib/$name" 644
            echo "sistership: $name comes along, the runtime base lacks it"
        fi
        ;;
    esac
done

for layer in "$large" "$libs" "$bins"; do
    sums=$out/sums
    (cd "$layer" && find app -type f | sort | while read -r file; do sha256sum "$file"; done) | sed 's|  |  /|' > "$sums"
    mkdir -p "$layer/app/share/sistership"
    chmod 644 "$sums"
    mv "$sums" "$layer/app/share/sistership/${layer##*/}.sha256"
    rmdir "$layer/app/lib" 2> /dev/null || true
done
