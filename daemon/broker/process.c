/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/broker/capture.h"

/* Ten thousand processes may wait, and one capture may name a thousand of them. So a hash table
 * finds them by number, and a waiting process holds only this struct and one block with its labels.
 * Labels are shown to users; no decision depends on them. */

void processes_init(struct processes *all)
{
	*all = (struct processes){ 0 };
	list_init(&all->all);
	for (size_t i = 0; i < PROCESS_BUCKETS; i++) {
		list_init(&all->buckets[i]);
	}
}

static struct list *bucket_of(const struct processes *all, uint32_t id)
{
	return (struct list *)(uintptr_t)&all->buckets[id % PROCESS_BUCKETS];
}

struct process *processes_find(const struct processes *all, uint32_t id)
{
	list_for_each(l, bucket_of(all, id)) {
		struct process *p = list_entry(l, struct process, bucket_link);

		if (p->id == id) {
			return p;
		}
	}
	return NULL;
}

struct process *process_new(struct processes *all, pid_t pid, uid_t uid, void *peer)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p) {
		return NULL;
	}
	p->id = ++all->last_id;
	p->pid = pid;
	p->uid = uid;
	p->peer = peer;
	list_init(&p->link);
	list_append(&all->all, &p->all_link);
	list_append(bucket_of(all, p->id), &p->bucket_link);
	return p;
}

struct process *process_free(struct processes *all, struct process *p)
{
	if (p) {
		process_detach(p);
		all->n_registered -= p->registered;
		if (p->registered) {
			p->account->registered--;
			quota_give(&p->account->bytes, p->texts_bytes);
			account_unref(p->account);
		}
		list_remove(&p->all_link);
		list_remove(&p->bucket_link);
		free(p->labels);
		free(p);
	}
	return NULL;
}

unsigned processes_share(const struct processes *all, const struct account *a, unsigned max,
			 unsigned total)
{
	size_t others = all->n_registered - a->registered;
	size_t half = others < total ? (total - others) / 2 : 0;

	return half < max ? (unsigned)half : max;
}

static size_t count_bytes(const struct wire_strings *labels)
{
	size_t bytes = 0;

	for (size_t i = 0; i < labels->n; i++) {
		bytes += strlen(labels->v[i]) + 1;
	}
	return bytes;
}

static char *append(char *at, const char *text)
{
	size_t n = strlen(text) + 1;

	memcpy(at, text, n);
	return at + n;
}

/* Stores the labels and then the cgroup in one block. */
static int keep_texts(struct process *p, struct account *payer, const struct wire_strings *labels,
		      const char *cgroup)
{
	size_t bytes = count_bytes(labels);
	char *at;

	if (bytes > PROCESS_LABELS_BYTES_MAX) {
		return PROCESS_E_LABELS;
	}
	bytes += strlen(cgroup) + 1;
	if (!quota_take(&payer->bytes, bytes)) {
		return -EDQUOT;
	}
	at = p->labels = malloc(bytes);
	if (!at) {
		quota_give(&payer->bytes, bytes);
		return -ENOMEM;
	}
	for (size_t i = 0; i < labels->n; i++) {
		at = append(at, labels->v[i]);
	}
	append(at, cgroup);
	p->cgroup = at;
	p->n_labels = (uint32_t)labels->n;
	p->texts_bytes = (uint32_t)bytes;
	return 0;
}

int process_register(struct processes *all, struct process *p, struct account *payer,
		     const struct wire_strings *labels, const char *cgroup, uint64_t now_ns)
{
	int r = keep_texts(p, payer, labels, cgroup);

	if (r != 0) {
		return r;
	}
	p->registered = true;
	p->since_ns = now_ns;
	p->account = account_ref(payer);
	p->account->registered++;
	all->n_registered++;
	return 0;
}

struct wire_strings process_labels(struct arena *a, const struct process *p)
{
	const char **v = arena_alloc(a, (p->n_labels + 1) * sizeof(*v));
	const char *at = p->labels;

	for (size_t i = 0; v && i < p->n_labels; i++) {
		v[i] = at;
		at += strlen(at) + 1;
	}
	return (struct wire_strings){ v ? p->n_labels : 0, v };
}

int process_attach(struct process *p, struct capture *c)
{
	if (c->n_attached >= CAPTURE_PROCESSES_MAX) {
		return PROCESS_E_FULL;
	}
	p->capture = c;
	p->number = 0;
	p->totals = (struct gpuctr_totals){ 0 };
	p->records = 0;
	p->notices = 0;
	p->said_goodbye = false;
	list_append(&c->processes, &p->link);
	c->n_attached++;
	return 0;
}

void process_begin(struct process *p)
{
	p->number = ++p->capture->n_processes;
}

void process_add_totals(struct gpuctr_totals *sum, const struct gpuctr_totals *t)
{
#define ADD(name) sum->name += t->name;
	GPUCTR_TOTALS(ADD)
#undef ADD
}

static uint64_t totals_accounted(const struct gpuctr_totals *t)
{
#define PLUS(name) +t->name
	return 0 GPUCTR_FATES(PLUS);
#undef PLUS
}

void process_settle(struct process *p)
{
	uint64_t accounted;

	if (p->totals.measured < p->records) {
		p->totals.measured = p->records;
	}
	accounted = totals_accounted(&p->totals);
	if (p->totals.seen > accounted) {
		p->totals.lost += p->totals.seen - accounted;
	} else {
		p->totals.seen = accounted;
	}
}

void process_detach(struct process *p)
{
	if (p->capture) {
		process_add_totals(&p->capture->ended, &p->totals);
		p->capture->n_attached--;
		list_remove(&p->link);
		p->capture = NULL;
	}
}
