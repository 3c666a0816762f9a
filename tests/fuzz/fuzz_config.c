/* SPDX-License-Identifier: Apache-2.0 */

/* The configuration file, as text of anybody. It is an administrator's, but one that was edited in
 * a hurry: whatever it holds, the daemon starts with values in their limits or says which line is
 * wrong. Name services are faked: they are slow, and not ours. */

#include <grp.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "daemon/config/config.h"
#include "tests/fuzz/fuzz.h"

__attribute__((visibility("default"))) struct passwd *getpwnam(const char *name)
{
	static struct passwd pw = { .pw_uid = 1234 };

	return strcmp(name, "ann") == 0 ? &pw : NULL;
}

__attribute__((visibility("default"))) struct group *getgrnam(const char *name)
{
	static struct group gr = { .gr_gid = 4321 };

	return strcmp(name, "gpu") == 0 ? &gr : NULL;
}

static void check_count(unsigned n)
{
	fuzz_check(n >= 1 && n <= 65536);
}

static void check_time(uint64_t ns)
{
	fuzz_check(ns >= CLOCK_NS_PER_S && ns <= 3600 * CLOCK_NS_PER_S);
}

static void check_rate(unsigned n)
{
	fuzz_check(n >= 1 && n <= CONFIG_RATE_MAX);
}

static void check_names(const struct policy_names *n)
{
	fuzz_check(n->n_uids <= POLICY_NAMES_MAX && n->n_gids <= POLICY_NAMES_MAX);
}

static void check_rules(const struct policy *p)
{
	fuzz_check(p->n_rules <= POLICY_RULES_MAX);
	for (size_t i = 0; i < p->n_rules; i++) {
		fuzz_check(p->rules[i].n_gpus >= 1 && p->rules[i].n_gpus <= POLICY_RULE_GPUS_MAX);
		for (size_t k = 0; k < p->rules[i].n_gpus; k++) {
			fuzz_check(strnlen(p->rules[i].gpus[k], POLICY_GPU_BYTES) <
				   POLICY_GPU_BYTES);
		}
	}
}

static void check_limits(const struct config *c)
{
	fuzz_check(strnlen(c->socket, sizeof(c->socket)) < sizeof(c->socket));
	fuzz_check(strnlen(c->user, sizeof(c->user)) < sizeof(c->user));
	check_names(&c->policy.allow);
	check_names(&c->policy.device);
	check_rules(&c->policy);
	fuzz_check(strnlen(c->audit_file, sizeof(c->audit_file)) < sizeof(c->audit_file));
	check_rate(c->captures_per_minute);
	check_rate(c->permissions_per_minute);
	check_rate(c->questions_per_minute);
	check_count(c->queue_max);
	check_count(c->connections_max);
	check_count(c->connections_per_user);
	check_count(c->captures_per_user);
	check_time(c->lease_max_ns);
	fuzz_check(c->log_level >= LOG_ERR && c->log_level <= LOG_DEBUG);
}

/* Nobody is let in by accident: with no line that names somebody, a stranger is refused. */
static void check_default_deny(const struct config *c, const uint8_t *data, size_t size)
{
	const struct credentials stranger = { .uid = 77777, .gid = 77777, .pid = 1 };
	struct refusal r;

	if (!memmem(data, size, "allow-", 6) && !memmem(data, size, "group-gpus", 10)) {
		fuzz_check(!policy_allows(&c->policy, &stranger, &r));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	char path[64], error[512] = "";
	struct config c;
	int r;

	if (fd < 0) {
		fd = memfd_create("config", MFD_CLOEXEC);
		fuzz_check(fchmod(fd, 0600) == 0);
	}
	fuzz_check(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	config_init(&c);
	r = config_load(&c, path, getuid(), error, sizeof(error));
	fuzz_check(r <= 0 && (r == 0) == (error[0] == '\0'));
	fuzz_check(strnlen(error, sizeof(error)) < sizeof(error));
	check_limits(&c);
	check_default_deny(&c, data, size);
	return 0;
}
