/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/admission.h"

#include <stdio.h>
#include <string.h>

#include "daemon/front/front.h"
#include "daemon/front/users.h"

/* The GPUs that the machine has. */
static uint64_t known_gpus(const struct front *f)
{
	size_t n = f->machine.gpus.n;

	return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* The GPUs of uid's jobs, when the settings let the owner of a job measure. */
static uint64_t gpus_by_job(const struct front *f, uid_t uid)
{
	return f->config.policy.job_owners ? jobs_gpus_of(&f->jobs, uid) & known_gpus(f) : 0;
}

bool admission_allows(const struct front *f, const struct credentials *c, struct refusal *r)
{
	return gpus_by_job(f, c->uid) != 0 || policy_allows(&f->config.policy, c, r);
}

bool admission_allows_questions(const struct front *f, const struct credentials *c,
				struct refusal *r)
{
	return policy_monitors(&f->config.policy, c) || admission_allows(f, c, r);
}

bool admission_is_known(const struct front *f, const struct credentials *c, struct refusal *r)
{
	if (admission_allows_questions(f, c, r)) {
		return true;
	}
	list_for_each(l, (struct list *)(uintptr_t)&f->registry.captures) {
		if (list_entry(l, struct capture, link)->target == c->uid) {
			return true;
		}
	}
	return false;
}

bool admission_lets_in(const struct front *f, const struct credentials *c, struct refusal *r)
{
	return admission_is_known(f, c, r) || f->config.policy.operator_captures;
}

static uint64_t gpus_by_policy(const struct front *f, const struct credentials *c)
{
	uint64_t gpus = 0;

	for (size_t i = 0; i < f->machine.gpus.n && i < 64; i++) {
		if (policy_allows_gpu(&f->config.policy, c, i, f->machine.gpus.v[i].uuid)) {
			gpus |= UINT64_C(1) << i;
		}
	}
	return gpus;
}

/* The GPUs that belong to jobs of users other than target, whose programs are measured. None for
 * root of the machine, who reports the jobs and may measure all GPUs. */
static uint64_t gpus_of_others(const struct front *f, uid_t target, bool host_root)
{
	return host_root ? 0 : jobs_gpus_of_others(&f->jobs, target);
}

uint64_t admission_by_job(const struct front *f, const struct credentials *c, uint64_t gpus)
{
	return gpus & ~gpus_by_policy(f, c);
}

uint64_t admission_lost(const struct front *f, const struct capture *c)
{
	return c->reservation.gpus & (gpus_of_others(f, c->target, c->host_root) |
				      (c->by_job & ~jobs_gpus_of(&f->jobs, c->uid)));
}

static int refuse_gpu(const struct front *f, uid_t uid, uid_t target, uint64_t gpus,
		      struct refusal *r);

bool admission_still_allows(const struct front *f, const struct credentials *who,
			    const struct capture *c, struct refusal *r)
{
	uint64_t may = gpus_by_policy(f, who) | gpus_by_job(f, who->uid);
	uint64_t lost = c->reservation.gpus & known_gpus(f) & ~may;

	if (!admission_allows(f, who, r)) {
		return false;
	}
	if (lost != 0) {
		refuse_gpu(f, who->uid, c->target, lost, r);
		return false;
	}
	if (c->target != c->uid && !policy_operates(&f->config.policy, who)) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED,
			    "Ask the owner of the programs, or the administrator about "
			    "`operator-captures` and `operator-groups` in gpucountd.conf.",
			    "uid %u may not capture other users' programs any more",
			    (unsigned)who->uid);
		return false;
	}
	if (c->device && !policy_allows_device(&f->config.policy, who)) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED, "Run it again.",
			    "uid %u may not count the whole GPU any more", (unsigned)who->uid);
		return false;
	}
	return true;
}

uint64_t admission_find_gpu(const struct front *f, const char *name)
{
	for (size_t i = 0; i < f->machine.gpus.n && i < 64; i++) {
		char index[24];

		snprintf(index, sizeof(index), "%zu", i);
		if (strcmp(name, index) == 0 || strcmp(name, f->machine.gpus.v[i].uuid) == 0) {
			return UINT64_C(1) << i;
		}
	}
	return 0;
}

const char *admission_chip(const struct front *f, const char *chip)
{
	return chip[0] == '\0' && f->machine.gpus.n > 0 ? f->machine.gpus.v[0].chip : chip;
}

/* Fills the reason why uid may not measure one of gpus for programs of target. */
static int refuse_gpu(const struct front *f, uid_t uid, uid_t target, uint64_t gpus,
		      struct refusal *r)
{
	size_t gpu = (size_t)__builtin_ctzll(gpus);
	const struct job *job = jobs_owner(&f->jobs, gpu);
	char owner[64];

	if (job && job->uid != target) {
		users_name(f->users, job->uid, owner, sizeof(owner));
		refusal_set(r, GPUCTR_E_NOT_ALLOWED,
			    "Measure within a job of your own, or take another GPU with --devices.",
			    "GPU %zu belongs to job %s of %s", gpu, job->name, owner);
	} else {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED,
			    "Take another GPU with --devices, or ask the administrator about "
			    "`group-gpus` in gpucountd.conf.",
			    "uid %u may not measure GPU %zu of this machine", (unsigned)uid, gpu);
	}
	return r->code;
}

static int find_named(const struct front *f, const struct wire_strings *names, uint64_t *ret,
		      struct refusal *r)
{
	for (size_t i = 0; i < names->n; i++) {
		uint64_t bit = admission_find_gpu(f, names->v[i]);

		if (bit == 0) {
			refusal_set(r, GPUCTR_E_NO_GPU,
				    "`gpuctr-client status` lists them with index and UUID.",
				    "this machine has no GPU '%.100s'", names->v[i]);
			return r->code;
		}
		*ret |= bit;
	}
	return 0;
}

int admission_choose(const struct front *f, const struct credentials *c, uid_t target,
		     const struct wire_open_capture *o, uint64_t *ret, struct refusal *r)
{
	uint64_t may = (gpus_by_policy(f, c) | gpus_by_job(f, c->uid)) &
		       ~gpus_of_others(f, target, c->host_root);
	uint64_t asked = 0;

	if (o->gpus.n == 0) {
		*ret = may;
		return may != 0 ? 0 : refuse_gpu(f, c->uid, target, 1, r);
	}
	if (find_named(f, &o->gpus, &asked, r) != 0) {
		return r->code;
	}
	if (o->gpus_allowed && (asked & may) != 0) {
		asked &= may;
	}
	*ret = asked;
	return (asked & ~may) == 0 ? 0 : refuse_gpu(f, c->uid, target, asked & ~may, r);
}
