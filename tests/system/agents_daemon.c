/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/agents_daemon.h"

#include <endian.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/array.h"
#include "proto/wire/limits.h"

/* A thread takes connections and looks at the type of their first message. */

static int first_type(int socket)
{
	uint8_t header[FRAME_HEADER_BYTES];
	uint16_t type;

	if (recv(socket, header, sizeof(header), MSG_PEEK | MSG_WAITALL) !=
	    (ssize_t)sizeof(header)) {
		return -1;
	}
	memcpy(&type, header + 4, sizeof(type));
	return le16toh(type);
}

static void *watch_door(void *argument)
{
	struct agents_daemon *d = argument;
	int fd;

	while ((fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		int type = first_type(fd);

		atomic_fetch_add(&d->n_questions, type == WIRE_PERMISSION_REQUEST);
		if (type != WIRE_AGENT_HELLO ||
		    write(d->arrivals[1], &fd, sizeof(fd)) != (ssize_t)sizeof(fd)) {
			close(fd);
		}
	}
	return NULL;
}

void agents_daemon_open(struct agents_daemon *d, struct fixture *f)
{
	*d = (struct agents_daemon){ .listener = fixture_open_socket(f) };
	assert_int_equal(chmod(f->socket, 0666), 0);
	arena_init(&d->arena, LIMIT_UNPACKED_BYTES);
	arena_init(&d->plan, LIMIT_UNPACKED_BYTES);
	assert_int_equal(pipe(d->arrivals), 0);
	assert_int_equal(pthread_create(&d->door, NULL, watch_door, d), 0);
}

void agents_daemon_close(struct agents_daemon *d)
{
	shutdown(d->listener, SHUT_RDWR);
	pthread_join(d->door, NULL);
	close(d->listener);
	close(d->arrivals[0]);
	close(d->arrivals[1]);
	if (d->decoder) {
		decoder_free(d->decoder);
	}
	free(d->taken);
	arena_deinit(&d->arena);
	arena_deinit(&d->plan);
}

int agents_daemon_register(struct agents_daemon *d, struct wire_agent_hello *ret_hello)
{
	struct pollfd p = { d->arrivals[0], POLLIN, 0 };
	struct wire_message m, answer = { .type = WIRE_AGENT_REGISTERED };
	int fd;

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	assert_int_equal(read(d->arrivals[0], &fd, sizeof(fd)), sizeof(fd));
	m = raw_receive(fd, &d->arena);
	assert_int_equal(m.type, WIRE_AGENT_HELLO);
	if (ret_hello) {
		*ret_hello = m.agent_hello;
	}
	answer.agent_registered = (struct wire_agent_registered){ PROTO_VERSION, 7 };
	assert_true(raw_send(fd, &answer, -1));
	return fd;
}

/* --- a capture --- */

/* Of the fake driver's first GPU. */
static const char *uuid(void)
{
	static char text[48];
	size_t n = (size_t)snprintf(text, sizeof(text), "GPU-");

	for (unsigned i = 0; i < 16; i++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%02x",
				      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				      0xfa ^ (i * 17 & 0xff));
	}
	return text;
}

void agents_daemon_begin(struct agents_daemon *d, int agent, uint32_t capture, const char *metric)
{
	static const uint32_t first[] = { 0 };
	static const double one[] = { 1 };
	const char *metrics[] = { metric }, *gpus[] = { uuid() };
	const struct wire_column column = { metric, "", { 1, first }, { 1, one }, 0 };
	struct wire_message m = { .type = WIRE_AGENT_WELCOME };

	m.agent_welcome = (struct wire_agent_welcome){
		.version = PROTO_VERSION,
		.capture = capture,
		.process = 1,
		.plan = { .chip = "GH100",
			  .metrics = { 1, metrics },
			  .columns = { 1, &column },
			  .passes = 1,
			  .groups = 1 },
		.selection = { .kernel_regex = d->kernel_regex },
		.gpus = { 1, gpus },
		.token = "0123456789abcdef0123456789abcdef",
	};
	if (d->decoder) {
		decoder_free(d->decoder);
	}
	decoder_memory_init(&d->memory);
	d->decoder = decoder_new(1, &d->memory);
	d->welcome = m.agent_welcome;
	d->n_taken = 0;
	d->notices[0] = '\0';
	assert_true(raw_send(agent, &m, -1));
}

