# The image for NVIDIA GPUs:
#     docker build -f docker/gpu.Dockerfile -t selfplay:gpu .
#     docker run --rm --gpus all --shm-size 16g selfplay:gpu python -m selfplay.doctor cluster=gpu
# docs/containers.md says more, and which flags the sandbox for model-written Python needs.
#
# There is no CUDA image below it: the locked packages carry CUDA's libraries and compiler, and the driver comes from the
# machine, through NVIDIA's container toolkit.
#
# Where the registry can be reached, put the digest behind the tag (debian:12.11-slim@sha256:...): a tag can be moved.
FROM debian:12.11-slim AS packages

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# Debian's own Python is 3.11. Debian drops a version from its archive as soon as there is a newer one, so that pins
# would break the build with every security update; the base image's release is the pin.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates g++ python3.11 python3.11-dev python3.11-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app
COPY requirements/gpu.lock.txt requirements/
ENV PIP_NO_CACHE_DIR=1
RUN python3.11 -m venv .venv \
    && grep '^flash-attn==' requirements/gpu.lock.txt > flash-attn.txt \
    && grep -v '^flash-attn==' requirements/gpu.lock.txt > others.txt \
    && .venv/bin/python -m pip install --no-deps --no-input --progress-bar off -r others.txt

# flash-attn is compiled for the GPUs named here (80: A100, 90: H100 and H200), which takes hours of processor time and
# about 4 GB of memory a job. The packages have libcudart as a file with a version only, and no lib64.
ENV CUDA_HOME=/app/.venv/lib/python3.11/site-packages/nvidia/cu13
ARG FLASH_ATTN_CUDA_ARCHS="80;90"
ARG MAX_JOBS=4
ARG NVCC_THREADS=1
RUN ln -sf libcudart.so.13 "$CUDA_HOME/lib/libcudart.so" \
    && ln -sfn lib "$CUDA_HOME/lib64" \
    && export FLASH_ATTN_CUDA_ARCHS MAX_JOBS NVCC_THREADS FLASH_ATTENTION_FORCE_BUILD=TRUE \
    && export PATH="/app/.venv/bin:$CUDA_HOME/bin:$PATH" \
    && python -m pip install --no-deps --no-input wheel==0.48.0 \
    && python -m pip install --no-deps --no-input --no-build-isolation -r flash-attn.txt \
    && python -m pip uninstall -y wheel

# The project last: only what its installation reads, so that a change of the code alone compiles nothing anew.
COPY pyproject.toml setup.py README.md LICENSE ./
COPY conf/ conf/
COPY selfplay/__init__.py selfplay/
RUN .venv/bin/python -m pip install --no-deps --no-input --no-build-isolation -e .


FROM debian:12.11-slim

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# bubblewrap: the sandbox's second backend. dafny: the prover of sandbox=dafny. g++ and python3.11-dev: Triton and
# FlashInfer compile kernels while they run. tini: passes Ctrl-C on, and buries the processes that Ray leaves.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        bubblewrap ca-certificates dafny g++ libnuma1 python3.11 python3.11-dev tini \
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

# Runs go to /data/outputs, built and downloaded models to /data/cache: volumes, or they end with the container.
# NVIDIA_*: what the container toolkit brings in when it is asked for GPUs.
ENV CUDA_HOME=/app/.venv/lib/python3.11/site-packages/nvidia/cu13 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PATH=/app/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SELFPLAY_CACHE_DIR=/data/cache \
    HF_HOME=/data/cache/huggingface

USER $UID
WORKDIR /data

# What this build's machine gives the sandbox, with the flags of `docker run` that give the rest. It fails only where
# the image itself lacks something.
RUN python /app/docker/check_image.py cluster=gpu

ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "selfplay.train", "--help"]
