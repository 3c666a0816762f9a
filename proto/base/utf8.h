/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_UTF8_H
#define GPUCTR_BASE_UTF8_H

/* Strings of the protocol are UTF-8, and a message with any other string is refused. Names of
 * programs and texts that were cut may hold anything, so they are repaired before they are sent. */

#include <stdbool.h>
#include <stddef.h>

/* Length of the sequence at s; 0 when it is malformed (overlong, a surrogate, beyond U+10FFFF). */
size_t utf8_sequence(const char *s);

/* Is the sequence at s a control character: C0, DEL, or C1, which terminals obey as well? */
bool utf8_is_control(const char *s);

/* How many characters the first n bytes of s begin. */
size_t utf8_count(const char *s, size_t n);

/* Puts '?' in place of each byte that is not UTF-8. */
void utf8_repair(char *s);

#endif
