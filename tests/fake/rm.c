/* SPDX-License-Identifier: Apache-2.0 */
/* A model of the driver's permission check.
 *
 * The real driver checks one thing when an object of class 0xB2CC is constructed: does the calling
 * task hold CAP_PERFMON, or is the machine unrestricted? Everything else about handles is checked
 * here only as far as `strict_handles` says. An object belongs to the open file, so a process that
 * holds a duplicate of the descriptor may free it.
 *
 * Every request gives one line in ioctl.log, refused and malformed ones too. */

#include "tests/fake/rm.h"
#include "tests/fake/state.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CAPABILITY_PERFMON = 38 };

struct identity {
	pid_t pid;
	uid_t uid;
	bool capable;
};

static struct identity frozen;
static bool is_frozen;

static bool thread_has_perfmon(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &header, data) != 0) {
		return false;
	}
	return (data[CAPABILITY_PERFMON / 32].effective >> (CAPABILITY_PERFMON % 32)) & 1;
}

static struct identity identity_now(void)
{
	return (struct identity){
		.pid = getpid(),
		.uid = geteuid(),
		.capable = thread_has_perfmon(),
	};
}

void rm_freeze_identity(void)
{
	frozen = identity_now();
	is_frozen = true;
}

static bool is_restricted(void)
{
	static const char *setting;

	if (!setting) {
		setting = getenv("GPUCTR_FAKE_RESTRICTED");
		setting = setting ? setting : "1";
	}
	return strcmp(setting, "0") != 0;
}

