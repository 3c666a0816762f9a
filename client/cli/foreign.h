/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_FOREIGN_H
#define CLIENT_CLI_FOREIGN_H

/* An option of another profiler, as "--name", which is pasted with a command of it: whose it is,
 * and what does the same here. NULL: it is none. */
struct foreign {
	const char *option, *tool, *answer;
};

const struct foreign *foreign_find(const char *option);

#endif
