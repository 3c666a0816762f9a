/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_UTF8_H
#define GPUCTR_BASE_UTF8_H

/* Strings of the protocol are UTF-8, and a message with any other string is refused. Names of
 * programs and texts that were cut may hold anything, so they are repaired before they are sent. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the sequence at s; 0 when it is malformed (overlong, a surrogate, beyond U+10FFFF). */
size_t utf8_sequence(const char *s);

/* The character of the sequence at s, which is whole. */
uint32_t utf8_character(const char *s);

/* Does the sequence at s do something to the text around it, instead of being seen? Control
 * characters (C0, DEL, and C1, which terminals obey as well), line separators, and the marks that
 * turn text around or hide it. */
bool utf8_is_unsafe(const char *s);

/* How many characters the first n bytes of s begin. */
size_t utf8_count(const char *s, size_t n);

/* Puts '?' in place of each byte that is not UTF-8. */
void utf8_repair(char *s);

/* The same, and in place of each byte of a sequence that is unsafe: what is left is seen as text.
 */
void utf8_replace_unsafe(char *s);

#endif
