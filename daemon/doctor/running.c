/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doctor/running.h"

#include <ctype.h>
#include <dirent.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"

#define PATIENCE_NS CLOCK_NS_PER_S

/* Any process may have these names. The findings are for an administrator; nothing is decided by
 * them. */

const char *const running_names[RUNNING_WORKERS] = { "front", "granter", "gpu", "planner" };

struct process {
	char name[32];
	pid_t parent;
	uid_t uid;
	uint64_t capabilities;
	int filter;
};

static bool read_process(pid_t pid, struct process *ret)
{
	CLEAN_FILE FILE *file = NULL;
	char path[32], line[256];
	unsigned long long bits;
	int found = 0, parent;

	*ret = (struct process){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		found += sscanf(line, "Name: %31s", ret->name) == 1;
		found += sscanf(line, "Uid: %u", &ret->uid) == 1;
		found += sscanf(line, "Seccomp: %d", &ret->filter) == 1;
		if (sscanf(line, "PPid: %d", &parent) == 1) {
			ret->parent = parent;
			found++;
		}
		if (sscanf(line, "CapEff: %llx", &bits) == 1) {
			ret->capabilities = bits;
			found++;
		}
	}
	return found >= 4; /* a kernel without seccomp has no line for it */
}

static pid_t next_pid(DIR *proc)
{
	struct dirent *e;

	while ((e = readdir(proc)) != NULL) {
		if (isdigit((unsigned char)e->d_name[0])) {
			return (pid_t)atol(e->d_name);
		}
	}
	return 0;
}

/* The parent of the first front whose parent is a gpucountd, and is listener unless that is 0. */
static pid_t find_supervisor(DIR *proc, pid_t listener)
{
	struct process p, parent;
	pid_t pid;

	while ((pid = next_pid(proc)) != 0) {
		if (read_process(pid, &p) && strcmp(p.name, running_names[RUNNING_FRONT]) == 0 &&
		    read_process(p.parent, &parent) && strcmp(parent.name, "gpucountd") == 0 &&
		    (listener == 0 || p.parent == listener || parent.parent == listener)) {
			return p.parent;
		}
	}
	return 0;
}

static void note_worker(struct running *d, pid_t pid, const struct process *p)
{
	const uint64_t perfmon = UINT64_C(1) << CAP_PERFMON;

	for (int i = 0; i < RUNNING_WORKERS; i++) {
		if (strcmp(p->name, running_names[i]) == 0) {
			d->workers[i] = (struct running_worker){
				.pid = pid,
				.has_perfmon = (p->capabilities & perfmon) != 0,
				.has_others = (p->capabilities & ~perfmon) != 0,
				.is_filtered = p->filter == 2,
			};
		}
	}
}

bool running_is_any(void)
{
	DIR *proc = opendir("/proc");
	bool any = proc && find_supervisor(proc, 0) != 0;

	if (proc) {
		closedir(proc);
	}
	return any;
}

static void look(pid_t listener, struct running *ret)
{
	DIR *proc = opendir("/proc");
	struct process p;
	pid_t pid;

	*ret = (struct running){ 0 };
	if (!proc) {
		return;
	}
	ret->pid = find_supervisor(proc, listener);
	rewinddir(proc);
	while (ret->pid != 0 && (pid = next_pid(proc)) != 0) {
		if (!read_process(pid, &p)) {
			continue;
		}
		if (pid == ret->pid) {
			ret->uid = p.uid;
		} else if (p.parent == ret->pid) {
			note_worker(ret, pid, &p);
		}
	}
	closedir(proc);
}

/* In a build with a sanitizer none has a filter. */
static bool has_begun(const struct running *d)
{
	int n = 0, n_filtered = 0;

	for (int i = 0; i < RUNNING_WORKERS; i++) {
		n += d->workers[i].pid != 0;
		n_filtered += d->workers[i].is_filtered;
	}
	return n == RUNNING_WORKERS && (n_filtered == 0 || n_filtered == n);
}

/* A worker has its name before it has its filter, and one that is replaced is not there for a
 * moment. */
void running_find(pid_t listener, struct running *ret)
{
	uint64_t by_ns = clock_now_ns() + PATIENCE_NS;

	look(listener, ret);
	while (ret->pid != 0 && !has_begun(ret) && clock_now_ns() < by_ns) {
		nanosleep(&(struct timespec){ .tv_nsec = PATIENCE_NS / 50 }, NULL);
		look(listener, ret);
	}
}
