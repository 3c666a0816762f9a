/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An option of another profiler that a user has pasted, or an option or verb of ours that is gone.
 */
struct foreign {
	const char *word;   /* "--name", "-n", or a verb */
	const char *tool;   /* whose it is; NULL: it was ours */
	const char *answer; /* what does the same here */
};

/* A word of another tool that is taken, because it means what an option of ours does. */
struct foreign_same {
	const char *word, *ours; /* without dashes */
};
extern const struct foreign_same foreign_same[]; /* ends with a word that is NULL */

/* NULL: there is nothing to say of this word. */
const struct foreign *foreign_find(const char *word);
