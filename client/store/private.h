/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/store/store.h"

/* Makes a folder PREFIXxxxxxx that others cannot enter, and returns the path for a file in it.
 * Returns NULL with errno set on failure. */
char *store_private_make(const char *prefix);
/* The same in $TMPDIR, else in /var/tmp: /tmp may keep large files in memory, and comes last. */
char *store_private_temporary(void);
/* Removes the folder with what is in it, and frees the path. Takes NULL, returns NULL. */
char *store_private_remove(char *path);

/* Copies a capture whose writer was killed in a commit, and its journal, into a private folder.
 * Returns 0 and the copy's path, or STORE_E_BUSY if the capture changed. name: for messages. */
int store_private_copy(const char *path, const char *name, struct store_error *error, char **ret);

/* Copies the rest of the file at `from` to `to`. 0 or a negative errno. */
int store_private_copy_data(int from, int to);
