/* SPDX-License-Identifier: Apache-2.0 */

/* A template is a step: the shapes of its kernels in order, which repeat forever. Kernels are
 * matched to a template one by one. A kernel that does not match may be a one-off, or the program
 * has left out some kernels of the template. Then the next few kernels (a gram) are looked up in
 * all templates of the sequence, and matching continues at the place with the longest match, the
 * nearest of equals. Kernels that match nowhere have no position.
 *
 * Templates are made where many kernels match nowhere. A gram that comes again after d kernels is a
 * vote for steps of d kernels. Short grams also vote for layers, which repeat within a step; grams
 * longer than any layer vote for the step alone. So grams of several lengths vote. Each of the
 * distances with the most votes is tried: d kernels from the middle become a template, all kernels
 * are matched to it, and the matches are counted. One-off kernels and steps of another length
 * hardly change this count. Of the templates with about the highest count the shortest wins.
 * Kernels that still match nowhere are searched again for steps of another kind (an evaluation
 * between trainings). */

#include "client/attribution/steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GRAM 6
#define TEMPLATES_MOST 8
#define SEQUENCES_MOST 4096
/* Limits of the search when kernels no longer match: places that are tried in a template, and
 * kernels that are compared from each place on. */
#define PLACES_MOST 64
#define FOLLOW_MOST 256
/* A sequence counts as a step if it occurred three times and explains this share of the kernels
 * that matched no template. */
#define TIMES_LEAST 3
#define PART_LEAST 0.3
#define LEFT_LEAST 6
/* A jump within a template costs as much as so many kernels. Without this cost a template of one
 * layer would explain many kernels by jumps. */
#define JUMP 8
/* A longer step is preferred only if it explains more kernels, by this part of all. */
#define BETTER 0.005
#define CANDIDATES_MOST 24
/* Costs in operations of effort.h: to compare two shapes, to count all votes of a kernel, to pass
 * over another sequence, and to match a kernel to a template. */
#define COMPARE_COST 2
#define VOTES_COST 200
#define SEQUENCE_COST 2
#define KERNEL_COST 100

struct template
{
	uint32_t length, first_position;
	uint32_t *shapes;
	uint32_t *heads,
		*next; /* by grams: 1 + the first place with a hash, 1 + the next place with it */
	uint32_t heads_size;
};

struct way {
	const struct template *on; /* NULL: kernels match nowhere */
	uint32_t at;
	struct effort *effort;
};

struct sequence {
	uint64_t key;
	struct template templates[TEMPLATES_MOST];
	uint32_t used, oldest;
	struct way way;
};

struct steps {
	struct sequence *sequences[SEQUENCES_MOST];
	uint32_t used, positions, positions_most;
	struct effort *effort;
};

struct steps *steps_new(uint32_t positions_most, struct effort *effort)
{
	struct steps *s = calloc(1, sizeof(*s));

	if (s) {
		s->positions_most = positions_most;
		s->effort = effort;
	}
	return s;
}

static void template_deinit(struct template *t)
{
	free(t->shapes);
	free(t->heads);
	free(t->next);
	memset(t, 0, sizeof(*t));
}

struct steps *steps_free(struct steps *s)
{
	for (uint32_t i = 0; s && i < s->used; i++) {
		for (uint32_t j = 0; j < s->sequences[i]->used; j++) {
			template_deinit(&s->sequences[i]->templates[j]);
		}
		free(s->sequences[i]);
	}
	free(s);
	return NULL;
}

uint32_t steps_positions(const struct steps *s)
{
	return s->positions;
}

uint32_t steps_take_position(struct steps *s)
{
	return s->positions < s->positions_most ? s->positions++ : STEPS_NONE;
}

static uint64_t mix(uint64_t h, uint32_t shape)
{
	h = (h ^ shape) * 0x9E3779B97F4A7C15ULL;
	return h ^ h >> 29;
}

static uint32_t head_of(const struct template *t, uint64_t h)
{
	return (uint32_t)(h >> 20) & (t->heads_size - 1);
}

