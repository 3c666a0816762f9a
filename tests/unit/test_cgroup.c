/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/cgroup.h"

/* Paths as those who make cgroups write them, and paths that only look like them. */

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define INNER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
#define UID_IN_SLICE "f81d4fae_7dec_11d0_a765_00a0c91e6bf6"
#define STATIC_UID "0123456789abcdef0123456789abcdef"
#define KUBEPODS \
	"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_IN_SLICE ".slice"

static const struct {
	const char *path, *runtime, *container, *pod_uid, *job, *step;
} rows[] = {
	{ "/system.slice/docker-" ID ".scope", "docker", ID, "", "", "" },
	{ "/docker/" ID, "docker", ID, "", "", "" },
	{ "/../../system.slice/docker-" ID ".scope", "docker", ID, "", "", "" },
	{ KUBEPODS "/cri-containerd-" ID ".scope", "containerd", ID, UID, "", "" },
	{ "/../.." KUBEPODS "/cri-containerd-" ID ".scope", "containerd", ID, UID, "", "" },
	{ "/system.slice/containerd.service/kubepods-burstable-pod" UID_IN_SLICE
	  ".slice:cri-containerd:" ID,
	  "containerd", ID, UID, "", "" },
	{ "/kubepods.slice/kubepods-pod" UID_IN_SLICE ".slice/crio-" ID ".scope", "cri-o", ID, UID,
	  "", "" },
	{ "/kubepods.slice/kubepods-pod" UID_IN_SLICE ".slice/crio-" ID ".scope/container", "cri-o",
	  ID, UID, "", "" },
	{ "/kubepods/burstable/pod" UID "/" ID, "", ID, UID, "", "" },
	{ "/kubepods/pod" UID "/" ID, "", ID, UID, "", "" },
	{ "/kubepods/besteffort/pod" STATIC_UID "/" ID, "", ID, STATIC_UID, "", "" },
	{ "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
	  "kubelet-kubepods-besteffort-pod" UID_IN_SLICE ".slice/cri-containerd-" ID ".scope",
	  "containerd", ID, UID, "", "" },
	{ "/docker/" ID "/kubelet/kubepods/burstable/pod" UID "/" INNER, "", INNER, UID, "", "" },
	{ "/machine.slice/libpod-" ID ".scope/container", "podman", ID, "", "", "" },
	{ "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container",
	  "podman", ID, "", "", "" },
	{ "/system.slice/a.service/libpod-payload-" ID, "podman", ID, "", "", "" },
	{ "/machine.slice/machine-libpod_pod_" INNER ".slice/libpod-" ID ".scope", "podman", ID, "",
	  "", "" },
	{ "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "", "", "", "4711", "0" },
	{ "/system.slice/n1_slurmstepd.scope/job_4711/step_extern/user", "", "", "", "4711",
	  "extern" },
	{ "/slurm/uid_1000/job_4711/step_batch/task_0", "", "", "", "4711", "batch" },
	{ "/slurm_n1/uid_1000/job_4711", "", "", "", "4711", "" },
	{ "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/libpod-payload-" ID, "podman",
	  ID, "", "4711", "0" },

	{ "", "", "", "", "", "" },
	{ "/", "", "", "", "", "" },
	{ "//::/", "", "", "", "", "" },
	{ "/user.slice/user-1000.slice/session-3.scope", "", "", "", "", "" },
	{ "/system.slice/docker.service", "", "", "", "", "" },
	{ "/system.slice/docker-" STATIC_UID ".scope", "", "", "", "", "" },
	{ "/system.slice/docker-" ID "0.scope", "", "", "", "", "" },
	{ "/machine.slice/libpod-conmon-" ID ".scope", "", "", "", "", "" },
	{ "/kubepods.slice/kubepods-pod.slice", "", "", "", "", "" },
	{ "/kubepods/podsandbox", "", "", "", "", "" },
	{ "/pod" UID "/a", "", "", "", "", "" },
	{ "/backup/job_4711/step_0", "", "", "", "", "" },
	{ "/slurm/uid_1000/job_/step_-1", "", "", "", "", "" },
	{ "/slurm/uid_1000/job_11111111111111111111111111111111111111111111", "", "", "", "", "" },
};

TEST(what_runtimes_and_schedulers_write_is_read)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		/* On the heap, where reading too far is noticed. */
		char *path = strdup(rows[i].path);
		struct cgroup_names n;

		cgroup_read(path, &n);
		if (strcmp(n.runtime, rows[i].runtime) != 0 ||
		    strcmp(n.container, rows[i].container) != 0 ||
		    strcmp(n.pod_uid, rows[i].pod_uid) != 0 || strcmp(n.job, rows[i].job) != 0 ||
		    strcmp(n.step, rows[i].step) != 0) {
			fail_msg("%s: runtime '%s', container '%s', pod '%s', job '%s', step '%s'",
				 path, n.runtime, n.container, n.pod_uid, n.job, n.step);
		}
		free(path);
	}
}
