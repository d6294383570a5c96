# Variant upstream for linux/amd64, rendered by sistership from dockerfiles/llamacpp.Dockerfile.j2.

FROM nvidia/cuda:12.8.1-runtime-ubuntu24.04@sha256:ebef3c171eeef0298e4eb2e4be843105edf3b8b0ac45e0b43acee358e8046867 AS runtime

FROM nvidia/cuda:12.8.1-devel-ubuntu24.04@sha256:520292dbb4f755fd360766059e62956e9379485d9e073bbd2f6e3c20c270ed66 AS packages
# The package archive as of one moment. Where the base has no certificates, what comes over TLS is checked by its
# signature alone, as it is without TLS. A list of that moment has it in its name: without one, nothing was pinned.
# hadolint ignore=DL3008
RUN [ -e /etc/ssl/certs/ca-certificates.crt ] \
 || echo 'Acquire::https::Verify-Peer "false";' > /etc/apt/apt.conf.d/90sistership; \
    apt-get --snapshot "20260501T120000Z" -o Acquire::Check-Valid-Until=false update \
 && { ls /var/lib/apt/lists/*"20260501T120000Z"* > /dev/null 2>&1 \
   || { echo "the package archive of this base has no snapshot of 20260501T120000Z" >&2; exit 1; }; } \
 && DEBIAN_FRONTEND=noninteractive apt-get --snapshot "20260501T120000Z" install -y --no-install-recommends \
    build-essential \
    ccache \
    cmake \
    ninja-build \
 && rm -rf /var/lib/apt/lists/*

# What the build was made with, for the lock; the image does not depend on it.
FROM packages AS inputs
RUN --network=none --mount=type=bind,source=sistership,target=/sistership sh /sistership/inputs.sh /inputs
FROM scratch AS record
COPY --from=inputs /inputs/ /

FROM packages AS build
COPY sistership/ /sistership/
COPY src/ /src/
# With SOURCE_DATE_EPOCH set ggml switches instruction sets off. $ORIGIN is for the loader, not for the shell.
# hadolint ignore=SC2016
RUN --network=none unset SOURCE_DATE_EPOCH; \
    LIBRARY_PATH=/usr/local/cuda/lib64/stubs \
    cmake -S /src -B /build -G Ninja \
    -DCMAKE_BUILD_TYPE=Release \
    -DGGML_CUDA=ON \
    -DGGML_RPC=ON \
    -DGGML_NATIVE=OFF \
    -DGGML_CUDA_NO_VMM=ON \
    -DCMAKE_CUDA_ARCHITECTURES="89;120" \
    -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_TOOLS=ON \
    -DLLAMA_BUILD_SERVER=ON \
    -DBUILD_SHARED_LIBS=ON \
    -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_BUILD_WEBUI=OFF \
    -DLLAMA_USE_PREBUILT_UI=OFF \
    -DGGML_CUDA_NCCL=OFF \
    -DGGML_RPC_RDMA=OFF \
    -DLLAMA_CURL=OFF \
    -DLLAMA_OPENSSL=OFF \
    -DGGML_SSE42=ON \
    -DGGML_AVX=ON \
    -DGGML_AVX2=ON \
    -DGGML_BMI2=ON \
    -DGGML_FMA=ON \
    -DGGML_F16C=ON \
    -DGGML_AVX512=OFF \
    -DGGML_AVX_VNNI=OFF \
    -DGGML_AVX512_VBMI=OFF \
    -DGGML_AVX512_VNNI=OFF \
    -DGGML_AVX512_BF16=OFF \
    -DGGML_AMX_TILE=OFF \
    -DGGML_AMX_INT8=OFF \
    -DGGML_AMX_BF16=OFF \
    -DLLAMA_BUILD_NUMBER=9079 \
    -DLLAMA_BUILD_COMMIT=84e908c625fb60992b4cdef8180fb12fa9b4c4bf \
    -DGGML_CCACHE=OFF \
    -DCMAKE_C_COMPILER_LAUNCHER=/sistership/launch.sh \
    -DCMAKE_CXX_COMPILER_LAUNCHER=/sistership/launch.sh \
    -DCMAKE_CUDA_COMPILER_LAUNCHER=/sistership/launch.sh \
    -DCMAKE_C_FLAGS="-ffile-prefix-map=/src=. -ffile-prefix-map=/build=." \
    -DCMAKE_CXX_FLAGS="-ffile-prefix-map=/src=. -ffile-prefix-map=/build=." \
    -DCMAKE_CUDA_FLAGS="-Xcompiler=-ffile-prefix-map=/src=. -Xcompiler=-ffile-prefix-map=/build=." \
    -DCMAKE_EXE_LINKER_FLAGS="-Wl,-s -Wl,--disable-new-dtags" \
    -DCMAKE_SHARED_LINKER_FLAGS="-Wl,-s -Wl,--disable-new-dtags" \
    -DCMAKE_MODULE_LINKER_FLAGS="-Wl,-s -Wl,--disable-new-dtags" \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
    -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib;$ORIGIN' \
    2> /tmp/configure.err || { cat /tmp/configure.err >&2; exit 1; }
RUN --network=none sh /sistership/check-flags.sh /tmp/configure.err /tmp/unused-guards cuda \
    LLAMA_BUILD_TESTS LLAMA_BUILD_EXAMPLES BUILD_SHARED_LIBS LLAMA_BUILD_UI LLAMA_BUILD_WEBUI \
    LLAMA_USE_PREBUILT_UI GGML_CUDA_NCCL GGML_RPC_RDMA LLAMA_CURL LLAMA_OPENSSL GGML_SSE42 GGML_AVX \
    GGML_AVX2 GGML_BMI2 GGML_FMA GGML_F16C GGML_AVX512 GGML_AVX_VNNI GGML_AVX512_VBMI GGML_AVX512_VNNI \
    GGML_AVX512_BF16 GGML_AMX_TILE GGML_AMX_INT8 GGML_AMX_BF16 LLAMA_BUILD_NUMBER LLAMA_BUILD_COMMIT \
    GGML_CCACHE CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CUDA_COMPILER_LAUNCHER \
    CMAKE_C_FLAGS CMAKE_CXX_FLAGS CMAKE_CUDA_FLAGS CMAKE_EXE_LINKER_FLAGS CMAKE_SHARED_LINKER_FLAGS \
    CMAKE_MODULE_LINKER_FLAGS CMAKE_BUILD_WITH_INSTALL_RPATH CMAKE_INSTALL_RPATH
RUN --network=none --mount=type=cache,id=sistership-ccache,target=/ccache \
    CCACHE_DIR=/ccache \
    LIBRARY_PATH=/usr/local/cuda/lib64/stubs \
    sh /sistership/build.sh /build 2048 llama-bench llama-cli llama-server "rpc-server|ggml-rpc-server"
RUN --network=none --mount=type=bind,from=runtime,target=/runtime \
    sh /sistership/collect.sh /build /out /runtime cuda "rpc-server|ggml-rpc-server" llama-bench llama-cli llama-server

# The image as it will be, to be checked from the inside; what a container of it has for an environment is part of that.
FROM runtime AS image
COPY --from=build /out/10-ggml-cuda/ /
COPY --from=build /out/20-libs/ /
COPY --from=build /out/30-bin/ /
ENV PATH=/app/bin:$PATH
FROM image AS environment
RUN --network=none env > /environment

FROM build AS checks
RUN --network=none --mount=type=bind,from=image,target=/image,rw \
    --mount=type=bind,from=environment,source=/environment,target=/environment \
    sh /sistership/check.sh --image /image --report /report --environment /environment --unused /tmp/unused-guards \
    --backend cuda \
    --commit 84e908c625fb60992b4cdef8180fb12fa9b4c4bf \
    --worker "rpc-server|ggml-rpc-server" \
    --programs "llama-bench llama-cli llama-server" \
    --archs "89:sm_89 120:sm_120|sm_120a" \
    --sets "SSE42 AVX AVX2 BMI2 FMA F16C"

# Only COPY from here on, one folder per layer, from what changes least to what changes most. The report makes the checks
# a part of the image: a stage that nothing copies from is never built.
FROM runtime
COPY --from=build /out/10-ggml-cuda/ /
COPY --from=build /out/20-libs/ /
COPY --from=build /out/30-bin/ /
COPY --from=checks /report/ /
ENV PATH=/app/bin:$PATH
LABEL org.opencontainers.image.created="2026-05-01T10:00:00Z" \
      org.opencontainers.image.revision="84e908c625fb60992b4cdef8180fb12fa9b4c4bf" \
      org.opencontainers.image.source="https://github.com/ggml-org/llama.cpp" \
      org.opencontainers.image.title="llamacpp-rpc" \
      org.opencontainers.image.version="84e908c6" \
      dev.sistership.archs="89;120" \
      dev.sistership.patches="rpc-zero-byte-tensor.patch@sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc" \
      dev.sistership.recipe="ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" \
      dev.sistership.tree="fedcba0987654321fedcba0987654321fedcba09" \
      dev.sistership.variant="upstream"
