# shellcheck shell=sh disable=SC2154  # the variables are check.sh's
# Sourced by check.sh: what can be read in the machine code of the image's programs and libraries.

check_archs() { # every arch of the matrix, as code of the card in libggml-cuda
    _before=$failures
    _library=$(echo "$shipped" | grep '/libggml-cuda\.so' | head -n 1 || true)
    if [ -z "$_library" ]; then
        failed archs /app/lib/libggml-cuda.so "there" "not there: the image would compute on the CPU alone" \
            "a layer was left out of the final stage, or cmake: switches GGML_CUDA off"
        return 0
    fi
    # "ELF file  1: ggml.1.sm_89.cubin" for machine code, "PTX file …" for what a driver compiles.
    { cuobjdump --list-elf "$image$_library" || true; } 2> /dev/null |
        sed -n 's/.*\.\(sm_[0-9]*[a-z]*\)\.cubin$/\1/p' | sort | uniq -c > "$work/code"
    { cuobjdump --list-ptx "$image$_library" || true; } 2> /dev/null |
        sed -n 's/.*\.sm_\([0-9]*[a-z]*\)\.ptx$/compute_\1/p' | sort | uniq -c >> "$work/code"
    _found=$(awk '{ printf "%s%s in %d", separator, $2, $1; separator = ", " } END { if (NR) print " kernel files" }' "$work/code")
    for _wanted in $archs; do
        _hit=
        for _name in $(echo "${_wanted#*:}" | tr '|' ' '); do
            if awk -v name="$_name" '$2 == name { found = 1 } END { exit !found }' "$work/code"; then _hit=$_name; fi
        done
        if [ -z "$_hit" ]; then
            failed archs "$_library" "code for ${_wanted%%:*} ($(echo "${_wanted#*:}" | sed 's/|/ or /g'))" \
                "${_found:-no device code at all}" \
                "let no flag of cmake: replace CMAKE_CUDA_ARCHITECTURES, and quote the list in the template"
        fi
    done
    if [ "$failures" = "$_before" ]; then
        passed archs "$_library" "$(for _wanted in $archs; do echo "${_wanted%%:*}"; done | tr '\n' ' ' | sed 's/ $//')" "$_found"
    fi
}

ours() { # FILE: compiled here? A library that came along has code chosen at run time, and strings of another build
    case $1 in
    /app/bin/* | */libggml*.so* | */libllama*.so* | */libmtmd*.so*) return 0 ;;
    esac
    rpath "$1" | grep -qF ORIGIN/../lib
}

