/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/stream.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/clock.h"

/* BEGIN (SAMPLES | SET)* END, or END alone where sampling could not begin. The bytes come from
 * another process, so every number is checked against those before it. */

static const uint64_t length_max_ns = UINT64_C(10000000000000); /* ~3 h */

enum reader_state { READER_NEW, READER_BEGUN, READER_ENDED, READER_BROKEN };

struct sampler_reader {
	const struct sampler_handler *handler;
	void *user;
	struct buffer in;
	enum reader_state state;
	size_t n_sets, n_metrics[SAMPLER_SETS_MAX], set;
	bool turned;	/* no sample has come since the last SET */
	uint64_t next;	/* number of the next sample, if none is lost */
	int64_t end_ns; /* end of the last sample; 0: none has come */
};

struct input {
	const uint8_t *at, *end;
};

struct sampler_reader *sampler_reader_new(const struct sampler_handler *handler, void *user)
{
	struct sampler_reader *r = calloc(1, sizeof(*r));

	if (r) {
		r->handler = handler;
		r->user = user;
	}
	return r;
}

struct sampler_reader *sampler_reader_free(struct sampler_reader *r)
{
	if (r) {
		buffer_deinit(&r->in);
		free(r);
	}
	return NULL;
}

static bool read_bytes(struct input *in, void *ret, size_t n)
{
	if ((size_t)(in->end - in->at) < n) {
		return false;
	}
	memcpy(ret, in->at, n);
	in->at += n;
	return true;
}

static bool read_text(struct input *in, size_t max, const char **ret)
{
	const uint8_t *nul = memchr(in->at, 0, (size_t)(in->end - in->at));

	if (!nul || (size_t)(nul - in->at) >= max) {
		return false;
	}
	*ret = (const char *)in->at;
	in->at = nul + 1;
	return true;
}

static bool is_interval(uint64_t ns)
{
	return ns > 0 && ns <= length_max_ns;
}

/* Are sets numbered in the order of their first metrics, and have these alone an interval? */
static bool read_sets(struct sampler_reader *r, const struct sampler_begin_message *m,
		      const uint8_t *sets)
{
	for (uint32_t i = 0; i < m->n_metrics; i++) {
		if (sets[i] > r->n_sets || sets[i] == SAMPLER_SETS_MAX) {
			return false;
		}
		r->n_sets += sets[i] == r->n_sets;
		r->n_metrics[sets[i]]++;
	}
	for (size_t i = 0; i < SAMPLER_SETS_MAX; i++) {
		if (i < r->n_sets ? !is_interval(m->intervals_ns[i]) : m->intervals_ns[i] != 0) {
			return false;
		}
	}
	return r->n_sets == 1 || r->handler->on_set;
}

static bool read_begin(struct sampler_reader *r, struct input *in)
{
	const char *metrics[SAMPLER_METRICS_MAX];
	uint8_t sets[SAMPLER_METRICS_MAX];
	struct sampler_begin_message m;
	struct sampler_begin begin = { .metrics = metrics, .sets = sets };

	if (!read_bytes(in, &m, sizeof(m)) || m.version != SAMPLER_VERSION || m.n_metrics == 0 ||
	    m.n_metrics > SAMPLER_METRICS_MAX || !read_text(in, SAMPLER_UUID_BYTES, &begin.gpu)) {
		return false;
	}
	for (uint32_t i = 0; i < m.n_metrics; i++) {
		if (!read_text(in, SAMPLER_NAME_BYTES, &metrics[i])) {
			return false;
		}
	}
	if (!read_bytes(in, sets, m.n_metrics) || in->at != in->end || !read_sets(r, &m, sets)) {
		return false;
	}
	begin.interval_ns = m.intervals_ns[0];
	begin.intervals_ns = m.intervals_ns;
	begin.n_sets = r->n_sets;
	begin.n_metrics = m.n_metrics;
	r->state = READER_BEGUN;
	r->handler->on_begin(r->user, &begin);
	return true;
}

static bool read_set(struct sampler_reader *r, struct input *in)
{
	struct sampler_set_message m;
	struct sampler_set set;

	if (!read_bytes(in, &m, sizeof(m)) || in->at != in->end || m.set >= r->n_sets ||
	    !is_interval(m.interval_ns) || m.change_ns > length_max_ns || !r->handler->on_set) {
		return false;
	}
	set = (struct sampler_set){ m.set, m.interval_ns, m.change_ns };
	r->set = m.set;
	r->turned = true;
	r->handler->on_set(r->user, &set);
	return true;
}

/* Reports n samples as lost between the last sample and this time. */
static void tell_lost(struct sampler_reader *r, int64_t until_ns, uint64_t n)
{
	if (n > 0) {
		r->handler->on_lost(r->user, r->end_ns ? r->end_ns : until_ns, until_ns, n);
	}
}

