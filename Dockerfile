# SPDX-License-Identifier: MIT
# The registry alone: pure Python, no engine, no compiler. See docker-compose.yml.
FROM python:3.11-slim-bookworm
COPY requirements/serving.lock /opt/ccatune/
RUN pip install --no-cache-dir --require-hashes -r /opt/ccatune/serving.lock
COPY ccatune.py /opt/ccatune/
COPY kmod /opt/ccatune/kmod
COPY serving /opt/ccatune/serving
RUN useradd --system --create-home --home-dir /var/lib/ccatune ccatune
USER ccatune
WORKDIR /var/lib/ccatune
ENV PYTHONPATH=/opt/ccatune PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8640
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://localhost:8640/healthz', timeout=4)"]
ENTRYPOINT ["python", "-m", "ccatune", "serve"]
