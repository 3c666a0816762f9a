/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/front_script.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/unit.h"

/* The box asks for an act whenever nothing is left to send or to read. What was read may have an
 * answer on its way, so the front has come to rest when nothing was heard for SETTLED acts. */

enum { SETTLED = 8, TYPES = WIRE_RECORD_COLUMNS, PASS_MS = 250, DECISIONS = 256 };

static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	bool fronts_turn, over;
	unsigned quiet; /* acts since anything was heard */
	void (*listener)(unsigned peer, const struct frame *frame);

	struct buffer heard[FRONT_BOX_PEERS][TYPES]; /* the last frame */
	unsigned counts[FRONT_BOX_PEERS][TYPES];
	struct granter_request asked[GRANTER_ANSWERS + 1];
	char decisions[DECISIONS][256];
	unsigned n_decisions, n_looks;
	struct arena arena;
} s = { .lock = PTHREAD_MUTEX_INITIALIZER, .turned = PTHREAD_COND_INITIALIZER };

/* --- whose turn it is --- */

static void hand_over(bool to_front)
{
	s.fronts_turn = to_front;
	pthread_cond_broadcast(&s.turned);
	while (s.fronts_turn == to_front) {
		pthread_cond_wait(&s.turned, &s.lock);
	}
}

static bool act(void *userdata)
{
	(void)userdata;
	if (++s.quiet < SETTLED) {
		return true;
	}
	s.quiet = 0;
	pthread_mutex_lock(&s.lock);
	if (!s.over) {
		hand_over(false);
	}
	pthread_mutex_unlock(&s.lock);
	return !s.over;
}

static void *run(void *argument)
{
	front_box_run(act, argument);
	return NULL;
}

void settle(void)
{
	pthread_mutex_lock(&s.lock);
	hand_over(true);
	pthread_mutex_unlock(&s.lock);
}

/* --- what is heard --- */

static void on_message(unsigned peer, const struct frame *f)
{
	struct buffer *b = &s.heard[peer][f->type];

	s.quiet = 0;
	s.counts[peer][f->type]++;
	buffer_consume(b, buffer_length(b));
	fuzz_check(buffer_append(b, f->payload, f->size) == 0);
	if (s.listener) {
		s.listener(peer, f);
	}
}

void listen_to(void (*f)(unsigned peer, const struct frame *frame))
{
	s.listener = f;
}

static void on_granter_request(const struct granter_request *q)
{
	s.quiet = 0;
	s.asked[q->op] = *q;
}

static void on_look(void)
{
	s.n_looks++;
}

unsigned count_looks(void)
{
	return s.n_looks;
}

static void on_decision(const char *line)
{
	fuzz_check(s.n_decisions < DECISIONS);
	snprintf(s.decisions[s.n_decisions++], sizeof(s.decisions[0]), "%s", line);
}

unsigned count_decisions(const char *begin, const char **ret_last)
{
	const char *last = "";
	unsigned n = 0;

	for (unsigned i = 0; i < s.n_decisions; i++) {
		if (strncmp(s.decisions[i], begin, strlen(begin)) == 0) {
			last = s.decisions[i];
			n++;
		}
	}
	if (ret_last) {
		*ret_last = last;
	}
	return n;
}

unsigned count_heard(unsigned peer, enum wire_type type)
{
	return s.counts[peer][type];
}

const struct wire_message *last_heard(unsigned peer, enum wire_type type)
{
	const struct buffer *b = &s.heard[peer][type];
	struct wire_message *m = arena_alloc(&s.arena, sizeof(*m));

	if (s.counts[peer][type] == 0) {
		return NULL;
	}
	assert_int_equal(wire_decode(&s.arena, type, b->data + b->start, buffer_length(b), m), 0);
	return m;
}

uint32_t refused_for(unsigned peer)
{
	const struct wire_message *m = last_heard(peer, WIRE_REFUSAL);

	return m ? m->refusal.code : 0;
}

bool is_closed(unsigned peer)
{
	return front_box_heard(peer).closed;
}

struct granter_request last_granter_request(enum granter_op op)
{
	return s.asked[op];
}

static void forget(unsigned peer)
{
	for (size_t i = 0; i < TYPES; i++) {
		buffer_deinit(&s.heard[peer][i]);
		s.counts[peer][i] = 0;
	}
}

/* --- what is said --- */

void pass_s(unsigned seconds)
{
	for (unsigned ms = 0; ms < seconds * 1000; ms += PASS_MS) {
		front_box_pass(PASS_MS);
		settle();
	}
}

void change_settings(void (*change)(struct config *c))
{
	change(front_box_settings());
	front_box_reload_settings();
	settle();
}

void share_gpus(struct config *c)
{
	c->shared = true;
}

void want_an_audit_file(struct config *c)
{
	snprintf(c->audit_file, sizeof(c->audit_file), "/nowhere/audit");
}

void say(unsigned peer, const struct wire_message *m)
{
	front_box_say_message(peer, m);
	settle();
}

void connect_peer(unsigned peer, unsigned user)
{
	forget(peer);
	front_box_connect(peer, user);
	settle();
}

