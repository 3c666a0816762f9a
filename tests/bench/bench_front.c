/* SPDX-License-Identifier: Apache-2.0 */

/* How many records a second the front passes on: four synthetic agents, written straight against
 * the wire protocol, to one client. The agents send records of three metrics, whose indices grow as
 * the library demands, so packing is measured as well as the front and the sockets on both sides of
 * it. An agent's batches begin at 64 records and grow to 1,024.
 *
 *	bench_front [SECONDS]
 *
 * "counted": the client counts records by their frames' heads. "decoded": it is libgpuctr, which
 * makes a record of each. */

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuctr/gpuctr.h>

#include "proto/wire/limits.h"
#include "proto/wire/wire.h"
#include "tests/bench/daemon.h"
#include "tests/system/sample.h"

enum { AGENTS = 4 };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* --- sockets --- */

static int dial(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		die(path);
	}
	return fd;
}

static void send_all(int fd, const uint8_t *data, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, data, n, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR) {
			_exit(0); /* the daemon has stopped us: the measurement is over */
		}
		data += sent > 0 ? sent : 0;
		n -= sent > 0 ? (size_t)sent : 0;
	}
}

static void send_message(int fd, const struct wire_message *m)
{
	struct buffer b = { 0 };
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	if (wire_encode(&a, &b, m) < 0) {
		die("wire_encode");
	}
	send_all(fd, b.data + b.start, buffer_length(&b));
	arena_deinit(&a);
	buffer_deinit(&b);
}

/* The next whole frame in in; its payload lives until the next call. False: the end. */
static bool next_frame(int fd, struct buffer *in, struct frame *ret)
{
	static size_t used;

	buffer_consume(in, used);
	used = 0;
	while (frame_parse(in->data + in->start, buffer_length(in), ret) != 0) {
		if (buffer_receive(in, fd, 256 * 1024, 0) < 0) {
			return false;
		}
	}
	used = FRAME_HEADER_BYTES + ret->size;
	return true;
}

static struct wire_message receive(int fd, struct buffer *in, struct arena *a, enum wire_type type)
{
	struct wire_message m;
	struct frame f;

	do {
		arena_reset(a);
		if (!next_frame(fd, in, &f) || wire_decode(a, f.type, f.payload, f.size, &m) != 0) {
			fprintf(stderr, "no %s came\n", wire_type_to_string(type));
			exit(1);
		}
		if (m.type == WIRE_REFUSAL) {
			fprintf(stderr, "refused: %s\n", m.refusal.message);
			exit(1);
		}
	} while (m.type != type);
	return m;
}

/* --- agents --- */

static void run_agent(const char *path, const char *token, size_t batch)
{
	struct wire_message hello = { .type = WIRE_AGENT_HELLO }, m;
	struct buffer in = { 0 }, out = { 0 };
	int fd = dial(path);
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	hello.agent_hello = (struct wire_agent_hello){ PROTO_VERSION, token, "synthetic",
						       "a synthetic agent", "GH100" };
	send_message(fd, &hello);
	m = receive(fd, &in, &a, WIRE_AGENT_WELCOME);
	sample_put_definitions(&out, m.agent_welcome.capture, m.agent_welcome.process);
	send_all(fd, out.data + out.start, buffer_length(&out));
	for (uint64_t first = 0;; first += batch) {
		buffer_consume(&out, buffer_length(&out));
		sample_put_records(&out, m.agent_welcome.capture, m.agent_welcome.process, first,
				   batch, INT64_C(1760000000000000000));
		send_all(fd, out.data + out.start, buffer_length(&out));
	}
}

static void start_agents(pid_t pids[AGENTS], const char *path, const char *token, size_t batch)
{
	for (int i = 0; i < AGENTS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_agent(path, token, batch);
		}
	}
}