/* Drivers of Blackwell, from 570 on, make the object for everybody, and refuse later calls. */
static bool refuses_later(void)
{
	return getenv("GPUCTR_FAKE_BLACKWELL") != NULL;
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Behind a seccomp filter nothing but spinning is sure to be allowed. */
static void pause_briefly(void)
{
	if (is_frozen) {
		__builtin_ia32_pause();
	} else {
		nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	}
}

/* All requests have the parent of their object second. */
static bool hangs(struct fake_state *st, const void *argument)
{
	int32_t hang = atomic_load(&st->ioctl_hang);

	return hang == 1 ||
	       (hang != 0 && argument && ((const uint32_t *)argument)[1] == (uint32_t)hang);
}

static void stall(struct fake_state *st, const void *argument)
{
	uint64_t delay_ns = (uint64_t)atomic_load(&st->ioctl_delay_ms) * 1000000u;
	uint64_t start = now_ns(CLOCK_MONOTONIC);

	while (delay_ns && now_ns(CLOCK_MONOTONIC) - start < delay_ns) {
		pause_briefly();
	}
	if (hangs(st, argument)) {
		atomic_fetch_add(&st->counters.hangs, 1);
	}
	while (hangs(st, argument)) {
		pause_briefly();
	}
}

static void log_request(const struct identity *who, unsigned long request, uint64_t file,
			const struct rm_alloc *a, const struct rm_profiler_params *targets,
			long result)
{
	char line[384];
	int len =
		snprintf(line, sizeof(line),
			 "%llu %d %u %d 0x%lx %lu 0x%x 0x%x 0x%x 0x%x 0x%x 0x%x 0x%llx 0x%x %u %d "
			 "%ld %llu\n",
			 (unsigned long long)now_ns(CLOCK_REALTIME), (int)who->pid,
			 (unsigned int)who->uid, who->capable, _IOC_NR(request), _IOC_SIZE(request),
			 a->h_class, a->h_root, a->h_parent, a->h_new, targets->h_client_target,
			 targets->h_context_target, (unsigned long long)a->rights, a->flags,
			 a->params_size, a->params != 0, result, (unsigned long long)file);

	fake_log(fake_state(), line, (size_t)len);
}

static uint32_t check_handles(struct fake_state *st, uint64_t file, const struct rm_alloc *a)
{
	bool is_root = a->h_class == FAKE_CLASS_ROOT;

	if (a->h_new && fake_object_find(st, file, is_root ? a->h_new : a->h_root, a->h_new)) {
		return RM_INSERT_DUPLICATE_NAME;
	}
	if (is_root || !atomic_load(&st->strict_handles)) {
		return RM_OK;
	}
	if (!fake_object_find(st, file, a->h_root, a->h_root)) {
		return RM_INVALID_CLIENT;
	}
	if (!fake_object_find(st, file, a->h_root, a->h_parent)) {
		return RM_INVALID_OBJECT_PARENT;
	}
	return RM_OK;
}

static uint32_t construct(struct fake_state *st, uint64_t file, const struct identity *who,
			  struct rm_alloc *a)
{
	struct fake_object *object;
	uint32_t status = check_handles(st, file, a);

	if (status != RM_OK) {
		return status;
	}
	object = fake_object_add(st);
	if (!object) {
		return RM_INSUFFICIENT_RESOURCES;
	}
	if (!a->h_new) {
		a->h_new = st->next_handle++;
	}
	*object = (struct fake_object){
		.file = file,
		.h_root = a->h_class == FAKE_CLASS_ROOT ? a->h_new : a->h_root,
		.h_parent = a->h_parent,
		.h_object = a->h_new,
		.h_class = a->h_class,
		.pid = who->pid,
		.permitted = !is_restricted() || who->capable,
		.used = true,
	};
	return RM_OK;
}

static uint32_t allocate(struct fake_state *st, uint64_t file, const struct identity *who,
			 struct rm_alloc *a)
{
	bool is_profiler = a->h_class == FAKE_CLASS_PROFILER;
	uint32_t status = is_profiler ? (uint32_t)atomic_load(&st->rm_status) : RM_OK;

	atomic_fetch_add(&st->counters.allocs, 1);
	if (is_profiler) {
		atomic_fetch_add(&st->counters.profiler_allocs, 1);
	}
	if (status == RM_OK && is_profiler && is_restricted() && !who->capable &&
	    !refuses_later()) {
		status = RM_INSUFFICIENT_PERMISSIONS;
	}
	if (status == RM_OK) {
		fake_lock(st);
		status = construct(st, file, who, a);
		fake_unlock(st);
	}
	if (is_profiler) {
		atomic_fetch_add(status == RM_OK ? &st->counters.profiler_granted
						 : &st->counters.profiler_refused,
				 1);
	}
	return status;
}

static int ioctl_alloc(struct fake_state *st, uint64_t file, unsigned long request, void *argument)
{
	struct identity who = is_frozen ? frozen : identity_now();
	struct rm_profiler_params targets = { 0 };
	struct rm_alloc a = { 0 };
	bool is_old = _IOC_SIZE(request) == sizeof(struct rm_alloc_old);

	memcpy(&a, argument, is_old ? offsetof(struct rm_alloc, rights) : sizeof(a));
	if (is_old) {
		a.params_size = ((struct rm_alloc_old *)argument)->params_size;
	}
	if (a.h_class == FAKE_CLASS_PROFILER && a.params) {
		memcpy(&targets, (const void *)(uintptr_t)a.params, sizeof(targets));
	}
	a.status = allocate(st, file, &who, &a);
	log_request(&who, request, file, &a, &targets, (long)a.status);
	if (is_old) {
		((struct rm_alloc_old *)argument)->h_new = a.h_new;
		((struct rm_alloc_old *)argument)->status = a.status;
	} else {
		memcpy(argument, &a, sizeof(a));
	}
	return 0;
}

/* The status of a free that finds no object: the client is of this file, of another, or of none. */
static uint32_t status_of_client(struct fake_state *st, uint64_t file, uint32_t client)
{
	if (fake_object_find(st, file, client, client)) {
		return RM_OK;
	}
	return fake_client_lives(st, client) ? RM_INVALID_CLIENT : RM_INVALID_OBJECT;
}

static int ioctl_free(struct fake_state *st, uint64_t file, unsigned long request, void *argument)
{
	struct identity who = is_frozen ? frozen : identity_now();
	struct rm_profiler_params none = { 0 };
	struct rm_free *f = argument;
	struct fake_object *object;
	struct rm_alloc shown = { .h_root = f->h_root, .h_parent = f->h_parent, .h_new = f->h_old };

	fake_lock(st);
	object = fake_object_find(st, file, f->h_root, f->h_old);
	shown.h_class = object ? object->h_class : 0;
	f->status = object ? RM_OK : status_of_client(st, file, f->h_root);
	if (object) {
		fake_object_remove(st, object);
	}
	fake_unlock(st);
	atomic_fetch_add(object ? &st->counters.frees : &st->counters.frees_not_found, 1);
	log_request(&who, request, file, &shown, &none, (long)f->status);
	return 0;
}

/* Numbers that no fake library gives are GPU 0's, unless handles are looked at strictly. */
static uint32_t tell_gpu(struct fake_state *st, uint64_t file, const struct rm_control *q,
			 struct rm_gpu_id_params *id)
{
	uint32_t gpu = q->h_object - RM_SUBDEVICE_HANDLE;
	const struct fake_object *o;

	if (q->command != RM_CONTROL_GPU_ID || q->params_size != sizeof(*id)) {
		return RM_NOT_SUPPORTED;
	}
	o = fake_object_find(st, file, q->h_root, q->h_object);
	if (!o && atomic_load(&st->strict_handles)) {
		return RM_OBJECT_NOT_FOUND;
	}
	fake_gpu_uuid(gpu < FAKE_MAX_GPUS ? (int)gpu : 0, id->data);
	id->length = 16;
	return RM_OK;
}

static int ioctl_control(struct fake_state *st, uint64_t file, struct rm_control *q)
{
	fake_lock(st);
	q->status = tell_gpu(st, file, q, (struct rm_gpu_id_params *)(uintptr_t)q->params);
	fake_unlock(st);
	return 0;
}

/* Logs requests that no driver would accept, too: one in the log means that a check failed. */
static int refuse(struct fake_state *st, uint64_t file, unsigned long request, int error)
{
	struct identity who = is_frozen ? frozen : identity_now();
	struct rm_profiler_params targets = { 0 };
	struct rm_alloc none = { 0 };

	atomic_fetch_add(file ? &st->counters.malformed : &st->counters.foreign, 1);
	log_request(&who, request, file, &none, &targets, error);
	return error;
}

int rm_ioctl(uint64_t file, unsigned long request, void *argument)
{
	struct fake_state *st = fake_state();
	unsigned long size = _IOC_SIZE(request);
	int forced;

	if (!file) {
		return refuse(st, file, request, -ENOTTY);
	}
	stall(st, argument);
	forced = atomic_load(&st->ioctl_errno);
	if (forced) {
		return refuse(st, file, request, -forced);
	}
	if (!argument) {
		return refuse(st, file, request, -EFAULT);
	}
	if (_IOC_NR(request) == RM_ESC_ALLOC &&
	    (size == sizeof(struct rm_alloc) || size == sizeof(struct rm_alloc_old))) {
		return ioctl_alloc(st, file, request, argument);
	}
	if (_IOC_NR(request) == RM_ESC_CONTROL && size == sizeof(struct rm_control)) {
		return ioctl_control(st, file, argument);
	}
	if (_IOC_NR(request) == RM_ESC_FREE && size == sizeof(struct rm_free)) {
		return ioctl_free(st, file, request, argument);
	}
	return refuse(st, file, request, -EINVAL);
}
