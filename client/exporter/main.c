/* SPDX-License-Identifier: Apache-2.0 */

/* gpuctr-exporter: the state and the counts of gpucountd for a monitoring system, by HTTP. It is an
 * ordinary client of the daemon, run by a user whom the settings name as a monitor: it holds no
 * capability, opens no socket but to the daemon, and asks for nothing but the status. A separate
 * thread asks for the status, and a scrape waits one second for the answer, because
 * gpuctr_connect() takes five seconds if the daemon does not accept.
 *
 * libmicrohttpd serves each socket that systemd passes, in a thread of its own. It would refuse a
 * new client rather than end an unused connection. So on_connection() shuts a connection down when
 * CONNECTIONS newer ones have come; the library notices that, and closes it. */

#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "client/exporter/metrics.h"
#include "proto/base/clock.h"
#include "proto/base/standard.h"

enum { SOCKETS = 4, CONNECTIONS = 64, HEAD_BYTES = 16 * 1024, IDLE_S = 10, EXIT_WRONG = 2 };
enum { PATIENCE_S = 1, KEEP_S = 1, KEEP_FAILURE_S = 5 }; /* to wait for, and to keep answers */

static const struct gpuctr_error late = { GPUCTR_E_NO_DAEMON, "gpucountd does not answer",
					  "See `systemctl status gpucountd`." };

/* The daemon's last answer. */
static struct told {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool is_asked;	    /* a thread waits for the daemon's answer */
	struct buf text[2]; /* text/plain, OpenMetrics */
	uint64_t until_ns;  /* text is current until then; 0: there is no answer yet */
	uint64_t began_ns;  /* when the daemon's counts began, in Unix time */
	int said;	    /* the error that was logged last, not to be logged again */
} told = { .lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER };

/* Makes the texts. Begins vary with the time of answers; only a difference of seconds counts. */
static void tell(struct told *t, const struct gpuctr_status *status,
		 const struct gpuctr_error *error)
{
	static const struct gpuctr_error hidden = { GPUCTR_E_NOT_ALLOWED,
						    "this user is not told what gpucountd counts",
						    "Name it in monitor-users of gpucountd.conf." };
	uint64_t began_ns = status ? clock_wall_ns() - status->uptime_ns : t->began_ns;

	if (status ? !status->counts : error->code == GPUCTR_E_NOT_ALLOWED) {
		error = &hidden;
	}
	if (error && error->code != t->said) {
		fprintf(stderr, "gpuctr-exporter: error[%s]: %s. %s\n",
			gpuctr_error_name(error->code), error->message, error->remedy);
	}
	t->said = error ? error->code : GPUCTR_OK;
	if (began_ns - t->began_ns + 2 * CLOCK_NS_PER_S > 4 * CLOCK_NS_PER_S) {
		t->began_ns = began_ns;
	}
	for (int i = 0; i < 2; i++) {
		buf_clear(&t->text[i]);
		metrics_write(&t->text[i], i, status, t->began_ns, t->said);
	}
	t->until_ns = clock_now_ns() + (status ? KEEP_S : KEEP_FAILURE_S) * CLOCK_NS_PER_S;
}

static void on_status(const struct gpuctr_status *status, const struct gpuctr_error *error,
		      void *userdata)
{
	pthread_mutex_lock(&told.lock);
	tell(&told, status, error);
	told.is_asked = false;
	pthread_cond_broadcast(&told.answered);
	pthread_mutex_unlock(&told.lock);
	*(bool *)userdata = true;
}

/* Asks over a new connection, because the daemon may be replaced between two requests. */
static void *ask(void *unused)
{
	struct gpuctr *g;
	int r = gpuctr_connect(NULL, "gpuctr-exporter", &g);
	uint64_t by_ns = clock_now_ns() + PATIENCE_S * CLOCK_NS_PER_S, now_ns;
	bool answered = false;

	r = r == 0 ? gpuctr_get_status(g, on_status, &answered) : r;
	while (r == 0 && !answered && (now_ns = clock_now_ns()) < by_ns) {
		r = gpuctr_dispatch(g, (int)((by_ns - now_ns) / CLOCK_NS_PER_MS) + 1);
	}
	if (!answered) {
		on_status(NULL, r == 0 || !g ? &late : gpuctr_last_error(g), &answered);
	}
	gpuctr_disconnect(g);
	return unused;
}

