#!/bin/sh
# Prints how many compilers may run at once: as many as there are processors, and as memory allows.
#   jobs.sh MIB                       MIB: memory that one compiler may need
# An unlimited -j ran nvcc out of memory (ggml-org/llama.cpp#17844).
set -eu

need=$1
meminfo=${SISTERSHIP_MEMINFO:-/proc/meminfo}
cgroup=${SISTERSHIP_CGROUP:-/sys/fs/cgroup}

free=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' "$meminfo")
for limit in memory.max memory/memory.limit_in_bytes; do
    [ -r "$cgroup/$limit" ] || continue
    # "max", and the huge number that cgroup v1 writes instead, are no limit
    capped=$(awk '$1 ~ /^[0-9]+$/ && $1 < 2 ^ 60 { print int($1 / 1048576) }' "$cgroup/$limit")
    if [ -n "$capped" ] && [ "$capped" -lt "$free" ]; then free=$capped; fi
done

jobs=$((free / need))
if [ "$jobs" -gt "$(nproc)" ]; then jobs=$(nproc); fi
if [ "$jobs" -lt 1 ]; then jobs=1; fi
echo "$jobs"
