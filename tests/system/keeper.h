/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who outlives a test that is killed, and tidies up after it: ends every process that was started
 * in its folder, then removes what it left in /tmp. */

enum keeper_folder {
	KEEPER_FIXTURE, /* of the present test; its name is in its programs' environment */
	KEEPER_STAGE,	/* copies of what was built */
	KEEPER_FOLDERS,
};

/* Begins to watch the calling process, once. Before it adopts orphans, or it adopts the keeper. */
void keeper_start(void);

/* What there is to tidy up from now on; NULL: nothing. */
void keeper_note(enum keeper_folder which, const char *folder);
