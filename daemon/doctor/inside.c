/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doctor/inside.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/audit/audit.h"
#include "daemon/gpu/device.h"
#include "proto/nvidia/vendor.h"

/* What a daemon would find if it started now, as this user. Steps are announced, because NVIDIA's
 * libraries may end this process. */

static void step(struct finding_sink *sink, const char *what)
{
	finding_tell(sink, FINDING_STEP, what, "", "%s", "");
}

static void tell_refusal(struct finding_sink *sink, const char *what, const struct refusal *r)
{
	finding_tell(sink, FINDING_FAULT, what, r->remedy, "%s", r->message);
}

/* --- the system --- */

static bool become_daemon(const struct doctor_case *c, struct finding_sink *sink)
{
	if (c->leave_root(c->config->user) == 0) {
		return true;
	}
	finding_tell(sink, FINDING_FAULT, "user",
		     "Create it (systemd-sysusers), or name another by `user`.",
		     "the daemon cannot become the user '%s'",
		     c->config->user[0] ? c->config->user : "gpucountd");
	return false;
}

static void look_at_capability(const struct inside_case *c, bool was_root,
			       struct finding_sink *sink)
{
	if (c->runs) {
		return; /* a daemon runs: its own capabilities were looked at */
	}
	if (c->doctor->has_perfmon()) {
		finding_tell(sink, FINDING_OK, "capability", "",
			     "a daemon that starts like this has CAP_PERFMON");
	} else if (was_root) {
		finding_tell(sink, FINDING_FAULT, "capability",
			     "Run it outside the container, or give the container CAP_PERFMON.",
			     "not even root has CAP_PERFMON here");
	} else {
		finding_tell(
			sink, FINDING_WARNING, "capability",
			"Start it by systemd or as root: it keeps that one and leaves root.",
			"started by this user the daemon has no CAP_PERFMON, and a driver that "
			"restricts counters refuses it");
	}
}

static void look_at_filters(const struct inside_case *c, struct finding_sink *sink)
{
	if (c->runs) {
		return;
	}
	if (access("/proc/sys/kernel/seccomp/actions_avail", F_OK) == 0) {
		finding_tell(sink, FINDING_OK, "seccomp", "", "the kernel knows it");
	} else {
		finding_tell(sink, FINDING_FAULT, "seccomp",
			     "Boot a kernel with CONFIG_SECCOMP_FILTER.",
			     "the kernel has no filters of system calls, and no worker starts "
			     "without its own");
	}
}

static void look_at_audit(const struct config *c, bool may_tell, struct finding_sink *sink)
{
	int r = c->audit_file[0] ? audit_check(c->audit_file) : 0;

	if (!c->audit_file[0]) {
		finding_tell(sink, FINDING_OK, "audit", "", "decisions go to the log alone");
	} else if (r == 0) {
		finding_tell(sink, FINDING_OK, "audit", "", "%s can be written", c->audit_file);
	} else if (!may_tell) {
		finding_tell(sink, FINDING_WARNING, "audit", "Run this as root.",
			     "%s: this user cannot write it; whether the daemon can is not known",
			     c->audit_file);
	} else {
		finding_tell(sink, FINDING_FAULT, "audit",
			     "Make it and its folder writable for the daemon's user, then reload.",
			     "%s: %s; nothing is granted without it", c->audit_file, strerror(-r));
	}
}

/* --- NVIDIA's libraries --- */

static bool look_at_libcuda(struct finding_sink *sink)
{
	struct vendor_driver driver;
	struct refusal r;

	step(sink, "libcuda");
	if (vendor_open_driver(&driver, &r) != 0) {
		tell_refusal(sink, "libcuda", &r);
		return false;
	}
	finding_tell(sink, FINDING_OK, "libcuda", "", "it is found");
	return true;
}