static int template_init(struct template *t, const uint32_t *shapes, uint32_t length)
{
	memset(t, 0, sizeof(*t));
	t->length = length;
	for (t->heads_size = 8; t->heads_size < 2 * length; t->heads_size *= 2) {
	}
	t->shapes = malloc(length * sizeof(*t->shapes));
	t->next = calloc(length, sizeof(*t->next));
	t->heads = calloc(t->heads_size, sizeof(*t->heads));
	if (!t->shapes || !t->next || !t->heads) {
		template_deinit(t);
		return -ENOMEM;
	}
	memcpy(t->shapes, shapes, length * sizeof(*t->shapes));
	for (uint32_t i = length; i-- > 0;) {
		uint64_t h = 0;
		uint32_t head;

		for (uint32_t j = 0; j < GRAM; j++) {
			h = mix(h, shapes[(i + j) % length]);
		}
		head = head_of(t, h);
		t->next[i] = t->heads[head];
		t->heads[head] = i + 1;
	}
	return 0;
}

/* The number of kernels that match a template, starting at a position. */
static size_t fitting(const struct template *t, uint32_t at, const uint32_t *shapes, size_t count)
{
	size_t n = 0;

	while (n < count && t->shapes[at] == shapes[n]) {
		n++;
		at = at + 1 == t->length ? 0 : at + 1;
	}
	return n;
}

/* Where matching continues; on is NULL if these kernels match nowhere. */
static struct way find_way(const struct template *templates, uint32_t used, const struct way *was,
			   const uint32_t *shapes, size_t count)
{
	struct way best = { NULL, 0, was->effort };
	size_t compared = 0, best_fits = GRAM - 1, most = was->on ? FOLLOW_MOST : count;
	uint32_t best_far = 0;
	uint64_t h = 0;

	for (uint32_t j = 0; j < GRAM; j++) {
		h = mix(h, shapes[j]);
	}
	for (uint32_t i = 0; i < used; i++) {
		const struct template *t = &templates[i];
		uint32_t place = t->heads[head_of(t, h)];
		size_t limit =
			most < 2 * (size_t)t->length + GRAM ? most : 2 * (size_t)t->length + GRAM;

		for (int n = 0; place != 0 && n < PLACES_MOST; n++, place = t->next[place - 1]) {
			uint32_t at = place - 1;
			uint32_t far =
				t != was->on ? t->length : (at + t->length - was->at) % t->length;
			size_t fits = fitting(t, at, shapes, count < limit ? count : limit);

			compared += fits + 1;
			if (fits > best_fits || (fits == best_fits && best.on && far < best_far)) {
				best = (struct way){ t, at, was->effort };
				best_fits = fits;
				best_far = far;
			}
		}
	}
	if (effort_spend(was->effort, COMPARE_COST * (double)(used + compared))) {
		best.on = NULL;
	}
	return best;
}

/* Is only one kernel out of place: either in place of the template's kernel, or inserted before it,
 * so that the template's comes next? */
static int is_one_off(struct way *way, const uint32_t *shapes, size_t count)
{
	const struct template *t = way->on;
	uint32_t after;

	if (!t || count <= GRAM) {
		return 0;
	}
	after = way->at + 1 == t->length ? 0 : way->at + 1;
	if (fitting(t, after, shapes + 1, GRAM) == GRAM) {
		way->at = after;
		return 1;
	}
	return fitting(t, way->at, shapes + 1, GRAM) == GRAM;
}

/* Matches kernels to templates; returns how many match, minus the cost of each jump. positions may
 * be NULL. */
static size_t follow(const struct template *templates, uint32_t used, struct way *way,
		     const uint32_t *shapes, size_t count, int end, uint32_t *positions,
		     size_t *done)
{
	size_t i, fit = 0, jumps = 0;

	for (i = 0; i < count; i++) {
		if (!way->on || way->on->shapes[way->at] != shapes[i]) {
			struct way found = { NULL, 0, way->effort };

			if (!end && count - i <= GRAM) {
				break;
			}
			if (count - i >= GRAM && !is_one_off(way, shapes + i, count - i)) {
				found = find_way(templates, used, way, shapes + i, count - i);
			}
			if (!found.on) {
				if (positions) {
					positions[i] = STEPS_NONE;
				}
				continue;
			}
			*way = found;
			jumps++;
		}
		if (positions) {
			positions[i] = way->on->first_position + way->at;
		}
		way->at = way->at + 1 == way->on->length ? 0 : way->at + 1;
		fit++;
	}
	*done = i;
	return fit > jumps * JUMP ? fit - jumps * JUMP : 0;
}

