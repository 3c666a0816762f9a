/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The codes themselves are public: enum gpuctr_error_code in <gpuctr/gpuctr.h>. */

#include <stdint.h>

#include <gpuctr/gpuctr.h>

const char *status_to_string(int code);

/* A refusal for a peer: code, cause and remedy, stored in the struct. */
struct refusal {
	int code;
	char message[768];
	char remedy[768];
};

/* Fills r. format and its arguments, as for printf(), give the message; remedy is plain text. Both
 * are copied, and cut to their size. */
void refusal_set(struct refusal *r, int code, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The code of a peer's refusal as a function's result: always positive, since 0 would be success
 * and a negative number an errno. */
int refusal_code(uint32_t sent);
