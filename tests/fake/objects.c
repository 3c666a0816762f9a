/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake driver and the fake profiler both use: objects of the resource manager, owners of
 * the profiling hardware, processes with contexts.
 *
 * A GPU has one owner at a time. An owner is void when its process has ended or its object was
 * destroyed, whoever destroyed it: revocation relies on that. */

#include "tests/fake/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_object *fake_object_find(struct fake_state *st, uint64_t file, uint32_t h_root,
				     uint32_t h_object)
{
	for (uint32_t i = 0; i < st->objects_end; i++) {
		struct fake_object *o = &st->objects[i];

		if (o->used && o->file == file && o->h_root == h_root && o->h_object == h_object) {
			return o;
		}
	}
	return NULL;
}

bool fake_client_lives(const struct fake_state *st, uint32_t client)
{
	for (uint32_t i = 0; i < st->objects_end; i++) {
		const struct fake_object *o = &st->objects[i];

		if (o->used && o->h_root == client && o->h_object == client) {
			return true;
		}
	}
	return false;
}

struct fake_object *fake_object_add(struct fake_state *st)
{
	for (uint32_t i = 0; i < FAKE_MAX_OBJECTS; i++) {
		if (!st->objects[i].used) {
			if (i >= st->objects_end) {
				st->objects_end = i + 1;
			}
			return &st->objects[i];
		}
	}
	return NULL;
}

static bool is_child(const struct fake_object *child, const struct fake_object *parent)
{
	return child->used && child->file == parent->file && child->h_root == parent->h_root &&
	       child->h_object != parent->h_object &&
	       (child->h_parent == parent->h_object || parent->h_object == parent->h_root);
}

/* Removing an object removes its children, to any depth. Children are found by their handles alone,
 * so each round removes the children of one object that was removed before. */
void fake_object_remove(struct fake_state *st, struct fake_object *object)
{
	struct fake_object parent = *object;

	memset(object, 0, sizeof(*object));
	for (uint32_t i = 0; i < st->objects_end; i++) {
		if (is_child(&st->objects[i], &parent)) {
			fake_object_remove(st, &st->objects[i]);
		}
	}
	while (st->objects_end > 0 && !st->objects[st->objects_end - 1].used) {
		st->objects_end--;
	}
}

bool fake_object_exists(uint64_t file, uint32_t h_root, uint32_t h_object)
{
	struct fake_state *st = fake_state();
	bool found;

	fake_lock(st);
	found = fake_object_find(st, file, h_root, h_object) != NULL;
	fake_unlock(st);
	return found;
}

bool fake_object_is_permitted(uint64_t file, uint32_t h_root, uint32_t h_object)
{
	struct fake_state *st = fake_state();
	const struct fake_object *o;
	bool permitted;

	fake_lock(st);
	o = fake_object_find(st, file, h_root, h_object);
	permitted = o && o->permitted;
	fake_unlock(st);
	return permitted;
}

static uint64_t read_start_time(pid_t pid)
{
	char path[64], text[1024];
	unsigned long long start = 0;
	const char *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return 0;
	}
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0) {
		return 0;
	}
	text[n] = '\0';
	/* Fields are counted from behind the name, which may hold spaces. Field 3 is the state; a
	 * zombie counts as ended here. */
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || p[2] == 'Z') {
		return 0;
	}
	p += 2;
	for (int field = 3; p && field < 22; field++) {
		p = strchr(p + 1, ' ');
	}
	return p && sscanf(p, " %llu", &start) == 1 ? start : 0;
}

/* Of a program that has shut itself in no file can be opened: its own time is known from before. */
uint64_t fake_start_time(pid_t pid)
{
	static _Atomic pid_t own_pid;
	static _Atomic uint64_t own_time;

	if (pid != getpid()) {
		return read_start_time(pid);
	}
	if (atomic_load(&own_pid) != pid) {
		atomic_store(&own_time, read_start_time(pid));
		atomic_store(&own_pid, pid);
	}
	return atomic_load(&own_time);
}

static bool owner_is_alive(struct fake_state *st, const struct fake_owner *owner)
{
	uint64_t start_time = owner->pid ? fake_start_time(owner->pid) : 0;

	return start_time != 0 && start_time == owner->start_time &&
	       fake_object_find(st, owner->file, owner->h_root, owner->h_object);
}

