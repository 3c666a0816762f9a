/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/privilege.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"

/* Capabilities are set by the raw system calls: two words and one bit do not need a library. */

static int set_capabilities(bool perfmon, bool inheritable)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct have[2], want[2] = { { 0 } };
	unsigned word = CAP_TO_INDEX(CAP_PERFMON), bit = CAP_TO_MASK(CAP_PERFMON);

	if (syscall(SYS_capget, &header, have) < 0) {
		return -errno;
	}
	if (perfmon) {
		want[word].permitted = have[word].permitted & bit;
		want[word].effective = want[word].permitted;
		want[word].inheritable = inheritable ? want[word].permitted : 0;
	}
	return syscall(SYS_capset, &header, want) < 0 ? -errno : 0;
}

bool privilege_has_perfmon(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct have[2];

	return syscall(SYS_capget, &header, have) == 0 &&
	       (have[CAP_TO_INDEX(CAP_PERFMON)].effective & CAP_TO_MASK(CAP_PERFMON)) != 0;
}

static int become(const char *name)
{
	const struct passwd *pw = getpwnam(name[0] ? name : "gpucountd");

	if (!pw && name[0] == '\0') {
		pw = getpwnam("nobody");
	}
	if (!pw) {
		log_error("there is no user %s to become: create it or name another with --user",
			  name[0] ? name : "gpucountd or nobody");
		return -ENOENT;
	}
	if (prctl(PR_SET_KEEPCAPS, 1) < 0 || initgroups(pw->pw_name, pw->pw_gid) < 0 ||
	    setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0) {
		log_error("cannot become %s: %s", pw->pw_name, strerror(errno));
		return -errno;
	}
	return 0;
}

static void raise_descriptor_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

/* The daemon's processes run as one user, and some hold a capability: without this call each could
 * read and write the memory of the others through /proc. */
int privilege_hide(void)
{
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

/* Checks that the daemon's user may execute this program, because the workers are executed from it
 * as that user. */
static int check_program(void)
{
	int r = access("/proc/self/exe", X_OK) < 0 ? -errno : 0;

	if (r < 0) {
		log_error(
			"the daemon's user cannot execute this program (%s): make it readable and "
			"executable for everybody, or name another user with --user",
			strerror(-r));
	}
	return r;
}

int privilege_leave_root(const char *user)
{
	int r = getuid() == 0 || geteuid() == 0 ? become(user) : 0;

	r = r < 0 ? r : check_program();
	raise_descriptor_limit();
	if (r == 0) {
		r = set_capabilities(true, false);
	}
	if (r == 0) {
		r = privilege_hide();
	}
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		r = -errno;
	}
	if (r == 0 && !privilege_has_perfmon()) {
		log_notice("without CAP_PERFMON: a driver that restricts counters will refuse; "
			   "recordings can be played");
	}
	return r;
}

/* An ambient capability stays when a program without file capabilities is executed, and the loader
 * then still obeys its environment variables. */
int privilege_pass_on(void)
{
	int r = set_capabilities(true, true);

	if (r == 0 && privilege_has_perfmon() &&
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_PERFMON, 0, 0) < 0) {
		r = -errno;
	}
	return r;
}

/* A capability that is not inheritable is not ambient any more either. */
int privilege_enter(bool keep_perfmon)
{
	return set_capabilities(keep_perfmon, false);
}
