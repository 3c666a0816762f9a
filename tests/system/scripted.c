/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/scripted.h"

void scripted_sampler(struct fixture *f, const char *body)
{
	static const char head[] =
		"#!/usr/bin/env python3\n"
		"import struct, sys, signal, time\n"
		"gpu = sys.argv[sys.argv.index('--gpu') + 1]\n"
		"names = sys.argv[sys.argv.index('--metrics') + 1].split(',')\n"
		"out = sys.stdout.buffer\n"
		"def message(kind, body):\n"
		"    out.write(struct.pack('=II', kind, len(body)) + body)\n"
		"    out.flush()\n"
		"def begin(gpu, sets, slow=200000):\n"
		"    global width\n"
		"    width = len(sets) // (max(sets) + 1)\n"
		"    message(1, struct.pack('=II16Q', 4, len(names), 10000, slow * max(sets),\n"
		"                           *14 * [0]) +\n"
		"            b''.join(n.encode() + b'\\0' for n in [gpu] + names) + bytes(sets))\n"
		"first, at = 0, time.time_ns()\n"
		"def samples(length, n, value=0.0, lost=0):\n"
		"    global first, at\n"
		"    one = struct.pack('=Q%dd' % width, length, *width * [value])\n"
		"    first += lost\n"
		"    message(2, struct.pack('=QQqII', first, lost, at, n, 0) + one * n)\n"
		"    first += n\n"
		"    at += n * length\n"
		"def turn(to, interval, change):\n"
		"    global at\n"
		"    at += change\n"
		"    message(4, struct.pack('=IIQQ', to, 0, interval, change))\n"
		"def end():\n"
		"    message(3, struct.pack('=IIQqQQQQQ', 0, 0, 0, at, first, 0, 0, 0, 0) + "
		"b'\\0\\0')\n";
	char *text = malloc(sizeof(head) + strlen(body) + 1);

	assert_non_null(text);
	strcpy(text, head);
	strcat(text, body);
	fixture_use_sampler(f, text);
	free(text);
}
