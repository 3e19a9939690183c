# Headlight on a CPU, as a public server. Build and run: see docs/hosting.md.
#   docker build --build-arg TORCH_INDEX=ADDRESS -t headlight .
FROM python:3.12.15-slim-bookworm@sha256:34386ef0cb081344d7ec1c103ba398e6e9f64e9ab3a1509accc92a4e24a07258 AS build
# Index of CPU builds of torch, see docs/training.md; without it pip takes the CUDA build.
ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY locks locks
RUN python -m venv /venv
# Only what has a hash in the lock, and nothing that would be compiled.
RUN if [ -n "$TORCH_INDEX" ]; then \
        set -- -r locks/cpu.txt --extra-index-url "$TORCH_INDEX"; \
    else \
        set -- -r locks/cuda.txt; \
    fi; \
    /venv/bin/pip install --require-hashes --only-binary :all: "$@"

FROM python:3.12.15-slim-bookworm@sha256:34386ef0cb081344d7ec1c103ba398e6e9f64e9ab3a1509accc92a4e24a07258
# For pictures: other scripts, Chinese, Japanese and Korean, symbols with emoji (in outlines). Not
# pinned: Debian drops a version as soon as it has a newer one.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install -y --no-install-recommends fonts-noto-core fonts-noto-cjk fonts-symbola && \
    rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin headlight
COPY --from=build /venv /venv
WORKDIR /app
COPY .streamlit/config.toml .streamlit/config.toml
COPY app.py ./
COPY pages pages
COPY ui ui
COPY figures figures
COPY headlight headlight
COPY transformer transformer
COPY checkpoints checkpoints
USER 1000:1000
# Nothing is written below /app, so the root may be read-only; /tmp has to be a tmpfs then. For its
# greeting, Streamlit would ask the internet for this machine's address.
ENV HEADLIGHT_PUBLIC=1 \
    STREAMLIT_LOGGER_HIDE_WELCOME_MESSAGE=true \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    PATH=/venv/bin:$PATH
EXPOSE 8501
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-c", \
    "import urllib.request as r; r.urlopen('http://127.0.0.1:8501/_headlight/ready', timeout=4)"]
# Its names follow: docker run headlight --server.allowedHosts headlight.example.org
ENTRYPOINT ["streamlit", "run", "app.py", "--server.headless=true", "--server.port=8501"]
CMD ["--server.allowedHosts", "localhost"]
