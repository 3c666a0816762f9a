/* SPDX-License-Identifier: Apache-2.0 */

/* A sampler's stream of anybody, through client/sampler/stream.h: whatever comes, the handler gets
 * sound arguments, and the same however the stream is cut. */

#include <errno.h>
#include <math.h>

#include "client/sampler/stream.h"
#include "tests/fuzz/fuzz.h"

struct seen {
	uint64_t samples, lost, told;
	size_t n_sets, n_metrics[SAMPLER_SETS_MAX], set, turns;
	bool begun, ended;
	int64_t end_ns;
	double sum;
};

static void on_begin(void *user, const struct sampler_begin *begin)
{
	struct seen *s = user;

	fuzz_check(!s->begun && !s->ended);
	fuzz_check(begin->n_metrics > 0 && begin->n_metrics <= SAMPLER_METRICS_MAX);
	fuzz_check(begin->interval_ns > 0);
	fuzz_check(strlen(begin->gpu) < SAMPLER_UUID_BYTES);
	for (size_t i = 0; i < begin->n_metrics; i++) {
		fuzz_check(strlen(begin->metrics[i]) < SAMPLER_NAME_BYTES);
	}
	fuzz_check(begin->n_sets > 0 && begin->n_sets <= SAMPLER_SETS_MAX);
	s->n_sets = begin->n_sets;
	for (size_t i = 0; i < begin->n_metrics; i++) {
		fuzz_check(begin->sets[i] < begin->n_sets);
		s->n_metrics[begin->sets[i]]++;
	}
	for (size_t i = 0; i < begin->n_sets; i++) {
		fuzz_check(begin->intervals_ns[i] > 0 && s->n_metrics[i] > 0);
	}
	s->begun = true;
}

static void on_sample(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct seen *s = user;

	fuzz_check(s->begun && !s->ended);
	fuzz_check(start_ns > 0 && start_ns < end_ns && start_ns >= s->end_ns);
	for (size_t i = 0; i < s->n_metrics[s->set]; i++) {
		s->sum += isfinite(values[i]) ? 1 : 0;
	}
	s->samples++;
	s->end_ns = end_ns;
}

static void on_lost(void *user, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	struct seen *s = user;

	fuzz_check(n > 0 && start_ns <= end_ns && start_ns >= s->end_ns);
	s->lost += n;
	s->told++;
}

static void on_end(void *user, const struct sampler_end *end)
{
	struct seen *s = user;

	fuzz_check(!s->ended && end->end_ns >= s->end_ns);
	fuzz_check(strlen(end->message) < SAMPLER_TEXT_BYTES);
	s->ended = true;
}

static void on_set(void *user, const struct sampler_set *set)
{
	struct seen *s = user;

	fuzz_check(s->begun && !s->ended && set->set < s->n_sets && set->interval_ns > 0);
	s->set = set->set;
	s->turns++;
}

static int feed(const uint8_t *data, size_t size, size_t chunk, struct seen *s)
{
	static const struct sampler_handler handler = { on_begin, on_sample, on_lost, on_end,
							on_set };
	struct sampler_reader *r = sampler_reader_new(&handler, s);
	int result = 0;

	fuzz_check(r);
	for (size_t at = 0; at < size && result == 0;) {
		size_t n = size - at < chunk ? size - at : chunk;

		result = sampler_reader_feed(r, data + at, n);
		fuzz_check(result == 0 || result == -EBADMSG);
		at += n;
	}
	sampler_reader_free(r);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	size_t chunk = 1 + fuzz_take_u8(&in);
	struct seen pieces = { 0 }, whole = { 0 };

	fuzz_check(feed(in.data, in.size, chunk, &pieces) ==
		   feed(in.data, in.size, SIZE_MAX, &whole));
	fuzz_check(pieces.samples == whole.samples && pieces.lost == whole.lost &&
		   pieces.told == whole.told && pieces.ended == whole.ended &&
		   pieces.turns == whole.turns);
	return 0;
}