/* "outermost/.../innermost" */
static void write_path(const struct gpuctr_site *site, const struct gpuctr_occurrence *at,
		       char *ret, size_t size)
{
	char outer[96] = "", number[24] = "";
	bool is_step = site->numbered == GPUCTR_NUMBER_STEP;

	if (site->parent) {
		write_path(site->parent, at, outer, sizeof(outer));
	}
	if (is_step) {
		snprintf(number, sizeof(number), "%lld", (long long)gpuctr_site_number(site, at));
	}
	snprintf(ret, size, "%.60s%s%.*s%s", outer, outer[0] ? "/" : "",
		 (int)strnlen(site->name, 30) - is_step, site->name, number);
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *r, void *userdata)
{
	struct agents_daemon *d = userdata;
	struct taken *t;

	assert_true(array_make_room(&d->taken, sizeof(*t), d->n_taken, &d->taken_max));
	t = &d->taken[d->n_taken++];
	*t = (struct taken){ .index = r->index, .value = r->values[0] };
	snprintf(t->kernel, sizeof(t->kernel), "%.23s", r->kernel->name);
	t->threads = r->grid[0] * r->grid[1] * r->grid[2] * r->block[0] * r->block[1] * r->block[2];
	if (r->site) {
		t->site = r->site->id;
		write_path(r->site, &r->at, t->path, sizeof(t->path));
	}
}

static const struct gpuctr_capture_handler handler = { .on_record = on_record };

/* False: it was the goodbye. */
static bool take_one(struct agents_daemon *d, int agent)
{
	struct wire_message m = raw_receive(agent, &d->arena);

	switch (m.type) {
	case WIRE_RECORDS:
		assert_int_equal(m.records.capture, d->welcome.capture);
		assert_true(decoder_feed(d->decoder, &m.records, 1, &handler, NULL, d));
		return true;
	case WIRE_NOTICE:
		snprintf(d->notices + strlen(d->notices), sizeof(d->notices) - strlen(d->notices),
			 "%u %s\n", m.notice.code, m.notice.message);
		return true;
	case WIRE_GOODBYE:
		d->totals = m.goodbye.totals;
		return false;
	default:
		assert_true(m.type == WIRE_PROCESS || m.type == WIRE_PROGRESS);
		d->started = d->started || m.type == WIRE_PROCESS;
		return true;
	}
}

/* It says what it is, and looks at launches right after. */
void agents_daemon_take_start(struct agents_daemon *d, int agent)
{
	d->started = false;
	while (!d->started) {
		assert_true(take_one(d, agent));
	}
	sleep_ms(100);
}

void agents_daemon_take(struct agents_daemon *d, int agent, size_t n)
{
	uint64_t by_ms = now_ms() + PATIENCE_MS;

	while (d->n_taken < n) {
		if (now_ms() > by_ms || !take_one(d, agent)) {
			fail_msg("%zu records of %zu came; notices: %s", d->n_taken, n, d->notices);
		}
	}
}

void agents_daemon_take_goodbye(struct agents_daemon *d, int agent)
{
	while (take_one(d, agent)) {
	}
}

void agents_daemon_end(struct agents_daemon *d, int agent)
{
	struct wire_message m = { .type = WIRE_AGENT_STOP };

	m.agent_stop = (struct wire_agent_stop){ 0, "" };
	assert_true(raw_send(agent, &m, -1));
	agents_daemon_take_goodbye(d, agent);
}
