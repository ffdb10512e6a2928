# magisd in a container.
#
#   docker build -t magisd .
#   docker run --rm -p 127.0.0.1:8080:8080 -v magisd:/data magisd \
#       serve --listen 0.0.0.0:8080 --data /data --insecure
#
# Inside the container the daemon listens on all addresses, which it does only with a token in the
# store or with --insecure; the line above therefore publishes the port on the loopback alone.

FROM debian:12-slim AS build
WORKDIR /src
RUN apt-get update \
    && apt-get install -y --no-install-recommends make gcc libc6-dev pkg-config libmicrohttpd-dev libjansson-dev \
        libsqlite3-dev libuv1-dev zlib1g-dev libdnnl-dev \
    && rm -rf /var/lib/apt/lists/*
COPY . .
RUN make CC=gcc && make install DESTDIR=/out PREFIX=/usr

FROM debian:12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends libmicrohttpd12 libjansson4 libsqlite3-0 libuv1 zlib1g libdnnl2 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 magisd \
    && useradd --system --uid 10001 --gid magisd --home-dir /data --shell /usr/sbin/nologin magisd \
    && install -d -o magisd -g magisd -m 750 /data
COPY --from=build /out/ /
USER 10001:10001
VOLUME /data
EXPOSE 8080
# SIGTERM drains: running jobs hand over their fronts within 5 s.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/magisd"]
CMD ["serve", "--listen", "0.0.0.0:8080", "--data", "/data"]
