# The image without GPUs:
#     docker build -f docker/cpu.Dockerfile -t selfplay:cpu .
#     docker run --rm --shm-size 2g selfplay:cpu python -m selfplay.train algo.steps=1
# docs/containers.md says more, and which flags the sandbox for model-written Python needs.
#
# Where the registry can be reached, put the digest behind the tag (debian:12.11-slim@sha256:...): a tag can be moved.
FROM debian:12.11-slim AS packages

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# Debian's own Python is 3.11. Debian drops a version from its archive as soon as there is a newer one, so that pins
# would break the build with every security update; the base image's release is the pin.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3.11 python3.11-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app

# Only what the installation reads: a change of the code alone installs nothing anew.
COPY pyproject.toml setup.py README.md LICENSE ./
COPY requirements/cpu.lock.txt requirements/
COPY scripts/setup_env.py scripts/
COPY conf/ conf/
COPY selfplay/__init__.py selfplay/
ENV PIP_NO_CACHE_DIR=1
RUN python3.11 scripts/setup_env.py requirements/cpu.lock.txt .venv/.ready-image


FROM debian:12.11-slim

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# bubblewrap: the sandbox's second backend. dafny: the prover of sandbox=dafny. libnuma1: vLLM's CPU build.
# tini: passes Ctrl-C on, and buries the processes that Ray leaves.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates dafny libnuma1 python3.11 tini \
    && rm -rf /var/lib/apt/lists/*

# Its number is that of the first user of most machines, so that folders mounted from there can be written.
ARG UID=1000
RUN useradd --uid "$UID" --user-group --create-home --shell /bin/bash selfplay \
    && mkdir -p /data/outputs /data/cache \
    && chown -R selfplay:selfplay /data

COPY --from=packages --chown=selfplay:selfplay /app/.venv /app/.venv
COPY --chown=selfplay:selfplay pyproject.toml setup.py README.md LICENSE Makefile /app/
COPY --chown=selfplay:selfplay requirements/ /app/requirements/
COPY --chown=selfplay:selfplay scripts/ /app/scripts/
COPY --chown=selfplay:selfplay docker/ /app/docker/
COPY --chown=selfplay:selfplay conf/ /app/conf/
COPY --chown=selfplay:selfplay selfplay/ /app/selfplay/

# Runs go to /data/outputs, built and warmed-up models to /data/cache: volumes, or they end with the container.
ENV PATH=/app/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SELFPLAY_CACHE_DIR=/data/cache \
    HF_HOME=/data/cache/huggingface

USER $UID
WORKDIR /data

# What this build's machine gives the sandbox, with the flags of `docker run` that give the rest. It fails only where
# the image itself lacks something.
RUN python /app/docker/check_image.py cluster=cpu

ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "selfplay.train", "--help"]
