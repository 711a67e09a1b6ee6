# SPDX-License-Identifier: MIT
# server    the registry and the commands of its operators: pure Python, no engine, no compiler
# trainer   the same, the engine and Ray, for runners, the nodes of a Ray cluster, and the agent on a stand-in
#
# The scripts of the dashboard come from `make serving/dashboard/static/vendor/.ready`, which needs npm.
# Where a build has no network:
#   python -m pip download --no-deps --require-hashes -r requirements/trainer.lock -d build/wheels
#   docker compose build --build-arg PIP_NO_INDEX=1
FROM python:3.11.13-bookworm AS server-packages
ARG PIP_NO_INDEX
ENV PIP_FIND_LINKS=/wheels PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/ccatune/venv
COPY requirements/serving.lock build/wheel[s] /wheels/
RUN /opt/ccatune/venv/bin/pip install --require-hashes -r /wheels/serving.lock

FROM python:3.11.13-slim-bookworm AS base
RUN useradd --system --uid 10001 --user-group --create-home --home-dir /var/lib/ccatune ccatune
ENV PATH=/opt/ccatune/venv/bin:$PATH PYTHONPATH=/opt/ccatune PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/ccatune
ENTRYPOINT ["python", "-m", "ccatune"]

FROM base AS server
COPY --from=server-packages /opt/ccatune/venv /opt/ccatune/venv
COPY ccatune.py /opt/ccatune/
COPY kmod /opt/ccatune/kmod
COPY serving /opt/ccatune/serving
RUN python -m compileall -q -x venv /opt/ccatune
USER ccatune

FROM python:3.11.13-bookworm AS trainer-packages
ARG PIP_NO_INDEX
ENV PIP_FIND_LINKS=/wheels PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/ccatune/venv/bin:$PATH
RUN python3 -m venv /opt/ccatune/venv
COPY requirements/trainer.lock build/wheel[s] /wheels/
RUN pip install --require-hashes -r /wheels/trainer.lock
WORKDIR /opt/ccatune
COPY CMakeLists.txt ./
COPY kmod/core kmod/core
COPY emulation/cpp emulation/cpp
COPY emulation/mahimahi/shell emulation/mahimahi/shell
RUN cmake -S . -B /build -G Ninja -DCCATUNE_IN_SOURCE=ON -DPython_EXECUTABLE=/opt/ccatune/venv/bin/python \
	&& cmake --build /build
COPY pyproject.toml README.md LICENSE ./
COPY LICENSES LICENSES
# Nodes of a cluster compare the version of the package, which is found beside its folders.
RUN python -c "from scikit_build_core.build import prepare_metadata_for_build_wheel as p; p('metadata')"

FROM base AS trainer
COPY --from=trainer-packages /opt/ccatune/venv /opt/ccatune/venv
COPY --from=trainer-packages /opt/ccatune/metadata /opt/ccatune
COPY ccatune.py /opt/ccatune/
COPY configs /opt/ccatune/configs
COPY kmod /opt/ccatune/kmod
COPY emulation /opt/ccatune/emulation
COPY training /opt/ccatune/training
COPY serving /opt/ccatune/serving
COPY --from=trainer-packages /opt/ccatune/emulation/_engine.* /opt/ccatune/emulation/
RUN python -m compileall -q -x venv /opt/ccatune
USER ccatune
