/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The container, pod or job of a process, by the path of its cgroup. */

enum { CONTAINER_ID_DIGITS = 64, POD_UID_CHARACTERS = 36, CGROUP_JOB_MAX = 32 };

/* "" where the path says nothing. */
struct cgroup_names {
	const char *runtime; /* a constant of ours */
	char container[CONTAINER_ID_DIGITS + 1];
	char pod_uid[POD_UID_CHARACTERS + 1];
	char job[CGROUP_JOB_MAX], step[CGROUP_JOB_MAX]; /* Slurm's */
};

void cgroup_read(const char *path, struct cgroup_names *ret);
