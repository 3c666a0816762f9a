/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/cgroup.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/clean.h"

/* The kernel reports a path only. Container runtimes and schedulers name cgroups so that a part of
 * the path is the id of a container, the uid of a pod or the number of a job:
 *
 * Docker       /system.slice/docker-ID.scope            /docker/ID
 * containerd   .../kubepods-burstable-podUID.slice/cri-containerd-ID.scope
 *              .../kubepods-burstable-podUID.slice:cri-containerd:ID
 * CRI-O        .../kubepods-podUID.slice/crio-ID.scope
 * any of them  /kubepods/burstable/podUID/ID
 * Podman       /machine.slice/libpod-ID.scope/container  .../libpod-payload-ID
 * Slurm        /system.slice/slurmstepd.scope/job_4711/step_0/user/task_0
 *              /slurm/uid_1000/job_4711/step_batch
 *
 * A part is the text between slashes or colons. If several parts match, the innermost counts. A
 * daemon in a cgroup namespace of its own sees "/../.." in front, which never matches. */

static const struct {
	const char *name; /* text before the id, or the part before it */
	const char *runtime;
} runtimes[] = {
	{ "docker", "docker" }, { "cri-containerd", "containerd" }, { "nerdctl", "containerd" },
	{ "crio", "cri-o" },	{ "libpod-payload", "podman" },	    { "libpod", "podman" },
};

struct part {
	const char *text;
	size_t n;
};

static bool part_is(const struct part *p, const char *text)
{
	return strlen(text) == p->n && memcmp(text, p->text, p->n) == 0;
}

static bool cut_front(struct part *p, const char *text)
{
	size_t n = strlen(text);

	if (p->n < n || memcmp(p->text, text, n) != 0) {
		return false;
	}
	*p = (struct part){ p->text + n, p->n - n };
	return true;
}

static void cut_end(struct part *p, const char *text)
{
	size_t n = strlen(text);

	if (p->n >= n && memcmp(p->text + p->n - n, text, n) == 0) {
		p->n -= n;
	}
}

static size_t count_hex(const char *text, size_t n, const char *beside)
{
	size_t i = 0;

	while (i < n &&
	       (isxdigit((unsigned char)text[i]) || (text[i] && strchr(beside, text[i])))) {
		i++;
	}
	return i;
}

static bool is_id(const struct part *p)
{
	return p->n == CONTAINER_ID_DIGITS && count_hex(p->text, p->n, "") == p->n;
}

/* "docker-ID.scope", or an ID behind a part that is "docker". */
static void read_container(const struct part *p, const struct part *before,
			   struct cgroup_names *ret)
{
	struct part id = *p;
	const char *runtime = "";

	cut_end(&id, ".scope");
	for (size_t i = 0; i < ARRAY_SIZE(runtimes) && !*runtime; i++) {
		struct part rest = id;

		if (part_is(before, runtimes[i].name)) {
			runtime = runtimes[i].runtime;
		} else if (cut_front(&rest, runtimes[i].name) && cut_front(&rest, "-") &&
			   is_id(&rest)) {
			runtime = runtimes[i].runtime;
			id = rest;
		}
	}
	if (is_id(&id)) {
		ret->runtime = runtime;
		snprintf(ret->container, sizeof(ret->container), "%.*s", (int)id.n, id.text);
	}
}

/* "podUID", or "kubepods-burstable-podUID.slice" with underscores in the UID. A static pod's UID
 * (from a file on the node) is 32 digits without hyphens. */
static void read_pod(const struct part *p, struct cgroup_names *ret)
{
	struct part uid = *p;

	cut_end(&uid, ".slice");
	while (uid.n > 0 && !cut_front(&uid, "pod")) {
		const char *next = memchr(uid.text, '-', uid.n);

		uid.n = next ? (size_t)(uid.text + uid.n - next) - 1 : 0;
		uid.text = next ? next + 1 : uid.text;
	}
	if ((uid.n == POD_UID_CHARACTERS || uid.n == 32) &&
	    count_hex(uid.text, uid.n, "-_") == uid.n) {
		snprintf(ret->pod_uid, sizeof(ret->pod_uid), "%.*s", (int)uid.n, uid.text);
		for (char *c = ret->pod_uid; *c; c++) {
			*c = *c == '_' ? '-' : *c;
		}
	}
}

static void read_number(const struct part *p, const char *name, char *ret, size_t size)
{
	struct part number = *p;
	size_t n = 0;

	if (!cut_front(&number, name)) {
		return;
	}
	while (n < number.n && isalnum((unsigned char)number.text[n])) {
		n++;
	}
	if (n > 0 && n == number.n && n < size) {
		snprintf(ret, size, "%.*s", (int)n, number.text);
	}
}

void cgroup_read(const char *path, struct cgroup_names *ret)
{
	bool of_kubelet = strstr(path, "kubepods"), of_slurm = strstr(path, "slurm");
	struct part before = { "", 0 };

	*ret = (struct cgroup_names){ .runtime = "" };
	for (const char *at = path; *at;) {
		struct part p = { at, strcspn(at, "/:") };

		read_container(&p, &before, ret);
		if (of_kubelet) {
			read_pod(&p, ret);
		}
		if (of_slurm) {
			read_number(&p, "job_", ret->job, sizeof(ret->job));
			read_number(&p, "step_", ret->step, sizeof(ret->step));
		}
		before = p;
		at += p.n + (at[p.n] != '\0');
	}
}
