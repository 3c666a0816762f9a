/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Strings of the protocol are UTF-8, and a message with any other string is refused. Names of
 * programs may contain any bytes, and texts may be cut inside a character, so they are repaired
 * before they are sent. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the sequence at s, of at most max bytes, and its character; both 0 if it is malformed
 * (cut, overlong, a surrogate, beyond U+10FFFF). Nothing behind a NUL is read. */
size_t utf8_decode(const char *s, size_t max, uint32_t *ret);
size_t utf8_sequence(const char *s); /* only the length, for a string that ends with a NUL */

/* Is c in C0, DEL, or in C1, which terminals also obey? */
bool utf8_is_control(uint32_t c);

/* Does the character change the text around it instead of being visible? These are control
 * characters, line separators, and marks that reverse or hide text. */
bool utf8_is_unsafe(uint32_t c);

/* The number of characters that begin in the first n bytes of s. */
size_t utf8_count(const char *s, size_t n);

/* Puts '?' in place of each byte that is not UTF-8. */
void utf8_repair(char *s);

/* Puts '?' also in place of each byte of an unsafe character, so that all characters that are left
 * are visible. */
void utf8_replace_unsafe(char *s);
