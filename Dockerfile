# Palinurus from its wheel: `docker build -t palinurus .`, then see docs/install.md.
# The first stage builds the wheel with the web page (Node comes from the package index), the second only installs it.
FROM python:3.11 AS build
WORKDIR /source
COPY . .
RUN python -m pip install --disable-pip-version-check -c constraints.txt markdown-it-py pygments \
 && python web/build.py && python web/docs.py && python -m pip wheel --disable-pip-version-check --no-deps --wheel-dir dist .

FROM python:3.11-slim
# What `pal extras` lists; more of them later need a new image: --build-arg EXTRAS="slack pdf"
ARG EXTRAS=""
COPY --from=build /source/dist/*.whl /source/constraints.txt /tmp/
RUN python -m venv /opt/palinurus \
 && /opt/palinurus/bin/pip install --no-cache-dir --disable-pip-version-check -c /tmp/constraints.txt /tmp/*.whl \
 && if [ -n "$EXTRAS" ]; then PIP_NO_CACHE_DIR=1 /opt/palinurus/bin/pal extras add $EXTRAS; fi \
 && rm /tmp/*.whl /tmp/constraints.txt \
 && useradd --uid 1000 --create-home palinurus \
 && install -d -m 700 -o palinurus -g palinurus /home/palinurus/.palinurus
USER palinurus
ENV PATH=/opt/palinurus/bin:$PATH PALINURUS_HOME=/home/palinurus/.palinurus PYTHONUNBUFFERED=1
WORKDIR /home/palinurus
VOLUME /home/palinurus/.palinurus
EXPOSE 18789
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s CMD pal status >/dev/null || exit 1
# Inside a container 127.0.0.1 is the container: it listens on all of its addresses, behind the token.
CMD ["pal", "gateway", "--bind", "0.0.0.0"]
