/* Connections: how many, from where, and for how long without a whole request.
 *
 * The library's time-out measures inactivity only, so that a slow sender would hold a connection for
 * ever; and at its connection limit further clients hang without an answer. Both are decided here:
 * a sweep closes what has taken too long, and at our limits, of all and of one address, the oldest
 * connection without a complete request makes room. Closing is shutdown(2): the library notices and cleans up. */
#include "server/http_priv.h"

#include <stdlib.h>
#include <string.h>

static bool address_of(const struct sockaddr *from, struct in6_addr *to)
{
    memset(to, 0, sizeof *to);
    if (from && from->sa_family == AF_INET6) {
        *to = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
        return true;
    }
    if (from && from->sa_family == AF_INET) {
        to->s6_addr[10] = to->s6_addr[11] = 0xff;
        memcpy(&to->s6_addr[12], &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
        return true;
    }
    return false;
}

static void doom(struct mg_peer *peer, enum mg_metric cause)
{
    peer->doomed = true;
    shutdown(peer->fd, SHUT_RDWR);
    mg_metric_add(&peer->http->metrics, cause, 1);
}

static bool is_incomplete(const struct mg_peer *peer)
{
    return !peer->doomed && (!peer->request || peer->request->phase < MG_PHASE_HANDLING);
}

/* Who asks for nothing goes before who sends a body. */
static bool goes_before(const struct mg_peer *a, const struct mg_peer *b)
{
    bool sends_a = a->request && a->request->phase == MG_PHASE_BODY;
    bool sends_b = b->request && b->request->phase == MG_PHASE_BODY;
    return sends_a != sends_b ? sends_b : a->since < b->since;
}

/* Of those from this address, or of all, where there are `most` of them: closes the oldest without a complete request.
 * False: there is none. */
static bool make_room(struct mg_http *http, const struct in6_addr *address, uint32_t most, enum mg_metric cause)
{
    uint32_t alive = 0;
    struct mg_peer *victim = NULL;
    for (struct mg_peer *peer = http->peers; peer; peer = peer->next) {
        if (peer->doomed || (address && !(peer->has_address && !memcmp(&peer->address, address, sizeof *address))))
            continue;
        alive++;
        if (is_incomplete(peer) && (!victim || goes_before(peer, victim)))
            victim = peer;
    }
    if (alive >= most && victim)
        doom(victim, cause);
    return alive < most || victim;
}

enum MHD_Result mg_peer_admit(void *context, const struct sockaddr *address, socklen_t size)
{
    struct mg_http *http = context;
    struct in6_addr key;
    (void)size;
    /* behind a proxy all connections come from one address, which says nothing */
    if (http->config.trusted_proxy || !address_of(address, &key))
        return MHD_YES;
    if (make_room(http, &key, http->config.limits.per_address, MG_METRIC_HTTP_REFUSED_ADDRESS))
        return MHD_YES;
    mg_metric_add(&http->metrics, MG_METRIC_HTTP_REFUSED_ADDRESS, 1);
    return MHD_NO;
}

static void add_peer(struct mg_http *http, struct MHD_Connection *connection, void **slot)
{
    struct mg_peer *peer = mg_must(calloc(1, sizeof *peer));
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    peer->http = http;
    peer->fd = info ? info->connect_fd : -1;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    peer->has_address = info && address_of(info->client_addr, &peer->address);
    peer->since = uv_now(http->config.loop);
    peer->prev = http->last_peer;
    if (peer->prev)
        peer->prev->next = peer;
    else
        http->peers = peer;
    http->last_peer = peer;
    http->peer_count++;
    *slot = peer;
    make_room(http, NULL, http->config.limits.connections + 1, MG_METRIC_HTTP_REFUSED_LIMIT);
}

static void remove_peer(struct mg_http *http, void **slot)
{
    struct mg_peer *peer = *slot;
    if (!peer)
        return;
    void *left = peer->request; /* of one whose parameters take too much room the library tells no end */
    if (left)
        mg_request_completed(http, NULL, &left, MHD_REQUEST_TERMINATED_WITH_ERROR);
    if (peer->prev)
        peer->prev->next = peer->next;
    else
        http->peers = peer->next;
    if (peer->next)
        peer->next->prev = peer->prev;
    else
        http->last_peer = peer->prev;
    http->peer_count--;
    free(peer);
    *slot = NULL;
    if (!http->stopping)
        mg_http_wake(http); /* the listening socket may have to come back */
}

void mg_peer_notify(void *context, struct MHD_Connection *connection, void **slot,
                    enum MHD_ConnectionNotificationCode code)
{
    struct mg_http *http = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        add_peer(http, connection, slot);
    else
        remove_peer(http, slot);
    mg_metric_set(&http->metrics, MG_METRIC_HTTP_CONNECTIONS, http->peer_count);
}

/* Ms that this connection may stay as it is; UINT64_MAX = as long as it likes. */
static uint64_t patience(const struct mg_peer *peer)
{
    const struct mg_http_limits *limits = &peer->http->config.limits;
    const struct mg_request *req = peer->request;
    if (!req || req->phase == MG_PHASE_HEADERS)
        return 2000ull * limits->idle_s; /* idle ones end earlier; this is for headers sent drop by drop */
    if (req->phase == MG_PHASE_HANDLING || req->is_stream)
        return UINT64_MAX;
    return 1000ull * limits->request_s;
}

void mg_peer_sweep(struct mg_http *http)
{
    uint64_t now = uv_now(http->config.loop);
    for (struct mg_peer *peer = http->peers; peer; peer = peer->next) {
        uint64_t allowed = patience(peer);
        if (!peer->doomed && allowed != UINT64_MAX && now - peer->since > allowed)
            doom(peer, MG_METRIC_HTTP_REFUSED_SLOW);
    }
}
