/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/store/store.h"

/* The path of a file, which is not there yet, in a new folder that others cannot enter:
 * PREFIXxxxxxx. prefix NULL: where temporary files belong. NULL: errno says why. */
char *store_private_make(const char *prefix);
/* Removes the folder with what is in it, and frees the path. Takes NULL, returns NULL. */
char *store_private_remove(char *path);

/* Copies a capture whose writer was killed in a commit, and its journal, into a folder as above: 0
 * and the copy's path; STORE_E_BUSY when it was changed meanwhile. name: what messages call it. */
int store_private_copy(const char *path, const char *name, struct store_error *error, char **ret);

/* Copies what can still be read from one descriptor to the other. 0 or a negative errno. */
int store_private_copy_data(int from, int to);