/* Does this message follow the one before? */
static bool follows(const struct sampler_reader *r, const struct sampler_samples_message *m)
{
	bool gap = m->lost > 0 || r->end_ns == 0 || r->turned;

	return m->first >= r->next && m->first - r->next == m->lost && m->start_ns > 0 &&
	       m->start_ns >= r->end_ns && m->start_ns <= CLOCK_NS_MOST &&
	       (gap || m->start_ns == r->end_ns) && m->n > 0 && m->first <= UINT64_MAX - m->n;
}

static bool read_samples(struct sampler_reader *r, struct input *in)
{
	struct sampler_samples_message m;
	double values[SAMPLER_METRICS_MAX];
	uint64_t length;

	if (!read_bytes(in, &m, sizeof(m)) || !follows(r, &m)) {
		return false;
	}
	tell_lost(r, m.start_ns, m.lost);
	r->turned = false;
	r->end_ns = m.start_ns;
	r->next = m.first;
	for (uint32_t i = 0; i < m.n; i++) {
		if (!read_bytes(in, &length, sizeof(length)) || !is_interval(length) ||
		    r->end_ns > CLOCK_NS_MOST - (int64_t)length ||
		    !read_bytes(in, values, r->n_metrics[r->set] * sizeof(*values))) {
			return false;
		}
		r->end_ns += (int64_t)length;
		r->next++;
		r->handler->on_sample(r->user, r->end_ns - (int64_t)length, r->end_ns, values);
	}
	return in->at == in->end;
}

static bool is_reason(uint32_t reason)
{
	return reason == SAMPLER_ENDED || reason == SAMPLER_USAGE ||
	       (reason >= SAMPLER_NO_CUPTI && reason <= SAMPLER_FAILED);
}

static bool read_end(struct sampler_reader *r, struct input *in)
{
	struct sampler_end_message m;
	struct sampler_end end;

	if (!read_bytes(in, &m, sizeof(m)) || !is_reason(m.reason) ||
	    !read_text(in, SAMPLER_TEXT_BYTES, &end.message) ||
	    !read_text(in, SAMPLER_TEXT_BYTES, &end.remedy) || in->at != in->end || m.end_ns < 0 ||
	    m.end_ns > CLOCK_NS_MOST || m.end_ns < r->end_ns) {
		return false;
	}
	tell_lost(r, m.end_ns, m.lost_last);
	end.reason = (enum sampler_reason)m.reason;
	end.end_ns = m.end_ns;
	end.samples = m.samples;
	end.lost = m.lost;
	end.dropped = m.dropped;
	end.overflows = m.overflows;
	end.cpu_ns = m.cpu_ns;
	r->state = READER_ENDED;
	r->handler->on_end(r->user, &end);
	return true;
}

static bool read_message(struct sampler_reader *r, uint32_t type, struct input in)
{
	switch (type) {
	case SAMPLER_MESSAGE_BEGIN:
		return r->state == READER_NEW && read_begin(r, &in);
	case SAMPLER_MESSAGE_SAMPLES:
		return r->state == READER_BEGUN && read_samples(r, &in);
	case SAMPLER_MESSAGE_SET:
		return r->state == READER_BEGUN && read_set(r, &in);
	case SAMPLER_MESSAGE_END:
		return r->state != READER_ENDED && read_end(r, &in);
	default:
		return false;
	}
}

/* 1: a message was read; 0: it is not complete; -EBADMSG. */
static int read_one(struct sampler_reader *r)
{
	const uint8_t *at = r->in.data + r->in.start;
	size_t n = buffer_length(&r->in);
	struct sampler_head head;

	if (n < sizeof(head)) {
		return 0;
	}
	memcpy(&head, at, sizeof(head));
	if (head.bytes > SAMPLER_MESSAGE_MAX) {
		return -EBADMSG;
	}
	if (n - sizeof(head) < head.bytes) {
		return 0;
	}
	at += sizeof(head);
	if (!read_message(r, head.type, (struct input){ at, at + head.bytes })) {
		return -EBADMSG;
	}
	buffer_consume(&r->in, sizeof(head) + head.bytes);
	return 1;
}

int sampler_reader_feed(struct sampler_reader *r, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;
	int result = r->state == READER_BROKEN ? -EBADMSG : 0;

	while (result >= 0 && n > 0) {
		size_t piece = n < SAMPLER_MESSAGE_MAX ? n : SAMPLER_MESSAGE_MAX;

		result = buffer_append(&r->in, at, piece);
		at += piece;
		n -= piece;
		while (result >= 0 && (result = read_one(r)) > 0) {
		}
	}
	if (result < 0) {
		r->state = READER_BROKEN;
		buffer_deinit(&r->in);
	}
	return result;
}
