/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/jobs.h"

#include <errno.h>
#include <string.h>

static bool is_used(const struct job *job)
{
	return job->name[0] != '\0';
}

static void take_gpus(struct jobs *j, uint64_t gpus)
{
	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *job = &j->slots[i];

		job->gpus &= ~gpus;
		if (job->gpus == 0) {
			*job = (struct job){ 0 };
		}
	}
}

int jobs_begin(struct jobs *j, const struct job *job)
{
	jobs_end(j, job->name);
	take_gpus(j, job->gpus);
	for (size_t i = 0; i < JOBS_MAX; i++) {
		if (!is_used(&j->slots[i])) {
			j->slots[i] = *job;
			return 0;
		}
	}
	return -ENOSPC;
}

const struct job *jobs_find(const struct jobs *j, const char *name)
{
	for (size_t i = 0; i < JOBS_MAX; i++) {
		if (is_used(&j->slots[i]) && strcmp(j->slots[i].name, name) == 0) {
			return &j->slots[i];
		}
	}
	return NULL;
}

bool jobs_end(struct jobs *j, const char *name)
{
	const struct job *job = jobs_find(j, name);

	if (job) {
		j->slots[job - j->slots] = (struct job){ 0 };
	}
	return job != NULL;
}

bool jobs_expire(struct jobs *j, uint64_t now_ns)
{
	bool any = false;

	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct job *job = &j->slots[i];

		if (is_used(job) && job->until_ns != 0 && now_ns >= job->until_ns) {
			*job = (struct job){ 0 };
			any = true;
		}
	}
	return any;
}

const struct job *jobs_owner(const struct jobs *j, size_t gpu)
{
	for (size_t i = 0; gpu < 64 && i < JOBS_MAX; i++) {
		if (is_used(&j->slots[i]) && (j->slots[i].gpus >> gpu & 1) != 0) {
			return &j->slots[i];
		}
	}
	return NULL;
}

uint64_t jobs_changed_gpus(const struct jobs *before, const struct jobs *now)
{
	uint64_t gpus = 0;

	for (size_t i = 0; i < 64; i++) {
		const struct job *a = jobs_owner(before, i), *b = jobs_owner(now, i);
		bool is_same = a && b ? a->uid == b->uid && strcmp(a->name, b->name) == 0 : a == b;

		gpus |= (uint64_t)!is_same << i;
	}
	return gpus;
}

static uint64_t gpus_where(const struct jobs *j, uid_t uid, bool own)
{
	uint64_t gpus = 0;

	for (size_t i = 0; i < JOBS_MAX; i++) {
		if (is_used(&j->slots[i]) && (j->slots[i].uid == uid) == own) {
			gpus |= j->slots[i].gpus;
		}
	}
	return gpus;
}

uint64_t jobs_gpus_of(const struct jobs *j, uid_t uid)
{
	return gpus_where(j, uid, true);
}

uint64_t jobs_gpus_of_others(const struct jobs *j, uid_t uid)
{
	return gpus_where(j, uid, false);
}
