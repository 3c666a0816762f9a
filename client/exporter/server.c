/* SPDX-License-Identifier: Apache-2.0 */
#include "client/exporter/server.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"

/* libmicrohttpd reads, checks and writes; its loop is here, and limits that it does not have. Its
 * timeout starts again with every byte, so a client that sends one now and then would stay for
 * ever: each connection therefore has a deadline here. How many one user or address has is counted
 * here too, since the library knows no users and refuses whom it should serve: an address that
 * holds as many connections as it may. A connection that is to end is shut down; the library
 * notices and closes it. One that is answered it closes by itself, because we answer before it has
 * looked for more of the request. */

enum { NS_PER_S = 1000000000 };

static const char index_text[] = "gpuctr-exporter: the metrics are at /metrics\n";

/* --- answers --- */

static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *type,
			      const char *text, size_t n)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(n, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!r) {
		return MHD_NO;
	}
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	}
	result = MHD_queue_response(c, code, r);
	MHD_destroy_response(r);
	return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *c, unsigned code, const char *text)
{
	return answer(c, code, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result answer_metrics(struct server *s, struct MHD_Connection *c)
{
	enum metrics_syntax syntax = metrics_choose(
		MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
	const struct buf *text = &s->scrape->text[syntax];

	scrape_refresh(s->scrape);
	if (text->failed) {
		return answer_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	}
	return answer(c, MHD_HTTP_OK, metrics_content_type(syntax), text->data, text->n);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *n_data, void **request)
{
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		return answer_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
	}
	if (strcmp(url, "/metrics") == 0) {
		return answer_metrics(cls, c);
	}
	if (strcmp(url, "/") == 0) {
		return answer_text(c, MHD_HTTP_OK, index_text);
	}
	return answer_text(c, MHD_HTTP_NOT_FOUND, "not found; the metrics are at /metrics\n");
}

/* --- connections --- */

/* By what the kernel says. */
static void read_peer(struct server_client *client)
{
	struct ucred u;
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage room;
	} a = { 0 };
	socklen_t size = sizeof(a);

	if (getpeername(client->fd, &a.any, &size) < 0) {
		return;
	}
	size = sizeof(u);
	if (a.any.sa_family == AF_INET) {
		memcpy(&client->address, &a.v4.sin_addr, sizeof(a.v4.sin_addr));
	} else if (a.any.sa_family == AF_INET6) {
		client->address = a.v6.sin6_addr;
	} else if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &u, &size) == 0) {
		client->has_uid = true;
		client->uid = u.uid;
	}
}

static bool is_of_same(const struct server_client *a, const struct server_client *b)
{
	return a->daemon == b->daemon && a->has_uid == b->has_uid &&
	       (a->has_uid ? a->uid == b->uid
			   : memcmp(&a->address, &b->address, sizeof(a->address)) == 0);
}

static void cut(struct server_client *client)
{
	client->cut = true;
	shutdown(client->fd, SHUT_RDWR);
}

/* Counts those at the socket of client, or of its peer alone, and finds the oldest of them; not
 * client itself. */
static size_t count_beside(struct server *s, const struct server_client *client, bool of_same,
			   struct server_client **ret_oldest)
{
	size_t n = 0;

	*ret_oldest = NULL;
	for (size_t i = 0; i < sizeof(s->clients) / sizeof(s->clients[0]); i++) {
		struct server_client *c = &s->clients[i];

		if (!c->used || c->cut || c == client || c->daemon != client->daemon ||
		    (of_same && !is_of_same(c, client))) {
			continue;
		}
		n++;
		*ret_oldest =
			*ret_oldest && (*ret_oldest)->since_ns <= c->since_ns ? *ret_oldest : c;
	}
	return n;
}

static struct server_client *take_client(struct server *s)
{
	for (size_t i = 0; i < sizeof(s->clients) / sizeof(s->clients[0]); i++) {
		if (!s->clients[i].used) {
			s->clients[i] =
				(struct server_client){ .used = true, .since_ns = clock_now_ns() };
			return &s->clients[i];
		}
	}
	return NULL;
}

static void begin_client(struct server *s, struct MHD_Connection *c, void **ret)
{
	int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	struct server_client *client = take_client(s), *oldest;

	*ret = client;
	if (!client) {
		shutdown(fd, SHUT_RDWR);
		return;
	}
	client->fd = fd;
	client->daemon = MHD_get_connection_info(c, MHD_CONNECTION_INFO_DAEMON)->daemon;
	read_peer(client);
	if (count_beside(s, client, true, &oldest) >= SERVER_CONNECTIONS_OF_ONE) {
		cut(client->has_uid ? client : oldest);
	}
	if (count_beside(s, client, false, &oldest) >= SERVER_CONNECTIONS) {
		cut(oldest);
	}
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct server_client *client = *context;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		begin_client(cls, c, context);
	} else if (client) {
		client->used = false;
	}
}

/* Shuts down connections whose time is over. True: some connections are left. */
static bool cut_slow(struct server *s)
{
	uint64_t now = clock_now_ns();
	bool any = false;

	for (size_t i = 0; i < sizeof(s->clients) / sizeof(s->clients[0]); i++) {
		struct server_client *client = &s->clients[i];

		if (!client->used) {
			continue;
		}
		any = true;
		if (now - client->since_ns > (uint64_t)SERVER_PATIENCE_S * NS_PER_S) {
			shutdown(client->fd, SHUT_RDWR);
		}
	}
	return any;
}

/* --- loop --- */

int server_add(struct server *s, int fd)
{
	struct MHD_Daemon *d = NULL;

	if (s->n < SERVER_SOCKETS) {
		d = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, s,
				     MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_STRICT_FOR_CLIENT, 1,
				     MHD_OPTION_CONNECTION_LIMIT,
				     (unsigned)(SERVER_CONNECTIONS + SERVER_CONNECTIONS_ENDING),
				     MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVER_PATIENCE_S,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				     (size_t)SERVER_MEMORY_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
				     on_connection, s, MHD_OPTION_END);
	}
	if (!d) {
		fprintf(stderr, "gpuctr-exporter: a socket cannot be served (at most %d are)\n",
			(int)SERVER_SOCKETS);
		close(fd);
		return -1;
	}
	s->daemons[s->n++] = d;
	return 0;
}

static int wait_ms(const struct server *s, bool has_clients)
{
	int ms = has_clients ? 1000 : -1;

	for (size_t i = 0; i < s->n; i++) {
		MHD_UNSIGNED_LONG_LONG wait_ms;

		if (MHD_get_timeout(s->daemons[i], &wait_ms) == MHD_YES &&
		    (ms < 0 || wait_ms < (unsigned)ms)) {
			ms = wait_ms < 1000 ? (int)wait_ms : 1000;
		}
	}
	return ms;
}

void server_run(struct server *s, int signals)
{
	struct pollfd fds[SERVER_SOCKETS + 1] = { { signals, POLLIN, 0 } };
	bool has_clients = false;

	for (size_t i = 0; i < s->n; i++) {
		fds[i + 1] = (struct pollfd){
			MHD_get_daemon_info(s->daemons[i], MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
			POLLIN, 0
		};
	}
	for (;;) {
		poll(fds, s->n + 1, wait_ms(s, has_clients));
		if (fds[0].revents != 0) {
			return;
		}
		for (size_t i = 0; i < s->n; i++) {
			MHD_run(s->daemons[i]);
		}
		has_clients = cut_slow(s);
	}
}

void server_stop(struct server *s)
{
	while (s->n > 0) {
		MHD_stop_daemon(s->daemons[--s->n]);
	}
}