static bool look_at_cupti(struct vendor_host *host, struct finding_sink *sink)
{
	struct refusal r;
	char version[32];

	step(sink, "CUPTI");
	if (vendor_open_host(host, &r) != 0) {
		tell_refusal(sink, "CUPTI", &r);
		return false;
	}
	vendor_version_format(host->version, version, sizeof(version));
	finding_tell(sink, FINDING_OK, "CUPTI", "", "version %s is found", version);
	return true;
}

static void look_at_nvml(const struct config *c, struct finding_sink *sink)
{
	struct vendor_nvml nvml = { 0 };

	step(sink, "NVML");
	vendor_open_nvml(&nvml);
	if (nvml.device_by_uuid && nvml.compute_processes) {
		finding_tell(sink, FINDING_OK, "NVML", "", "it tells who computes on a GPU");
	} else if (c->shared) {
		finding_tell(sink, FINDING_WARNING, "NVML", "Install libnvidia-ml.so.1.",
			     "it is not found: who computes on a GPU cannot be told, which with "
			     "sharing = shared nobody asks");
	} else {
		finding_tell(sink, FINDING_FAULT, "NVML",
			     "Install libnvidia-ml.so.1, or set sharing = shared.",
			     "it is not found: who computes on a GPU cannot be told, so every "
			     "capture is refused");
	}
}

static void tell_driver(const struct device_list *l, struct finding_sink *sink)
{
	static const char *const modes[] = {
		[GPUCTR_OPEN] = "counters are open to every user",
		[GPUCTR_RESTRICTED] = "counters are for administrators alone, whom this daemon "
				      "acts for",
		[GPUCTR_RESTRICTION_UNKNOWN] = "whether it restricts counters is not known",
	};

	if (l->driver[0] == '\0' && l->n > 0) {
		finding_tell(sink, FINDING_WARNING, "driver",
			     "Install libnvidia-ml.so.1; " DEVICE_DRIVER_MIN " or newer is needed.",
			     "it is loaded, but nothing tells its version");
	} else if (l->driver[0] == '\0') {
		finding_tell(sink, FINDING_FAULT, "driver",
			     "Install NVIDIA's driver " DEVICE_DRIVER_MIN " or newer, and load it.",
			     "no driver is loaded");
	} else if (l->restricted == GPUCTR_OPEN) {
		finding_tell(sink, FINDING_WARNING, "driver",
			     "Load it with NVreg_RestrictProfilingToAdminUsers=1: users that need "
			     "no lease are kept apart by nobody.",
			     "%s; %s", l->driver, modes[l->restricted]);
	} else {
		finding_tell(sink, FINDING_OK, "driver", "", "%s; %s", l->driver,
			     modes[l->restricted]);
	}
}

static void tell_gpus(const struct device_list *l, struct finding_sink *sink)
{
	char text[512] = "";
	size_t n = 0;

	if (l->trouble.code != 0) {
		tell_refusal(sink, "GPUs", &l->trouble);
		return;
	}
	for (size_t i = 0; i < l->n && n < sizeof(text); i++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%zu %s (%s)", i ? ", " : "", i,
				      l->devices[i].name, l->devices[i].chip);
	}
	finding_tell(sink, FINDING_OK, "GPUs", "", "%s", text);
}

static void look_at_gpus(const struct vendor_host *host, struct finding_sink *sink)
{
	static struct device_list list;

	step(sink, "GPUs");
	device_list_read(&list, host);
	tell_driver(&list, sink);
	tell_gpus(&list, sink);
}

void inside_look(struct finding_sink *sink, void *userdata)
{
	const struct inside_case *c = userdata;
	const struct config *config = c->doctor->config;
	bool was_root = geteuid() == 0, has_cupti;
	struct vendor_host host;

	if (!become_daemon(c->doctor, sink)) {
		return;
	}
	look_at_capability(c, was_root, sink);
	look_at_filters(c, sink);
	look_at_audit(config, was_root, sink);
	has_cupti = look_at_cupti(&host, sink);
	look_at_nvml(config, sink);
	if (look_at_libcuda(sink)) {
		look_at_gpus(has_cupti ? &host : NULL, sink);
	}
}