void connect_client(unsigned peer, unsigned user)
{
	connect_peer(peer, user);
	say(peer, &(struct wire_message){ .type = WIRE_HELLO, .hello = { PROTO_VERSION, "t" } });
}

void connect_container(unsigned peer)
{
	front_box_connect_container(peer);
	settle();
	say(peer, &(struct wire_message){ .type = WIRE_HELLO, .hello = { PROTO_VERSION, "t" } });
}

static void say_agent_hello(unsigned peer, const char *token)
{
	say(peer, &(struct wire_message){ .type = WIRE_AGENT_HELLO,
					  .agent_hello = { .version = PROTO_VERSION,
							   .token = token,
							   .program = "train" } });
}

uint32_t connect_standby(unsigned peer, unsigned user)
{
	const struct wire_message *m;

	connect_peer(peer, user);
	say_agent_hello(peer, "");
	m = last_heard(peer, WIRE_AGENT_REGISTERED);
	return m ? m->agent_registered.process : 0;
}

void connect_agent(unsigned peer, unsigned user, unsigned nth)
{
	connect_peer(peer, user);
	say_agent_hello(peer, front_box_token(nth));
}

/* --- captures --- */

static const char *const metrics[] = { "dram__bytes.sum" };

void say_open(unsigned peer, const struct wire_open_capture *o)
{
	struct wire_message m = { .type = WIRE_OPEN_CAPTURE, .open_capture = *o };

	m.open_capture.request = 1;
	m.open_capture.program = "t";
	m.open_capture.metrics = (struct wire_strings){ 1, metrics };
	say(peer, &m);
}

uint32_t open_capture(unsigned peer, const char *gpu)
{
	const char *const gpus[] = { gpu };

	say_open(peer, &(struct wire_open_capture){ .gpus = { gpu ? 1 : 0, gpus } });
	return front_box_heard(peer).capture;
}

uint32_t open_processes(unsigned peer, const uint32_t *ids, size_t n)
{
	say_open(peer, &(struct wire_open_capture){ .processes = { n, ids } });
	return front_box_heard(peer).capture;
}

void close_capture(unsigned peer, uint32_t capture)
{
	say(peer,
	    &(struct wire_message){ .type = WIRE_CLOSE_CAPTURE, .close_capture = { capture } });
}

void begin_job(unsigned peer, const char *job, unsigned user, const char *gpu, uint64_t time_ns)
{
	say(peer, &(struct wire_message){
			  .type = WIRE_JOB_BEGIN,
			  .job_begin = { 1, job, front_box_uid(user), { 1, &gpu }, time_ns } });
}

void end_job(unsigned peer, const char *job)
{
	say(peer, &(struct wire_message){ .type = WIRE_JOB_END, .job_end = { 1, job } });
}

void ask_permission(unsigned peer, unsigned user, unsigned nth)
{
	connect_peer(peer, user);
	front_box_attach(peer, 1);
	say(peer, &(struct wire_message){
			  .type = WIRE_PERMISSION_REQUEST,
			  .permission_request = { front_box_token(nth), 1, 2, 3, 0xb2cc, 4, 5 } });
}

void tell_progress(unsigned peer, uint64_t seen, uint64_t measured)
{
	const struct front_box_heard h = front_box_heard(peer);

	say(peer,
	    &(struct wire_message){
		    .type = WIRE_PROGRESS,
		    .progress = { h.capture, h.process, { .seen = seen, .measured = measured } } });
}

const struct wire_status_reply *ask_status(unsigned peer)
{
	unsigned before = count_heard(peer, WIRE_STATUS_REPLY);

	arena_reset(&s.arena);
	say(peer, &(struct wire_message){ .type = WIRE_STATUS_REQUEST, .status_request = { 1 } });
	assert_int_equal(count_heard(peer, WIRE_STATUS_REPLY), before + 1);
	return &last_heard(peer, WIRE_STATUS_REPLY)->status_reply;
}

/* --- begin and end --- */

static void usual_settings(struct config *c)
{
	c->registered_max = 16;
	c->registered_per_user = 4;
}

int front_script_begin(void **state)
{
	static const struct front_box_listener listener = { on_message, on_granter_request, on_look,
							    on_decision };

	(void)state;
	arena_init(&s.arena, 4 * LIMIT_UNPACKED_BYTES);
	memset(s.asked, 0, sizeof(s.asked));
	s.n_decisions = s.n_looks = 0;
	s.over = false;
	s.fronts_turn = true;
	front_box_listen(&listener);
	pthread_mutex_lock(&s.lock);
	assert_int_equal(pthread_create(&s.thread, NULL, run, NULL), 0);
	while (s.fronts_turn) {
		pthread_cond_wait(&s.turned, &s.lock);
	}
	pthread_mutex_unlock(&s.lock);
	change_settings(usual_settings);
	return 0;
}

int front_script_end(void **state)
{
	(void)state;
	pthread_mutex_lock(&s.lock);
	s.over = true;
	s.fronts_turn = true;
	pthread_cond_broadcast(&s.turned);
	pthread_mutex_unlock(&s.lock);
	pthread_join(s.thread, NULL);
	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		forget(i);
	}
	arena_deinit(&s.arena);
	return 0;
}
