/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/users.h"

#include <pwd.h>
#include <stdio.h>

#include "proto/base/clean.h"
#include "proto/base/utf8.h"

void users_name(uid_t uid, char *name, size_t size)
{
	CLEAN_FILE FILE *f = fopen("/etc/passwd", "re");
	const struct passwd *pw;

	snprintf(name, size, "uid %u", (unsigned)uid);
	while (f && (pw = fgetpwent(f)) != NULL) {
		if (pw->pw_uid == uid) {
			snprintf(name, size, "%s", pw->pw_name);
			utf8_repair(name);
			return;
		}
	}
}
