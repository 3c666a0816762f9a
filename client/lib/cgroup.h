/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the container, pod or job of a process from the path of its cgroup. */

enum { CONTAINER_ID_DIGITS = 64, POD_UID_CHARACTERS = 36, CGROUP_JOB_MAX = 32 };

/* Names that the path does not give are "". */
struct cgroup_names {
	const char *runtime; /* a constant, such as "docker" */
	char container[CONTAINER_ID_DIGITS + 1];
	char pod_uid[POD_UID_CHARACTERS + 1];
	char job[CGROUP_JOB_MAX], step[CGROUP_JOB_MAX]; /* of Slurm */
};

void cgroup_read(const char *path, struct cgroup_names *ret);
