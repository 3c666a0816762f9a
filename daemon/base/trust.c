/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/trust.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The path's links are resolved first, then its folders are checked from the root down. Nobody else
 * can move a folder inside a trusted folder, so when each folder was trusted at its check, the
 * whole path stays trusted. */

static int check_owner(const struct stat *st, const char *path, uid_t user, char *error,
		       size_t size)
{
	if (st->st_uid != 0 && st->st_uid != user) {
		snprintf(error, size,
			 "%s belongs to uid %u, who could change it at any time: give it to root, "
			 "or choose another path",
			 path, (unsigned)st->st_uid);
		return -EPERM;
	}
	return 0;
}

static int check_mode(const struct stat *st, const char *path, char *error, size_t size)
{
	bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);

	if ((st->st_mode & (S_IWGRP | S_IWOTH)) && !sticky) {
		snprintf(error, size,
			 "%s can be written by others (mode %04o): chmod go-w it, or choose "
			 "another path",
			 path, (unsigned)st->st_mode & 07777);
		return -EPERM;
	}
	return 0;
}

static int check_one(const char *path, uid_t user, char *error, size_t size)
{
	struct stat st;
	int r;

	if (lstat(path, &st) < 0) {
		r = -errno;
		snprintf(error, size, "%s: %s", path, strerror(errno));
		return r;
	}
	if (!S_ISDIR(st.st_mode)) {
		snprintf(error, size, "%s is not a folder", path);
		return -ENOTDIR;
	}
	r = check_owner(&st, path, user, error, size);
	return r < 0 ? r : check_mode(&st, path, error, size);
}

int trust_check_folder(const char *path, uid_t user, char *ret_real, char *error, size_t size)
{
	char real[PATH_MAX];
	int r;

	if (!realpath(path, real)) {
		r = -errno;
		snprintf(error, size, "%s: %s", path, strerror(errno));
		return r;
	}
	r = check_one("/", user, error, size);
	for (char *end = real + 1; r == 0 && real[1]; end++) {
		char c = *end;

		if (c == '/' || c == '\0') {
			*end = '\0';
			r = check_one(real, user, error, size);
			*end = c;
		}
		if (c == '\0') {
			break;
		}
	}
	if (r == 0 && ret_real) {
		memcpy(ret_real, real, strlen(real) + 1);
	}
	return r;
}

int trust_check_file(int fd, const char *path, uid_t user, char *error, size_t size)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0) {
		r = -errno;
		snprintf(error, size, "%s: %s", path, strerror(errno));
		return r;
	}
	r = check_owner(&st, path, user, error, size);
	r = r < 0 ? r : check_mode(&st, path, error, size);
	if (r < 0) {
		return r;
	}
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
		 slash ? path : ".");
	return trust_check_folder(folder, user, NULL, error, size);
}
