# Variant sample for linux/amd64, rendered by sistership from dockerfiles/llamacpp.Dockerfile.j2.

FROM 127.0.0.1:5000/practice/runtime:bookworm@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb AS runtime

FROM 127.0.0.1:5000/practice/build:bookworm@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb AS packages

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
    cmake -S /src -B /build -G Ninja \
    -DCMAKE_BUILD_TYPE=Release \
    -DGGML_CUDA=OFF \
    -DGGML_RPC=ON \
    -DGGML_NATIVE=OFF \
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
    -DLLAMA_BUILD_COMMIT=1234567890abcdef1234567890abcdef12345678 \
    -DGGML_CCACHE=OFF \
    -DCMAKE_C_COMPILER_LAUNCHER=/sistership/launch.sh \
    -DCMAKE_CXX_COMPILER_LAUNCHER=/sistership/launch.sh \
    -DCMAKE_C_FLAGS="-ffile-prefix-map=/src=. -ffile-prefix-map=/build=." \
    -DCMAKE_CXX_FLAGS="-ffile-prefix-map=/src=. -ffile-prefix-map=/build=." \
    -DCMAKE_EXE_LINKER_FLAGS="-Wl,-s -Wl,--disable-new-dtags" \
    -DCMAKE_SHARED_LINKER_FLAGS="-Wl,-s -Wl,--disable-new-dtags" \
    -DCMAKE_MODULE_LINKER_FLAGS="-Wl,-s -Wl,--disable-new-dtags" \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
    -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib;$ORIGIN' \
    2> /tmp/configure.err || { cat /tmp/configure.err >&2; exit 1; }
RUN --network=none sh /sistership/check-flags.sh /tmp/configure.err /tmp/unused-guards cpu \
    LLAMA_BUILD_TESTS LLAMA_BUILD_EXAMPLES BUILD_SHARED_LIBS LLAMA_BUILD_UI LLAMA_BUILD_WEBUI \
    LLAMA_USE_PREBUILT_UI GGML_CUDA_NCCL GGML_RPC_RDMA LLAMA_CURL LLAMA_OPENSSL GGML_SSE42 GGML_AVX \
    GGML_AVX2 GGML_BMI2 GGML_FMA GGML_F16C GGML_AVX512 GGML_AVX_VNNI GGML_AVX512_VBMI GGML_AVX512_VNNI \
    GGML_AVX512_BF16 GGML_AMX_TILE GGML_AMX_INT8 GGML_AMX_BF16 LLAMA_BUILD_NUMBER LLAMA_BUILD_COMMIT \
    GGML_CCACHE CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_C_FLAGS CMAKE_CXX_FLAGS \
    CMAKE_EXE_LINKER_FLAGS CMAKE_SHARED_LINKER_FLAGS CMAKE_MODULE_LINKER_FLAGS \
    CMAKE_BUILD_WITH_INSTALL_RPATH CMAKE_INSTALL_RPATH
RUN --network=none --mount=type=cache,id=sistership-ccache,target=/ccache \
    CCACHE_DIR=/ccache \
    sh /sistership/build.sh /build 1024 llama-bench llama-cli llama-server "rpc-server|ggml-rpc-server"
RUN --network=none --mount=type=bind,from=runtime,target=/runtime \
    sh /sistership/collect.sh /build /out /runtime cpu "rpc-server|ggml-rpc-server" llama-bench llama-cli llama-server

# The image as it will be, to be checked from the inside; what a container of it has for an environment is part of that.
FROM runtime AS image
COPY --from=build /out/10-ggml-cpu/ /
COPY --from=build /out/20-libs/ /
COPY --from=build /out/30-bin/ /
ENV PATH=/app/bin:$PATH
FROM image AS environment
RUN --network=none env > /environment

FROM build AS checks
RUN --network=none --mount=type=bind,from=image,target=/image,rw \
    --mount=type=bind,from=environment,source=/environment,target=/environment \
    sh /sistership/check.sh --image /image --report /report --environment /environment --unused /tmp/unused-guards \
    --backend cpu \
    --commit 1234567890abcdef1234567890abcdef12345678 \
    --worker "rpc-server|ggml-rpc-server" \
    --programs "llama-bench llama-cli llama-server" \
    --sets "SSE42 AVX AVX2 BMI2 FMA F16C"

# Only COPY from here on, one folder per layer, from what changes least to what changes most. The report makes the checks
# a part of the image: a stage that nothing copies from is never built.
FROM runtime
COPY --from=build /out/10-ggml-cpu/ /
COPY --from=build /out/20-libs/ /
COPY --from=build /out/30-bin/ /
COPY --from=checks /report/ /
ENV PATH=/app/bin:$PATH
LABEL org.opencontainers.image.created="2026-05-01T10:00:00Z" \
      org.opencontainers.image.revision="1234567890abcdef1234567890abcdef12345678" \
      org.opencontainers.image.source="sample" \
      org.opencontainers.image.title="sistership-sample" \
      org.opencontainers.image.version="practice" \
      dev.sistership.archs="" \
      dev.sistership.patches="rpc-zero-byte-tensor.patch@sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc" \
      dev.sistership.recipe="ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" \
      dev.sistership.tree="fedcba0987654321fedcba0987654321fedcba09" \
      dev.sistership.variant="sample"
