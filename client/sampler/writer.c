/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/writer.h"

#include <string.h>

void sampler_writer_deinit(struct sampler_writer *w)
{
	buffer_deinit(&w->out);
}

static int add_text(struct buffer *b, const char *text, size_t max)
{
	int r = buffer_append(b, text, strnlen(text, max - 1));

	return r ? r : buffer_append(b, "", 1);
}

/* Begins a message in out; end_message() writes how long it became. */
static int begin_message(struct buffer *b, uint32_t type, const void *data, size_t n)
{
	struct sampler_head head = { type, 0 };
	int r = buffer_append(b, &head, sizeof(head));

	return r ? r : buffer_append(b, data, n);
}

static void end_message(struct buffer *b, size_t length_before)
{
	uint32_t bytes = (uint32_t)(buffer_length(b) - length_before - sizeof(struct sampler_head));

	memcpy(b->data + b->start + length_before + offsetof(struct sampler_head, bytes), &bytes,
	       sizeof(bytes));
}

int sampler_writer_begin(struct sampler_writer *w, const struct sampler_begin *begin)
{
	static const uint8_t one[SAMPLER_METRICS_MAX];
	const uint8_t *sets = begin->sets ? begin->sets : one;
	struct sampler_begin_message m = { .version = SAMPLER_VERSION,
					   .n_metrics = (uint32_t)begin->n_metrics,
					   .intervals_ns = { begin->interval_ns } };
	size_t before = buffer_length(&w->out);
	int r;

	for (size_t i = 0; i < begin->n_sets; i++) {
		m.intervals_ns[i] = begin->intervals_ns[i];
	}
	r = begin_message(&w->out, SAMPLER_MESSAGE_BEGIN, &m, sizeof(m));
	r = r ? r : add_text(&w->out, begin->gpu, SAMPLER_UUID_BYTES);
	for (size_t i = 0; r == 0 && i < begin->n_metrics; i++) {
		r = add_text(&w->out, begin->metrics[i], SAMPLER_NAME_BYTES);
	}
	r = r ? r : buffer_append(&w->out, sets, begin->n_metrics);
	if (r == 0) {
		end_message(&w->out, before);
	}
	for (size_t i = 0; i < begin->n_metrics; i++) {
		w->n_metrics[sets[i]]++;
	}
	return r;
}

void sampler_writer_set(struct sampler_writer *w, const struct sampler_set *set)
{
	sampler_writer_flush(w);
	w->set = *set;
	w->turned = true;
}

void sampler_writer_lost(struct sampler_writer *w, uint64_t n)
{
	sampler_writer_flush(w);
	w->next += n;
	w->lost += n;
}

void sampler_writer_sample(struct sampler_writer *w, int64_t start_ns, int64_t end_ns,
			   const double *values)
{
	uint64_t length = (uint64_t)(end_ns - start_ns);
	size_t bytes = w->n_metrics[w->set.set] * sizeof(*values);

	if (w->bytes + sizeof(length) + bytes > sizeof(w->block)) {
		sampler_writer_flush(w);
	}
	if (w->bytes == 0) {
		w->head =
			(struct sampler_samples_message){ .first = w->next, .start_ns = start_ns };
	}
	memcpy(w->block + w->bytes, &length, sizeof(length));
	memcpy(w->block + w->bytes + sizeof(length), values, bytes);
	w->bytes += sizeof(length) + bytes;
	w->head.n++;
	w->next++;
	w->end_ns = end_ns;
}

/* The caller has reserved room for the message. */
static void add_set(struct sampler_writer *w)
{
	struct sampler_set_message m = { .set = (uint32_t)w->set.set,
					 .interval_ns = w->set.interval_ns,
					 .change_ns = w->set.change_ns };
	size_t before = buffer_length(&w->out);

	(void)begin_message(&w->out, SAMPLER_MESSAGE_SET, &m, sizeof(m));
	end_message(&w->out, before);
	w->turned = false;
}

/* Writes the block, after a new set: turns without samples need no message. False: no room. */
static bool add_block(struct sampler_writer *w)
{
	size_t before = buffer_length(&w->out);
	size_t all = 2 * sizeof(struct sampler_head) + sizeof(struct sampler_set_message) +
		     sizeof(w->head) + w->bytes;

	if (before + all > w->limit || buffer_reserve(&w->out, all) != 0) {
		return false;
	}
	if (w->turned) {
		add_set(w);
		before = buffer_length(&w->out);
	}
	w->head.lost = w->lost;
	(void)begin_message(&w->out, SAMPLER_MESSAGE_SAMPLES, &w->head, sizeof(w->head));
	(void)buffer_append(&w->out, w->block, w->bytes);
	end_message(&w->out, before);
	return true;
}

void sampler_writer_flush(struct sampler_writer *w)
{
	if (w->bytes == 0) {
		return;
	}
	if (add_block(w)) {
		w->samples += w->head.n;
		w->lost_told += w->lost;
		w->lost = 0;
	} else {
		w->lost += w->head.n;
		w->dropped += w->head.n;
	}
	w->bytes = 0;
}

int sampler_writer_end(struct sampler_writer *w, const struct sampler_end *end)
{
	struct sampler_end_message m = { .reason = end->reason,
					 .end_ns =
						 end->end_ns > w->end_ns ? end->end_ns : w->end_ns,
					 .overflows = end->overflows,
					 .cpu_ns = end->cpu_ns };
	size_t before, most = sizeof(struct sampler_head) + sizeof(m) + 2 * SAMPLER_TEXT_BYTES;
	int r;

	sampler_writer_flush(w);
	m.samples = w->samples;
	m.dropped = w->dropped;
	m.lost_last = w->lost;
	m.lost = w->lost_told + w->lost;
	before = buffer_length(&w->out);
	r = buffer_reserve(&w->out, most);
	if (r < 0) {
		return r;
	}
	(void)begin_message(&w->out, SAMPLER_MESSAGE_END, &m, sizeof(m));
	(void)add_text(&w->out, end->message, SAMPLER_TEXT_BYTES);
	(void)add_text(&w->out, end->remedy, SAMPLER_TEXT_BYTES);
	end_message(&w->out, before);
	return 0;
}
