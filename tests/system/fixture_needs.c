/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a machine may lack: a test asks for it first, and skips with the reason. */

void fixture_skip(const char *reason)
{
	print_message("SKIP: %s\n", reason);
	skip();
	abort();
}

void fixture_need_no_thread_sanitizer(const char *reason)
{
#ifdef __SANITIZE_THREAD__
	fixture_skip(reason);
#else
	(void)reason;
#endif
}

bool fixture_has_capability(int capability)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct have[2];

	return geteuid() == 0 && syscall(SYS_capget, &header, have) == 0 &&
	       (have[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)) != 0;
}

void fixture_need_root(void)
{
	if (geteuid() != 0) {
		fixture_skip("needs root, to run the daemon and programs as different users");
	}
}

void fixture_need_perfmon(void)
{
	fixture_need_root();
	if (!fixture_has_capability(CAP_PERFMON)) {
		fixture_skip("needs CAP_PERFMON, which root lacks here, as in most containers");
	}
}

void fixture_need_two_users(void)
{
	if (geteuid() != 0) {
		fixture_skip("needs root, to tell the captures of two users apart");
	}
}

void fixture_need_root_to_look(void)
{
	if (geteuid() != 0) {
		fixture_skip("needs root, to look at what the daemon's processes have open");
	}
}