/* Waits until the text is current, for PATIENCE_S at most. */
static void renew(struct told *t)
{
	struct timespec until;
	pthread_t asker;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (clock_now_ns() >= t->until_ns && !t->is_asked) {
		t->is_asked =
			pthread_create(&asker, NULL, ask, NULL) == 0 && pthread_detach(asker) == 0;
	}
	while (clock_now_ns() >= t->until_ns) {
		if (pthread_cond_timedwait(&t->answered, &t->lock, &until) != 0) {
			tell(t, NULL, &late);
		}
	}
}

/* Closes the connection after the answer, so that no idle connection takes the place of another. */
static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, bool open, const char *text)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(
		strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!r) {
		return MHD_NO;
	}
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE,
				open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				     : "text/plain; version=0.0.4; charset=utf-8");
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(c, code, r);
	MHD_destroy_response(r);
	return result;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *n_data, void **request)
{
	const char *accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Accept");
	bool open = accept && strcasestr(accept, "application/openmetrics-text");
	bool is_get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
	enum MHD_Result result;

	if (!is_get || strcmp(url, "/metrics") != 0) {
		return answer(c, is_get ? MHD_HTTP_NOT_FOUND : MHD_HTTP_METHOD_NOT_ALLOWED, false,
			      "the metrics are at /metrics, for GET and HEAD\n");
	}
	pthread_mutex_lock(&told.lock);
	renew(&told);
	result = told.text[open].failed
			 ? MHD_NO
			 : answer(c, MHD_HTTP_OK, open, buf_string(&told.text[open]));
	pthread_mutex_unlock(&told.lock);
	return result;
}

/* The newest connections at a socket: their descriptors, or -1 when they have ended. */
struct newest {
	int fds[CONNECTIONS];
	size_t n; /* connections that have come */
};

static void on_connection(void *cls, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	struct newest *newest = cls;
	int *place = *context;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = place = &newest->fds[newest->n++ % CONNECTIONS];
		shutdown(*place, SHUT_RDWR);
		*place = fd;
	} else if (*place == fd) {
		*place = -1;
	}
}

/* Without MHD_USE_ITC, stopping would also shut the socket down for the next process. */
static struct MHD_Daemon *serve(int socket, struct newest *newest)
{
	memset(newest->fds, -1, sizeof(newest->fds));
	return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL,
				on_request, NULL, MHD_OPTION_LISTEN_SOCKET, socket,
				MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_LIMIT,
				2U * CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
				MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES,
				MHD_OPTION_NOTIFY_CONNECTION, on_connection, newest,
				MHD_OPTION_END);
}

static int print(const char *option)
{
	bool version = strcmp(option, "--version") == 0 || strcmp(option, "-V") == 0;
	bool help = strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0;

	fputs(version ? "gpuctr-exporter " GPUCTR_VERSION "\n"
		      : "Usage: gpuctr-exporter [--socket PATH]; see gpuctr-exporter(8)\n",
	      version || help ? stdout : stderr);
	return version || help ? 0 : EXIT_WRONG;
}

int main(int argc, char **argv)
{
	static struct newest newest[SOCKETS];
	struct MHD_Daemon *http[SOCKETS];
	int n = 0, given, signal;
	sigset_t ends;

	standard_hold();
	if (argc == 3 && (strcmp(argv[1], "--socket") == 0 || strcmp(argv[1], "-s") == 0)) {
		setenv("GPUCTR_SOCKET", argv[2], 1);
	} else if (argc > 1) {
		return print(argv[1]);
	}
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL); /* threads inherit the mask */
	given = sd_listen_fds(1);
	while (n < given && n < SOCKETS && (http[n] = serve(SD_LISTEN_FDS_START + n, &newest[n]))) {
		n++;
	}
	if (n == 0 || n < given) {
		fprintf(stderr, "gpuctr-exporter: systemd passed %d sockets, %d work\n", given, n);
		return 1;
	}
	sd_notify(0, "READY=1");
	sigwait(&ends, &signal);
	while (n > 0) {
		MHD_stop_daemon(http[--n]);
	}
	return 0;
}
