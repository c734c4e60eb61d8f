# Two stages: the build, and an image with the one binary. Without the CUDA Toolkit: what needs a GPU says so.
#   docker build -t headroom . && docker run --rm -v "$PWD:/work" headroom check configs
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY . .
RUN apt-get update && . cmake/packages.sh && apt-get install -y --no-install-recommends git $HEADROOM_PACKAGES \
    && cmake --preset release -DHEADROOM_CUDA=OFF -DHEADROOM_WERROR=OFF && cmake --build --preset release

FROM debian:bookworm-slim
COPY --from=build /src/build/release/planner/headroom /usr/bin/headroom
WORKDIR /work
ENTRYPOINT ["headroom"]