struct candidate {
	size_t start;
	uint32_t length;
};

struct votes {
	uint32_t *counts; /* votes for each distance */
	uint32_t *starts; /* for each distance, the start of a repetition near the middle */
	uint64_t *hashes;
	uint32_t *last;
	size_t size;
};

static int votes_init(struct votes *v, size_t count)
{
	for (v->size = 64; v->size < 2 * count; v->size *= 2) {
	}
	v->counts = malloc((count + 1) * sizeof(*v->counts));
	v->starts = malloc((count + 1) * sizeof(*v->starts));
	v->hashes = malloc(v->size * sizeof(*v->hashes));
	v->last = malloc(v->size * sizeof(*v->last));
	return v->counts && v->starts && v->hashes && v->last ? 0 : -ENOMEM;
}

static void votes_deinit(struct votes *v)
{
	free(v->counts);
	free(v->starts);
	free(v->hashes);
	free(v->last);
}

#define BASE 0x100000001B3ULL

/* Counts the distances between equal grams of one length. */
static void votes_count(struct votes *v, const uint32_t *shapes, size_t count, size_t gram)
{
	uint64_t h = 0, top = 1;

	memset(v->counts, 0, (count + 1) * sizeof(*v->counts));
	memset(v->last, 0, v->size * sizeof(*v->last));
	for (size_t i = 0; i < gram; i++) {
		top *= BASE;
	}
	for (size_t i = 0; i < count; i++) {
		size_t slot;

		h = h * BASE + (uint32_t)mix(1, shapes[i]);
		if (i >= gram) {
			h -= top * (uint32_t)mix(1, shapes[i - gram]);
		}
		if (i + 1 < gram) {
			continue;
		}
		slot = (size_t)((h * 0x9E3779B97F4A7C15ULL) >> 24) & (v->size - 1);
		while (v->last[slot] != 0 && v->hashes[slot] != h) {
			slot = (slot + 1) & (v->size - 1);
		}
		if (v->last[slot] != 0) {
			size_t far = i + 1 - v->last[slot];

			v->counts[far]++;
			if (v->counts[far] == 1 || i - far < count / 2) {
				v->starts[far] = (uint32_t)(i + 1 - far);
			}
		}
		v->hashes[slot] = h;
		v->last[slot] = (uint32_t)(i + 1);
	}
}

/* Finds candidates: a step between marks, and the best two distances for each gram length. */
static size_t find_candidates(struct votes *v, const uint32_t *shapes, const unsigned char *marks,
			      size_t count, struct candidate *found)
{
	size_t n = 0, from = 0;

	for (size_t i = count / 2; marks && i < count; i++) {
		if (marks[i] && from != 0) {
			found[n++] = (struct candidate){ from, (uint32_t)(i - from) };
			break;
		}
		from = marks[i] ? i : from;
	}
	for (size_t gram = 2; gram * 2 <= count && n + 2 <= CANDIDATES_MOST; gram *= 4) {
		votes_count(v, shapes, count, gram);
		for (int turn = 0; turn < 2; turn++) {
			size_t most = 0;

			for (size_t d = 1; d * TIMES_LEAST <= count; d++) {
				most = v->counts[d] > v->counts[most] || most == 0 ? d : most;
			}
			if (most == 0 || v->counts[most] < 2) {
				break;
			}
			found[n++] = (struct candidate){ v->starts[most], (uint32_t)most };
			v->counts[most] = 0;
		}
	}
	return n;
}

