/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/utf8.h"

#include <string.h>

size_t utf8_decode(const char *text, size_t max, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	size_t n = s[0] < 0x80		   ? 1
		   : (s[0] & 0xe0) == 0xc0 ? 2
		   : (s[0] & 0xf0) == 0xe0 ? 3
		   : (s[0] & 0xf8) == 0xf0 ? 4
					   : 0;
	uint32_t c = n <= 1 ? s[0] : s[0] & (0x7fu >> n);

	*ret = 0;
	if (n > max) {
		return 0;
	}
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			return 0;
		}
		c = c << 6 | (s[i] & 0x3f);
	}
	if (n > 1 && (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))) {
		return 0;
	}
	*ret = n ? c : 0;
	return n;
}

size_t utf8_sequence(const char *s)
{
	uint32_t c;

	return utf8_decode(s, 4, &c);
}

bool utf8_is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

bool utf8_is_unsafe(uint32_t c)
{
	return utf8_is_control(c) || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

size_t utf8_count(const char *s, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		count += ((unsigned char)s[i] & 0xc0) != 0x80;
	}
	return count;
}

void utf8_repair(char *s)
{
	while (*s) {
		size_t n = utf8_sequence(s);

		if (n == 0) {
			*s = '?';
			n = 1;
		}
		s += n;
	}
}

void utf8_replace_unsafe(char *s)
{
	utf8_repair(s);
	while (*s) {
		uint32_t c;
		size_t n = utf8_decode(s, 4, &c);

		if (utf8_is_unsafe(c)) {
			memset(s, '?', n);
		}
		s += n;
	}
}