bool fake_gpu_acquire(int gpu, const struct fake_owner *owner)
{
	struct fake_state *st = fake_state();
	struct fake_owner *now = &st->owners[gpu];
	uint64_t start_time = fake_start_time(owner->pid);
	bool taken;

	fake_lock(st);
	taken = !owner_is_alive(st, now) || (now->pid == owner->pid && now->token == owner->token);
	if (taken) {
		*now = *owner;
		now->start_time = start_time;
	}
	fake_unlock(st);
	return taken;
}

void fake_gpu_release(int gpu, uint64_t token)
{
	struct fake_state *st = fake_state();

	fake_lock(st);
	if (st->owners[gpu].pid == getpid() && st->owners[gpu].token == token) {
		memset(&st->owners[gpu], 0, sizeof(st->owners[gpu]));
	}
	fake_unlock(st);
}

bool fake_gpu_is_free(int gpu)
{
	struct fake_state *st = fake_state();
	bool is_free;

	fake_lock(st);
	is_free = !owner_is_alive(st, &st->owners[gpu]);
	fake_unlock(st);
	return is_free;
}

bool fake_gpu_is_ours(int gpu)
{
	struct fake_state *st = fake_state();
	bool is_ours;

	fake_lock(st);
	is_ours = st->owners[gpu].pid == getpid() || !owner_is_alive(st, &st->owners[gpu]);
	fake_unlock(st);
	return is_ours;
}

void fake_done_add(int gpu, const struct fake_done *what)
{
	struct fake_state *st = fake_state();
	struct fake_done *d;
	uint64_t number;

	if ((atomic_load(&st->samplers) >> gpu & 1) == 0) {
		return;
	}
	number = atomic_fetch_add(&st->done_used, 1) + 1;
	d = &st->done[number % FAKE_MAX_DONE];
	atomic_store(&d->number, 0);
	d->gpu = gpu;
	d->begin_ns = what->begin_ns;
	d->ns = what->ns;
	d->threads = what->threads;
	d->warps = what->warps;
	d->kernels = what->kernels;
	atomic_store(&d->number, number);
}

bool fake_done_take(uint64_t *at, struct fake_done *ret)
{
	struct fake_state *st = fake_state();
	uint64_t used = atomic_load(&st->done_used), number = *at + 1;
	const struct fake_done *d;

	if (used > FAKE_MAX_DONE / 2 && number < used - FAKE_MAX_DONE / 2) {
		number = used - FAKE_MAX_DONE / 2;
	}
	d = &st->done[number % FAKE_MAX_DONE];
	if (number > used || atomic_load(&d->number) != number) {
		return false;
	}
	*ret = (struct fake_done){ .gpu = d->gpu,
				   .begin_ns = d->begin_ns,
				   .ns = d->ns,
				   .threads = d->threads,
				   .warps = d->warps,
				   .kernels = d->kernels };
	*at = number;
	return true;
}

void fake_user_add(int gpu)
{
	struct fake_state *st = fake_state();

	fake_lock(st);
	for (size_t i = 0; i < FAKE_MAX_USERS; i++) {
		struct fake_user *u = &st->users[i];

		if (!u->pid || fake_start_time(u->pid) != u->start_time) {
			u->pid = getpid();
			u->gpu = gpu;
			u->start_time = fake_start_time(u->pid);
			break;
		}
	}
	fake_unlock(st);
}

void fake_user_remove(int gpu)
{
	struct fake_state *st = fake_state();

	fake_lock(st);
	for (size_t i = 0; i < FAKE_MAX_USERS; i++) {
		if (st->users[i].pid == getpid() && st->users[i].gpu == gpu) {
			memset(&st->users[i], 0, sizeof(st->users[i]));
			break;
		}
	}
	fake_unlock(st);
}

int fake_gpu_count(void)
{
	const char *text = getenv("GPUCTR_FAKE_GPUS");
	int count = atomic_load(&fake_state()->gpus);

	if (count == 0) {
		count = text ? atoi(text) : 1;
	}
	return count < 0 ? 0 : count > FAKE_MAX_GPUS ? FAKE_MAX_GPUS : count;
}

bool fake_gpu_is_divided(int gpu)
{
	const char *gpus = getenv("GPUCTR_FAKE_MIG");

	return gpus && (strtoul(gpus, NULL, 10) >> gpu & 1) != 0;
}

void fake_gpu_uuid(int gpu, uint8_t ret_uuid[16])
{
	for (int i = 0; i < 16; i++) {
		ret_uuid[i] = (uint8_t)(0xfa ^ (i * 17) ^ (i == 15 ? gpu : 0));
	}
}