/* Finds the best step of kernels that match nowhere; positive: there is none. */
static int find_step(struct effort *effort, const uint32_t *shapes, const unsigned char *marks,
		     size_t count, struct template *ret)
{
	struct candidate found[CANDIDATES_MOST + 1];
	struct votes v;
	size_t n = 0, fits[CANDIDATES_MOST + 1], most = 0, done;
	const struct candidate *best = NULL;
	int r = votes_init(&v, count);

	if (r == 0 && !effort_spend(effort, VOTES_COST * (double)count)) {
		n = find_candidates(&v, shapes, marks, count, found);
	}
	votes_deinit(&v);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct way way = { NULL, 0, effort };
		struct template t;

		if (found[i].start + found[i].length > count) {
			found[i].start = count - found[i].length;
		}
		r = template_init(&t, shapes + found[i].start, found[i].length);
		if (r == 0) {
			fits[i] = follow(&t, 1, &way, shapes, count, 1, NULL, &done);
			template_deinit(&t);
			fits[i] = fits[i] < TIMES_LEAST * (size_t)found[i].length ? 0 : fits[i];
			most = fits[i] > most ? fits[i] : most;
		}
	}
	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < n; i++) {
		if ((double)fits[i] >= (double)most - BETTER * (double)count && fits[i] > 0 &&
		    (!best || found[i].length < best->length)) {
			best = &found[i];
		}
	}
	if (!best || (double)most < PART_LEAST * (double)count) {
		return 1;
	}
	return template_init(ret, shapes + best->start, best->length);
}

static struct sequence *sequence_find(struct steps *s, uint64_t key)
{
	struct sequence *new;

	for (uint32_t i = 0; i < s->used; i++) {
		if (s->sequences[i]->key == key) {
			return s->sequences[i];
		}
	}
	if (s->used == SEQUENCES_MOST || !(new = calloc(1, sizeof(*new)))) {
		return NULL;
	}
	new->key = key;
	s->sequences[s->used++] = new;
	return new;
}

/* Learns one more step from kernels that match nowhere; positive: there is none. */
static int learn(struct steps *s, struct sequence *q, const uint32_t *shapes,
		 const unsigned char *marks, const uint32_t *positions, size_t count)
{
	uint32_t *left = malloc((count + 1) * sizeof(*left)), place;
	unsigned char *left_marks = calloc(count + 1, 1);
	struct template found;
	size_t n = 0;
	int r;

	if (!left || !left_marks) {
		free(left);
		free(left_marks);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		if (positions[i] == STEPS_NONE) {
			left_marks[n] = marks ? marks[i] : 0;
			left[n++] = shapes[i];
		}
	}
	r = n < LEFT_LEAST ? 1 : find_step(s->effort, left, marks ? left_marks : NULL, n, &found);
	free(left);
	free(left_marks);
	if (r != 0) {
		return r;
	}
	if (s->positions_most - s->positions < found.length) {
		template_deinit(&found);
		return 1;
	}
	found.first_position = s->positions;
	s->positions += found.length;
	place = q->used < TEMPLATES_MOST ? q->used++ : q->oldest++ % TEMPLATES_MOST;
	if (q->way.on == &q->templates[place]) {
		q->way.on = NULL;
	}
	template_deinit(&q->templates[place]);
	q->templates[place] = found;
	return 0;
}

int steps_place(struct steps *s, uint64_t sequence, const uint32_t *shapes,
		const unsigned char *marks, size_t count, int end, uint32_t *positions,
		size_t *done)
{
	int is_over =
		effort_spend(s->effort, SEQUENCE_COST * s->used + KERNEL_COST * (double)count);
	struct sequence *q = is_over ? NULL : sequence_find(s, sequence);
	struct way way;
	int r;

	if (!q) {
		for (size_t i = 0; i < count; i++) {
			positions[i] = STEPS_NONE;
		}
		*done = count;
		return 0;
	}
	for (int round = 0;; round++) {
		way = q->way;
		way.effort = s->effort;
		follow(q->templates, q->used, &way, shapes, count, end, positions, done);
		if (round == TEMPLATES_MOST / 2) {
			break;
		}
		r = learn(s, q, shapes, marks, positions, *done);
		if (r < 0) {
			return r;
		}
		if (r > 0) {
			break;
		}
	}
	q->way = way;
	return 0;
}