holds_libc() { # FILE: linked with -static? The C library has a memcpy for every processor, AVX-512 included
    case $1 in
    /app/bin/*) [ -z "$(loader "$1")" ] ;;
    *) return 1 ;;
    esac
}

rpath() { # FILE: where it tells the loader to look, one folder per line
    readelf -d "$image$1" 2> /dev/null | sed -n 's/.*R[UN]*PATH.*\[\(.*\)\]/\1/p' | tr ':' '\n'
}

# Which instruction sets a disassembly shows, one per line with an example: the sets by their names in ggml.
# The first byte says how an instruction is encoded (Intel's manual, volume 2, chapter 2): 62 is EVEX, which only AVX-512
# has, whatever registers it names; c4 and c5 are VEX. BMI1 and MOVBE count as BMI2, with which x86-64-v3 has them.
# Not counted: what gcc also emits for older processors (rep bsf reads as tzcnt), and lzcnt, which the sound decoder in
# libmtmd uses where it finds it.
_SETS='
BEGIN { FS = "\t" }
function show(set) { if (!(set in seen)) seen[set] = name }
function wide(set) { show(set); show("AVX") }
NF < 3 { next }
{
    lines++
    bytes = $2
    sub(/^((26|2e|36|3e|64|65|67) )+/, "", bytes)
    kind = substr(bytes, 1, 2)
    words = split($3, word, " ")
    name = word[1] ~ /^\{/ && words > 1 ? word[2] : word[1]
}
kind == "62" {
    if (name ~ /^vpdp[bw]us|^vpdpwss/) show("AVX512_VNNI")
    else if (name ~ /^v(perm([it]2)?b|pmultishiftqb)$/) show("AVX512_VBMI")
    else if (name ~ /^v(dpbf16ps|cvtne2?ps2bf16)/) show("AVX512_BF16")
    else if (name ~ /^v(popcnt|pshufbitqmb|psh[lr]d|p(compress|expand)[bw]$|pmadd52|gf2p8|aes|pclmul)/) show("AVX512_LATER")
    else if (name ~ /^v.*([ps]h|ph2.*|2phx?|sh2.*|2sh)$/ && name !~ /^vcvt(ps2ph|ph2ps)$/) show("AVX512_LATER")
    show("AVX512"); next
}
kind == "c4" || kind == "c5" {
    if (name ~ /^(ld|st)?t(ile|dp|c)/) {
        if (name ~ /^tdpb[su][su]d$/) show("AMX_INT8")
        if (name ~ /^tdpbf16ps$/) show("AMX_BF16")
        show("AMX_TILE")
    }
    else if (word[1] == "{vex}" || name ~ /^vpdp/) show("AVX_VNNI")
    else if ($3 ~ /%k[0-7]/) show("AVX512")
    else if (name ~ /^vfn?m(add|sub)/) wide("FMA")
    else if (name ~ /^vcvt(ph2ps|ps2ph)/) wide("F16C")
    else if (name ~ /^v(pbroadcast|ps[lr][la]v[dq]|pblendd|pmaskmov|p?gather)/) wide("AVX2")
    else if ($3 ~ /^vbroadcasts[sd] +%xmm/) wide("AVX2")
    else if (name ~ /^vp(test|ermilp|erm2f128)/) show("AVX")
    else if (name ~ /^v(p|broadcasti|extracti|inserti|movntdqa|mpsadbw)/ && $3 ~ /%ymm/) wide("AVX2")
    else if (name ~ /^v/) show("AVX")
    else show("BMI2")
    next
}
name == "movbe" { show("BMI2"); next }
name ~ /^(pshufb|pmaddubsw|ph(add|sub)(s?w|d)|palignr|pabs[bwd]|psign[bwd]|pmulhrsw|pblend(w|vb)|blendv?p[sd]|pmulld|pmuldq)$/ ||
    name ~ /^(p(max|min)(s[bd]|u[wd])|pmov[sz]x..|round[ps][sd]|dpp[sd]|ptest|pcmp(eqq|gtq|[ei]str[im])|crc32[bwlq]?|popcnt[wlq]?)$/ ||
    name ~ /^(h(add|sub)p[sd]|addsubp[sd]|movddup|movs[hl]dup|fisttp.*|lddqu|insertps|extractps|pextr[bdq]|pinsr[bdq])$/ ||
    name ~ /^(packusdw|phminposuw|mpsadbw|movntdqa)$/ { show("SSE42") }
END {
    for (set in seen) print set, seen[set]
    if (!lines) print "UNREADABLE", "objdump"
}
'

sets_of() { # FILE: sets and examples
    objdump -d --insn-width=16 "$image$1" 2> /dev/null | awk "$_SETS" | sort
}

check_instructions() { # the CPU baseline: reached by ggml's own code, and exceeded by nothing
    if [ -n "$unjudged" ]; then
        unjudged instructions /app "${sets:-none}" "$unjudged"
        return 0
    fi
    _before=$failures
    for _file in $shipped; do
        case $_file in
        /app/lib/libggml-cpu-*) continue ;; # one per processor, chosen at run time
        esac
        if ! ours "$_file" || holds_libc "$_file"; then continue; fi
        _beyond=''
        for _seen in $(sets_of "$_file" | tr ' ' '='); do
            case " $sets " in
            *" ${_seen%%=*} "*) ;;
            *) _beyond="$_beyond, ${_seen%%=*} (${_seen#*=})" ;;
            esac
        done
        if [ -n "$_beyond" ]; then
            failed instructions "$_file" "none but ${sets:-those of every x86-64}" "${_beyond#, }" \
                "take -march and the like out of cmake:, keep native: false, or raise options: cpu"
        fi
    done
    _library=$(echo "$shipped" | grep '/libggml-cpu\.so' | head -n 1 || true)
    # Linked into each program, with BUILD_SHARED_LIBS off.
    if ! echo "$shipped" | grep -q '/libggml-cpu'; then _library=/app/bin/${programs%% *}; fi
    if [ -z "$_library" ] || [ ! -f "$image$_library" ] || holds_libc "$_library"; then
        if [ "$failures" = "$_before" ]; then
            unjudged instructions /app "${sets:-none}" \
                "no single libggml-cpu, or a static C library beside it: code chosen at run time; nothing else exceeds the baseline"
        fi
        return 0
    fi
    _seen=" $(sets_of "$_library" | cut -d ' ' -f 1 | tr '\n' ' ')"
    _lacking=''
    for _set in $sets; do
        case $_set in
        SSE42) _as=AVX ;; # the same instructions in their AVX form
        AVX | AVX2 | FMA | F16C | AVX512) _as=AVX512 ;; # whose forms stand for the older ones
        *) continue ;; # a compiler may well find no use for it
        esac
        case $_seen in
        *" $_set "* | *" $_as "*) ;;
        *) _lacking="$_lacking $_set" ;;
        esac
    done
    if [ -n "$_lacking" ]; then
        _only=$(echo "$_seen" | sed 's/^ *//; s/ *$//')
        failed instructions "$_library" "$sets: the baseline reached" "no${_lacking}, only ${_only:-what every x86-64 has}" \
            "look for SOURCE_DATE_EPOCH in the environment of cmake (ENV of a base, ARG), and for these sets in cmake:"
    fi
    if [ "$failures" = "$_before" ]; then
        passed instructions "$_library" "${sets:-none beyond x86-64}" "reached, and exceeded nowhere"
    fi
}

check_paths() { # no folder of the build in any string, and no way to it for the loader
    _before=$failures
    for _file in $shipped; do
        ours "$_file" || continue
        _found=$(tr '\000' '\n' < "$image$_file" |
            grep -aE '(^|[ =:]|-[IL])/(src|build)/[[:alnum:]_.+-]' | head -n 1 | cut -c 1-200 || true)
        if [ -n "$_found" ]; then
            failed paths "$_file" "no path of the build" "$_found" \
                "keep -ffile-prefix-map in CMAKE_C_FLAGS, CMAKE_CXX_FLAGS and CMAKE_CUDA_FLAGS where cmake: replaces them"
        fi
        _way=$(rpath "$_file" | grep -vE '^\$(ORIGIN|\{ORIGIN\})(/|$)' | tr '\n' ' ' || true)
        if [ -n "$_way" ]; then
            failed paths "$_file" "the loader looks beside the file alone (\$ORIGIN)" "RPATH ${_way% }" \
                "leave CMAKE_INSTALL_RPATH and CMAKE_BUILD_WITH_INSTALL_RPATH to sistership"
        fi
    done
    if [ "$failures" = "$_before" ]; then passed paths /app "no path of the build in strings or RPATH" none; fi
}