static void end_agents(pid_t pids[AGENTS])
{
	for (int i = 0; i < AGENTS; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

/* --- results --- */

struct result {
	double seconds, records, front_cpu;
	size_t front_peak_kib, all_kib;
};

static void begin(struct result *r, const struct bench_daemon *d)
{
	r->seconds = bench_now();
	for (int i = 0; i < BENCH_PROCESSES; i++) {
		if (strcmp(d->names[i], "front") == 0) {
			r->front_cpu = bench_cpu_seconds(d->pids[i]);
		}
	}
}

static void finish(struct result *r, const struct bench_daemon *d, double records)
{
	r->seconds = bench_now() - r->seconds;
	r->records = records;
	for (int i = 0; i < BENCH_PROCESSES; i++) {
		r->all_kib += bench_memory(d->pids[i], "Pss");
		if (strcmp(d->names[i], "front") == 0) {
			r->front_cpu = bench_cpu_seconds(d->pids[i]) - r->front_cpu;
			r->front_peak_kib = bench_memory(d->pids[i], "VmHWM");
		}
	}
}

static void report(const char *what, size_t batch, const struct result *r)
{
	printf("front, %s, batches of %4zu %12.0f records/s   front %3.0f %% of a core, peak %5.1f "
	       "MiB, daemon %5.1f MiB\n",
	       what, batch, r->records / r->seconds, 100 * r->front_cpu / r->seconds,
	       (double)r->front_peak_kib / 1024, (double)r->all_kib / 1024);
}

/* --- a client that counts --- */

static struct wire_message open_recorded(int fd, struct buffer *in, struct arena *a)
{
	struct wire_message hello = { .type = WIRE_HELLO, .hello = { PROTO_VERSION, "bench" } };
	struct wire_message open = { .type = WIRE_OPEN_CAPTURE };

	send_message(fd, &hello);
	receive(fd, in, a, WIRE_WELCOME);
	open.open_capture = (struct wire_open_capture){
		.request = 1,
		.metrics = { SAMPLE_METRICS, sample_metrics },
		.chip = "GH100",
		.recorded = true,
		.program = "bench",
	};
	send_message(fd, &open);
	return receive(fd, in, a, WIRE_READY);
}

/* Field 4 of Records, without looking further than the few bytes before its columns. */
static uint32_t count_of(const struct frame *f)
{
	const uint8_t *p = f->payload, *end = p + f->size;

	while (p < end && (*p & 7) == 0) {
		unsigned number = *p++ >> 3, shift = 0;
		uint64_t value = 0;

		do {
			value |= (uint64_t)(*p & 0x7f) << shift;
			shift += 7;
		} while (p < end && *p++ & 0x80);
		if (number == 4) {
			return (uint32_t)value;
		}
	}
	return 0;
}

static void bench_counted(const struct bench_daemon *d, double seconds, size_t batch)
{
	struct buffer in = { 0 };
	struct result r = { 0 };
	pid_t agents[AGENTS];
	double records = 0;
	struct arena a;
	struct frame f;
	int fd = dial(d->socket);

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	start_agents(agents, d->socket, open_recorded(fd, &in, &a).ready.token, batch);
	while (records == 0 && next_frame(fd, &in, &f)) {
		records += f.type == WIRE_RECORDS ? count_of(&f) : 0;
	}
	records = 0;
	begin(&r, d);
	while (bench_now() - r.seconds < seconds && next_frame(fd, &in, &f)) {
		records += f.type == WIRE_RECORDS ? count_of(&f) : 0;
	}
	finish(&r, d, records);
	end_agents(agents);
	close(fd);
	report("counted", batch, &r);
	buffer_deinit(&in);
	arena_deinit(&a);
}

/* --- a client of the library --- */

struct decoding {
	struct gpuctr_capture *capture;
	bool ready;
	double records;
};

static void on_ready(struct gpuctr_capture *c, void *userdata)
{
	(void)c;
	((struct decoding *)userdata)->ready = true;
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *record, void *userdata)
{
	(void)c;
	((struct decoding *)userdata)->records += record->values[0] > 0;
}

static const char *token_of(struct gpuctr_capture *c)
{
	const char *const *environment = gpuctr_capture_environment(c, TEST_AGENT);

	for (; environment && *environment; environment++) {
		if (strncmp(*environment, "GPUCTR_TOKEN=", 13) == 0) {
			return *environment + 13;
		}
	}
	fprintf(stderr, "the capture has no token\n");
	exit(1);
}

static void bench_decoded(const struct bench_daemon *d, double seconds, size_t batch)
{
	static const struct gpuctr_capture_handler handler = {
		.size = sizeof(handler),
		.on_ready = on_ready,
		.on_record = on_record,
	};
	struct gpuctr_capture_options o = GPUCTR_INIT(gpuctr_capture_options);
	struct decoding client = { .capture = NULL };
	struct result r = { 0 };
	pid_t agents[AGENTS];
	struct gpuctr *g;

	o.metrics = sample_metrics;
	o.n_metrics = SAMPLE_METRICS;
	o.chip = "GH100";
	o.recorded = true;
	o.program = "bench";
	if (gpuctr_connect(d->socket, "bench", &g) != 0 ||
	    gpuctr_capture_open(g, &o, &handler, &client, &client.capture) != 0) {
		fprintf(stderr, "%s\n", gpuctr_last_error(g)->message);
		exit(1);
	}
	while (!client.ready && gpuctr_dispatch(g, 1000) == 0) {
	}
	start_agents(agents, d->socket, token_of(client.capture), batch);
	while (client.records == 0 && gpuctr_dispatch(g, 1000) == 0) {
	}
	client.records = 0;
	begin(&r, d);
	while (bench_now() - r.seconds < seconds && gpuctr_dispatch(g, 1000) == 0) {
	}
	finish(&r, d, client.records);
	if (client.records < 10.0 * (double)batch) {
		fprintf(stderr, "the library took no more records\n");
		exit(1);
	}
	end_agents(agents);
	gpuctr_disconnect(g);
	report("decoded", batch, &r);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 3;
	struct bench_daemon d;

	bench_daemon_start(&d, true);
	for (size_t batch = 64; batch <= SAMPLE_RECORDS_MAX; batch *= 16) {
		bench_counted(&d, seconds, batch);
		bench_decoded(&d, seconds, batch);
	}
	bench_daemon_stop(&d);
	return 0;
}
