# Build: docker build -t stationmaster .
# Run:   docker run --read-only --tmpfs /tmp -p 9443:9443 -v ./examples/cluster:/cluster:ro stationmaster \
#          serve --from /cluster --listen 0.0.0.0:9443 --health-listen 0.0.0.0:8081

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY webhook ./webhook
COPY policies ./policies
COPY plugins ./plugins
COPY certs ./certs
COPY deploy/kustomize ./deploy/kustomize
COPY scripts/build_image_root.py ./scripts/
RUN python scripts/build_image_root.py --out /app

FROM python:3.13-slim
# The short package names (webhook, plugins, ...) must never be looked up in a working directory.
ENV PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PATH=/app/bin:$PATH
COPY --from=build /app /app
# A number, since Kubernetes checks runAsNonRoot without reading /etc/passwd.
USER 65532:65532
EXPOSE 9443 8081
# The exec form: the process is PID 1 and gets SIGTERM itself, and no shell is needed.
ENTRYPOINT ["/app/bin/stationmaster"]
CMD ["--help"]
